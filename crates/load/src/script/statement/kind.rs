//! What kind of statement a text is, by its first words.

use super::lexer::{Unit, Units};
use crate::sql::Dialect;

/// How a statement is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Kind {
    /// Plain BEGIN, COMMIT and ROLLBACK in any of their spellings: drivers know them.
    Begin,
    Commit,
    Rollback,
    /// A statement that can be prepared and takes parameters.
    Query,
    /// Anything else.
    Utility,
}

/// What it does to the transaction that is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Effect {
    Opens,
    Closes,
    Nothing,
}

/// The kind of one statement and what it does to the transaction.
pub(in super::super) fn classify(text: &str, dialect: Dialect) -> (Kind, Effect) {
    let units = Units::new(text, 0, dialect);
    let solid = units.filter(|piece| !matches!(piece.unit, Unit::Space | Unit::LineComment | Unit::BlockComment));
    let words: Vec<String> = solid
        .skip_while(|piece| piece.unit == Unit::Sign(b'('))
        .take(4)
        .map(|piece| piece.text.to_ascii_lowercase())
        .collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words[..] {
        // A batch, which ends within itself.
        ["begin", ..] if dialect == Dialect::Cql => (Kind::Utility, Effect::Nothing),
        ["begin"] | ["begin" | "start", "transaction"] | ["begin", "work"] => (Kind::Begin, Effect::Opens),
        ["commit" | "end"] | ["commit" | "end", "work" | "transaction"] => (Kind::Commit, Effect::Closes),
        ["rollback" | "abort"] | ["rollback" | "abort", "work" | "transaction"] => (Kind::Rollback, Effect::Closes),
        ["begin", ..] | ["start", "transaction", ..] => (Kind::Utility, Effect::Opens),
        // They start the next transaction, or leave this one open.
        [.., "and", "chain"] | ["rollback", "to", ..] | ["rollback" | "abort", _, "to", ..] => {
            (Kind::Utility, Effect::Nothing)
        }
        ["commit" | "end" | "rollback" | "abort", ..] | ["prepare", "transaction", ..] => {
            (Kind::Utility, Effect::Closes)
        }
        [
            "select" | "insert" | "update" | "delete" | "merge" | "values" | "with" | "table" | "call" | "replace",
            ..,
        ] => (Kind::Query, Effect::Nothing),
        _ => (Kind::Utility, Effect::Nothing),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_words_decide() {
        let cases = [
            ("BEGIN", Kind::Begin, Effect::Opens),
            ("start  TRANSACTION", Kind::Begin, Effect::Opens),
            ("begin isolation level serializable", Kind::Utility, Effect::Opens),
            ("/* x */ end", Kind::Commit, Effect::Closes),
            ("COMMIT WORK", Kind::Commit, Effect::Closes),
            ("commit and chain", Kind::Utility, Effect::Nothing),
            ("rollback", Kind::Rollback, Effect::Closes),
            ("rollback to savepoint a", Kind::Utility, Effect::Nothing),
            ("rollback work to a", Kind::Utility, Effect::Nothing),
            ("(select 1)", Kind::Query, Effect::Nothing),
            ("With x as (select 1) select 1", Kind::Query, Effect::Nothing),
            ("vacuum t", Kind::Utility, Effect::Nothing),
            ("", Kind::Utility, Effect::Nothing),
        ];
        for (text, kind, effect) in cases {
            assert_eq!(classify(text, Dialect::Postgres), (kind, effect), "{text}");
        }
        let batch = "begin batch insert into t (k) values (:k) apply batch";
        assert_eq!(classify(batch, Dialect::Cql), (Kind::Utility, Effect::Nothing));
    }
}
