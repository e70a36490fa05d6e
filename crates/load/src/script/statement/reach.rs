//! What a statement does beyond its answer, by its words: whether it may change data, and whether the transaction that it stands
//! in would end with it. What is not known to be harmless is not: a statement that is new to us must not slip through.

use super::lexer::{Unit, Units};
use crate::sql::Dialect;

/// What a statement does beyond its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reach {
    /// Whether it may change data. What a function does cannot be told, but for those of sequences.
    pub writes: bool,
    /// Whether it begins or ends transactions, or decides who does; savepoints do not.
    pub controls: bool,
    /// Whether the server may commit because of it what came before it.
    pub commits: bool,
}

/// What the statement does, by the rules of this dialect.
pub(in super::super) fn reach(text: &str, dialect: Dialect) -> Reach {
    let mut words = Vec::new();
    collect(text, dialect, &mut words);
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    // A semicolon that is hidden in a comment which MySQL runs: anything may follow.
    if dialect == Dialect::Mysql && words.contains(&";") {
        return Reach { writes: true, controls: true, commits: true };
    }
    let words = body(&words);
    let commits = dialect == Dialect::Mysql && may_commit(words);
    Reach { writes: writes(words), controls: controls(words), commits }
}

/// Words and signs in small letters. Strings and quoted names keep their quotes, so that they are no keywords.
fn collect(text: &str, dialect: Dialect, words: &mut Vec<String>) {
    for piece in Units::new(text, 0, dialect) {
        match piece.unit {
            Unit::Space | Unit::LineComment => {}
            Unit::BlockComment if dialect == Dialect::Mysql => collect(executed(piece.text), dialect, words),
            Unit::BlockComment => {}
            _ => words.push(piece.text.to_ascii_lowercase()),
        }
    }
}

/// What MySQL (`/*!`) and MariaDB (`/*M!`) run of a comment.
pub(in super::super) fn executed(comment: &str) -> &str {
    let code = comment.strip_prefix("/*!").or_else(|| comment.strip_prefix("/*M!"));
    let code = code.and_then(|code| code.strip_suffix("*/")).unwrap_or("");
    code.trim_start_matches(|c: char| c.is_ascii_digit())
}

/// Without brackets before it, and without MariaDB's settings for one statement (`SET STATEMENT … FOR`).
fn body<'w, 'a>(words: &'w [&'a str]) -> &'w [&'a str] {
    let mut words = words;
    loop {
        words = match words {
            ["(", rest @ ..] => rest,
            ["set", "statement", rest @ ..] => match rest.iter().position(|word| *word == "for") {
                Some(at) => &rest[at + 1..],
                None => return words,
            },
            _ => return words,
        }
    }
}

fn writes(words: &[&str]) -> bool {
    match words {
        // Nothing, or what is a comment in another dialect than this one.
        [] | ["#" | "-", ..] => false,
        ["select" | "values" | "table" | "with" | "declare" | "set", ..] => has_writing_part(words),
        ["explain" | "describe" | "desc", rest @ ..] => {
            rest.iter().any(|word| matches!(*word, "analyze" | "analyse")) && within(rest).is_some_and(writes)
        }
        // Of a statement (MariaDB), or of a table, whose statistics it writes.
        ["analyze" | "analyse", rest @ ..] => within(rest).is_none_or(writes),
        // Cassandra's batches.
        ["begin", rest @ ..] => rest.iter().take(2).any(|word| *word == "batch"),
        ["start", "transaction", ..] => false,
        [
            "show" | "reset" | "use" | "help" | "commit" | "end" | "rollback" | "abort" | "savepoint" | "release"
            | "fetch" | "move" | "close" | "prepare" | "deallocate" | "discard" | "listen" | "unlisten" | "notify"
            | "checksum" | "handler" | "signal",
            ..,
        ] => false,
        _ => true,
    }
}

/// Where a query has a part that writes.
fn has_writing_part(words: &[&str]) -> bool {
    (0..words.len()).any(|i| {
        let previous = i.checked_sub(1).map(|before| words[before]);
        let next = words.get(i + 1).copied();
        let is_name = matches!(previous, Some("." | "as"));
        match words[i] {
            // With a bracket it is MySQL's function of that name.
            "insert" => next != Some("(") && !is_name,
            "update" | "delete" | "merge" => !is_name,
            "nextval" | "setval" => true,
            "value" => previous == Some("next") && next == Some("for"),
            // Into a table or a file; variables are no data.
            "into" => next != Some("@"),
            _ => false,
        }
    })
}

/// The statement that EXPLAIN or ANALYZE runs.
fn within<'w, 'a>(words: &'w [&'a str]) -> Option<&'w [&'a str]> {
    const FIRST: [&str; 12] = [
        "select", "with", "values", "insert", "update", "delete", "merge", "replace", "create", "refresh", "execute",
        "declare",
    ];
    words.iter().position(|word| FIRST.contains(word)).map(|at| &words[at..])
}

fn controls(words: &[&str]) -> bool {
    match words {
        ["rollback", "to", ..] | ["rollback", "work" | "transaction", "to", ..] => false,
        ["begin" | "commit" | "end" | "rollback" | "abort" | "xa", ..] | ["start" | "prepare", "transaction", ..] => {
            true
        }
        ["set", rest @ ..] => rest.contains(&"autocommit"),
        _ => false,
    }
}

/// Of MySQL and MariaDB, by the list "Statements That Cause an Implicit Commit" in the manual of each. A procedure and a statement
/// that was prepared from a text (CALL, EXECUTE) may hold any of them.
fn may_commit(words: &[&str]) -> bool {
    match words {
        ["set", "password", ..] | ["set", "default", "role", ..] => true,
        ["create" | "drop", "temporary", "table", ..] | ["create", "or", "replace", "temporary", "table", ..] => false,
        ["load", "data" | "xml", ..] | ["drop", "prepare", ..] => false,
        ["analyze", rest @ ..] => within(rest).is_none(),
        [
            "select" | "insert" | "update" | "delete" | "replace" | "with" | "values" | "table" | "set" | "show"
            | "explain" | "describe" | "desc" | "use" | "help" | "do" | "handler" | "checksum" | "savepoint"
            | "release" | "prepare" | "deallocate" | "signal",
            ..,
        ] => false,
        ["rollback", ..] => controls(words),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EACH: [Dialect; 3] = [Dialect::Postgres, Dialect::Mysql, Dialect::Cql];

    #[test]
    fn statements_that_only_read() {
        let statements = [
            "SELECT replace(a, 'x', 'y') AS delete, t.update FROM t -- delete\n",
            "select insert('abc', 1, 1, 'x') /* into t */",
            "(SELECT 1) UNION (SELECT 'insert into t')",
            "WITH a AS (SELECT 1) SELECT * FROM a",
            "SELECT 1 INTO @a",
            "SELECT a FROM t FOR SHARE",
            "TABLE t",
            "VALUES (1)",
            "SHOW CREATE TABLE t",
            "EXPLAIN UPDATE t SET a = 1",
            "EXPLAIN (ANALYZE, BUFFERS) SELECT 1",
            "ANALYZE FORMAT=JSON SELECT 1",
            "SET STATEMENT max_statement_time=1 FOR SELECT 1",
            "BEGIN ISOLATION LEVEL SERIALIZABLE",
            "COMMIT",
            "--read\nSELECT 1",
        ];
        for text in statements {
            EACH.iter().for_each(|&dialect| assert!(!reach(text, dialect).writes, "{text}"));
        }
        let deep = format!("{}SELECT 1", "(".repeat(200_000));
        EACH.iter().for_each(|&dialect| assert!(!reach(&deep, dialect).writes));
    }

    #[test]
    fn statements_that_may_write() {
        let statements = [
            "replace low_priority into t values (1)",
            "LOAD DATA INFILE 'x' INTO TABLE t",
            "RENAME TABLE t TO u",
            "SELECT * INTO copied FROM t",
            "SELECT a FROM t INTO OUTFILE '/x'",
            "WITH a AS (INSERT INTO t VALUES (1) RETURNING a) SELECT * FROM a",
            "WITH a AS (SELECT 1) DELETE FROM t",
            "SELECT pg_catalog.nextval('s')",
            "SELECT NEXT VALUE FOR s",
            "MERGE INTO t USING u ON true WHEN MATCHED THEN DELETE",
            "CALL p()",
            "DO $$ begin perform 1; end $$",
            "COPY t FROM '/x'",
            "TRUNCATE t",
            "VACUUM t",
            "ANALYZE t",
            "EXPLAIN ANALYZE UPDATE t SET a = 1",
            "ANALYZE FORMAT=JSON DELETE FROM t",
            "SET STATEMENT max_statement_time=1 FOR DELETE FROM t",
            "BEGIN UNLOGGED BATCH INSERT INTO t (k) VALUES (1) APPLY BATCH",
            "something new",
        ];
        for text in statements {
            EACH.iter().for_each(|&dialect| assert!(reach(text, dialect).writes, "{text}"));
        }
    }

    #[test]
    fn what_mysql_runs_of_a_comment_counts() {
        for text in
            ["SELECT 1 /*!50000 INTO OUTFILE '/x' */", "SELECT /*M! 1; DELETE FROM t */", "/*! UPDATE */ t SET a = 1"]
        {
            assert!(reach(text, Dialect::Mysql).writes, "{text}");
        }
        assert!(!reach("SELECT 1 /*!50000 INTO OUTFILE '/x' */", Dialect::Postgres).writes);
        assert!(!reach("SELECT 'it\\'s /*!', 'delete' /* update */", Dialect::Mysql).writes);
    }

    #[test]
    fn what_begins_and_ends_transactions() {
        let statements = [
            "begin",
            "BEGIN ISOLATION LEVEL SERIALIZABLE",
            "START TRANSACTION READ ONLY",
            "commit and chain",
            "END",
            "abort",
            "ROLLBACK",
            "ROLLBACK AND CHAIN",
            "ROLLBACK PREPARED 'a'",
            "PREPARE TRANSACTION 'a'",
            "SET autocommit = 1",
            "set @@session.autocommit=0",
            "XA START 'a'",
            "/* x */ COMMIT",
        ];
        for text in statements {
            EACH.iter().for_each(|&dialect| assert!(reach(text, dialect).controls, "{text}"));
        }
        for text in [
            "SAVEPOINT a",
            "ROLLBACK TO a",
            "rollback work to savepoint a",
            "RELEASE SAVEPOINT a",
            "SET a = 1",
            "PREPARE a AS SELECT 1",
        ] {
            EACH.iter().for_each(|&dialect| assert!(!reach(text, dialect).controls, "{text}"));
            assert!(!reach(text, Dialect::Mysql).commits, "{text}");
        }
    }

    #[test]
    fn what_mysql_commits_at() {
        let statements = [
            "CREATE TABLE t (a int)",
            "DROP INDEX i ON t",
            "ALTER TABLE t ADD b int",
            "TRUNCATE t",
            "RENAME TABLE t TO u",
            "GRANT SELECT ON t TO u",
            "SET PASSWORD = 'x'",
            "LOCK TABLES t READ",
            "UNLOCK TABLES",
            "ANALYZE TABLE t",
            "FLUSH TABLES",
            "LOAD INDEX INTO CACHE t",
            "CALL p()",
            "EXECUTE s",
            "EXECUTE IMMEDIATE 'COMMIT'",
            "SET STATEMENT a=1 FOR TRUNCATE t",
            "START REPLICA",
            "COMMIT",
            "something new",
        ];
        for text in statements {
            assert!(reach(text, Dialect::Mysql).commits, "{text}");
            assert!(!reach(text, Dialect::Postgres).commits, "{text}");
        }
        for text in [
            "INSERT INTO t SELECT 1",
            "CREATE TEMPORARY TABLE t (a int)",
            "LOAD DATA INFILE 'x' INTO TABLE t",
            "ANALYZE UPDATE t SET a = 1",
        ] {
            assert!(!reach(text, Dialect::Mysql).commits, "{text}");
        }
    }
}
