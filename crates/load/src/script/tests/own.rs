//! The user's own SQL.

use super::*;

fn compile(transaction: Transaction, options: &Options) -> Result<ScriptSources, String> {
    ScriptSources::new(&[Script::Own(transaction)], options).map_err(|error| error.to_string())
}

fn users(users: u32) -> Options {
    Options { users, ..Options::default() }
}

/// Texts of the parameters of many operations of one statement.
fn draw(parameter: Parameter, n: usize) -> Vec<String> {
    let text = format!("select :{}", parameter.names.join(", :"));
    let parameters = vec![parameter];
    let transaction = Transaction { text, parameters, wrap: Wrap::None, ..transaction() };
    let sources = compile(transaction, &users(1)).unwrap();
    let mut source = sources.source(0, 1);
    let mut request = SqlRequest::default();
    (0..n)
        .map(|_| {
            source.begin();
            assert_eq!(source.step(&mut request), Step::Request);
            request.params.iter().map(show).collect::<Vec<_>>().join(" ")
        })
        .collect()
}

#[test]
fn statements_are_prepared_and_wrapped() {
    let sources = compile(transaction(), &users(4)).unwrap();
    assert_eq!(sources.statements(), ["update t set a = $1 where id = $2", "select $1"]);
    let mut source = sources.source(3, 1);
    for id in [25, 45, 65] {
        source.begin();
        let lines = steps(&sources, &mut *source, &[]);
        let v = lines[1].split('"').nth(1).unwrap();
        assert!(v.chars().count() == 3 && v.chars().all(|c| "é'".contains(c)));
        let update = format!("update t set a = $1 where id = $2 [\"{v}\", {id}]");
        assert_eq!(lines, ["BEGIN", &update, &format!("select $1 [{id}]"), "COMMIT", "end"]);
    }
    let sources = compile(Transaction { wrap: Wrap::Rollback, ..transaction() }, &users(4)).unwrap();
    let mut source = sources.source(0, 1);
    source.begin();
    assert_eq!(steps(&sources, &mut *source, &[])[3], "ROLLBACK");
}

#[test]
fn unique_serials_never_meet() {
    let sources = compile(transaction(), &users(3)).unwrap();
    let mut seen = std::collections::BTreeSet::new();
    for user in 0..3 {
        let mut source = sources.source(user, 7);
        for _ in 0..100 {
            source.begin();
            assert!(seen.insert(steps(&sources, &mut *source, &[])[2].clone()));
            source.end(false);
        }
    }
}

#[test]
fn a_value_holds_for_the_transaction_unless_each_use_is_fresh() {
    let wide = Generator::Int { low: 0, high: i64::MAX };
    let both = |each| {
        let parameters = vec![Parameter { each, ..parameter("x", wide.clone()) }];
        let text = "select :x, :x; select :x;".to_owned();
        let transaction = Transaction { text, parameters, wrap: Wrap::None, ..transaction() };
        let sources = compile(transaction, &users(1)).unwrap();
        let mut source = sources.source(0, 1);
        source.begin();
        steps(&sources, &mut *source, &[])
    };
    let once = both(false);
    let value = once[1].strip_prefix("select $1 ").unwrap();
    assert_eq!(once[0], format!("select $1, $1 {value}"));
    let each = both(true);
    assert!(each[0].starts_with("select $1, $2 ["));
    let values: std::collections::BTreeSet<&str> =
        each[..2].iter().flat_map(|line| line.split('[').nth(1).unwrap().trim_end_matches(']').split(", ")).collect();
    assert_eq!(values.len(), 3);
}

#[test]
fn every_generator_keeps_to_its_range() {
    let text = |text: &str| text.to_owned();
    let cases = [
        (Generator::Int { low: -2, high: 0 }, vec!["-1", "-2", "0"]),
        (Generator::IntZipfian { low: 5, high: 7, s: 0.9, scrambled: true }, vec!["5", "6", "7"]),
        (Generator::IntGaussian { low: 5, high: 7, parameter: 2.0 }, vec!["5", "6", "7"]),
        (Generator::IntExponential { low: 5, high: 7, parameter: 0.1 }, vec!["5", "6", "7"]),
        (Generator::Text { length: (0, 1), alphabet: text("ab") }, vec!["\"\"", "\"a\"", "\"b\""]),
        (Generator::Bool { share: 0.5 }, vec!["\"false\"", "\"true\""]),
        (
            Generator::Date { low: text("2024-02-28"), high: text("2024-03-01") },
            vec!["\"2024-02-28\"", "\"2024-02-29\"", "\"2024-03-01\""],
        ),
        (
            Generator::Choice {
                values: vec![Value::Null, Value::Int(1), Value::Text(text("x")), Value::Float(0.5)],
                weights: None,
            },
            vec!["\"x\"", "0.5", "1", "null"],
        ),
        (
            Generator::Choice { values: vec![Value::Null, Value::Bool(true)], weights: Some(vec![0.0, 2.0]) },
            vec!["\"true\""],
        ),
    ];
    for (generator, expected) in cases {
        let mut drawn = draw(parameter("x", generator.clone()), 300);
        drawn.sort();
        drawn.dedup();
        assert_eq!(drawn, expected, "{generator:?}");
    }
    let floats = draw(parameter("x", Generator::Float { low: -1.0, high: 1.0 }), 300);
    assert!(floats.iter().map(|text| text.parse::<f64>().unwrap()).all(|value| (-1.0..1.0).contains(&value)));
}

#[test]
fn uuids_and_times_have_their_form() {
    for uuid in draw(parameter("x", Generator::Uuid), 100) {
        let parts: Vec<&str> = uuid.trim_matches('"').split('-').collect();
        assert_eq!(parts.iter().map(|part| part.len()).collect::<Vec<_>>(), [8, 4, 4, 4, 12]);
        assert!(
            parts[2].starts_with('4')
                && "89ab".contains(&parts[3][..1])
                && u128::from_str_radix(&parts.concat(), 16).is_ok()
        );
    }
    let (low, high) = ("2024-01-01 00:00:00".to_owned(), "2024-01-01 00:00:01".to_owned());
    for time in draw(parameter("x", Generator::Timestamp { low, high }), 100) {
        assert!(time.starts_with("\"2024-01-01 00:00:0") && time.len() == 28, "{time}");
    }
}

#[test]
fn rows_keep_their_columns_together_and_follow_their_law() {
    let rows: Vec<Vec<Value>> = (0..100).map(|i| vec![Value::Int(i), Value::Text(format!("k{i}"))]).collect();
    let names = vec!["a".to_owned(), "b".to_owned()];
    let favourites = |pick| {
        let generator = Generator::Rows { rows: rows.clone(), pick };
        let drawn = draw(Parameter { names: names.clone(), generator, each: false, null_share: 0.0 }, 4000);
        let mut counts = vec![0_u32; 100];
        for row in drawn {
            let (a, b) = row.split_once(' ').unwrap();
            assert_eq!(b, format!("\"k{a}\""));
            counts[a.parse::<usize>().unwrap()] += 1;
        }
        counts
    };
    let even = favourites(Pick::Uniform);
    assert!(even.iter().all(|&n| (10..=80).contains(&n)), "{even:?}");
    let skewed = favourites(Pick::Zipfian { s: 1.0, scrambled: false });
    assert!(skewed[0] > 600 && skewed[0] > skewed[1] && skewed[1] > skewed[9], "{skewed:?}");
    let mut scattered = favourites(Pick::Zipfian { s: 1.0, scrambled: true });
    assert!(scattered[0] < 600);
    scattered.sort_unstable();
    assert!(scattered[99] > 600);
}

#[test]
fn a_share_of_the_values_is_null() {
    let generator = Generator::Int { low: 1, high: 1 };
    let drawn = draw(Parameter { null_share: 0.25, ..parameter("x", generator) }, 4000);
    let nulls = drawn.iter().filter(|text| *text == "null").count();
    assert!(nulls.abs_diff(1000) < 150, "{nulls}");
}

#[test]
fn statements_that_cannot_be_prepared_have_literals() {
    let parameters =
        vec![parameter("x", Generator::Choice { values: vec![Value::Text("it's \\".into())], weights: None })];
    let text = "set application_name = :x".to_owned();
    let transaction = Transaction { text, parameters, wrap: Wrap::None, ..transaction() };
    for (dialect, literal) in [(Dialect::Postgres, "'it''s \\'"), (Dialect::Mysql, "'it''s \\\\'")] {
        let sources = compile(transaction.clone(), &Options { dialect, ..users(1) }).unwrap();
        let mut source = sources.source(0, 1);
        source.begin();
        assert_eq!(steps(&sources, &mut *source, &[])[0], format!("text set application_name = {literal}"));
    }
}

fn refused(change: &dyn Fn(&mut Transaction)) -> String {
    let mut transaction = transaction();
    change(&mut transaction);
    compile(transaction, &users(1)).unwrap_err()
}

#[test]
fn mistakes_in_a_text_are_shown_in_their_line() {
    let refused = |text: &str| refused(&|transaction| transaction.text = text.to_owned());
    assert_eq!(refused("select 1;\nselect :y"), "own.sql:2:8: :y has no generator\n  select :y\n         ^");
    assert_eq!(refused("select $1").lines().next(), Some("own.sql:1:9: a placeholder must be written as :name"));
    assert_eq!(refused(" ; -- x").lines().next(), Some("own.sql:1:1: there is no statement"));
    let backslash = "own.sql:2:1: a backslash outside of quotes: meta commands belong in scripts of pgbench";
    assert_eq!(refused("select E'\\\\';\n\\set x 1").lines().next(), Some(backslash));
}

#[test]
fn wrong_parameters_are_named() {
    let twice = refused(&|transaction| transaction.parameters.push(parameter("v", Generator::Uuid)));
    assert_eq!(twice, "own.sql: :v: there are two generators for :v");
    let torn = refused(&|transaction| transaction.parameters[0].names.push("other".to_owned()));
    assert_eq!(torn, "own.sql: :id, other: 2 names for 1 values");
    let share = refused(&|transaction| transaction.parameters[0].null_share = 1.5);
    assert_eq!(share, "own.sql: :id: null_share=1.5 must be from 0 to 1");
}

#[test]
fn wrong_generators_are_named() {
    let cases = [
        (Generator::Int { low: 2, high: 1 }, "low=2 is above high=1"),
        (Generator::IntZipfian { low: 1, high: 9, s: 0.0, scrambled: false }, "s=0 must be above 0 and at most 1000"),
        (Generator::IntGaussian { low: 1, high: 9, parameter: 1.0 }, "parameter=1 must be at least 2.0"),
        (Generator::IntExponential { low: 1, high: 9, parameter: 0.0 }, "parameter=0 must be above 0"),
        (Generator::Serial { start: 1, step: 0, unique: true }, "step=0 must be other than 0"),
        (Generator::Float { low: 0.0, high: f64::INFINITY }, "high - low=inf must be finite"),
        (Generator::Text { length: (1, 2), alphabet: String::new() }, "the alphabet is empty"),
        (Generator::Choice { values: vec![], weights: None }, "there is no value to choose"),
        (Generator::Choice { values: vec![Value::Null], weights: Some(vec![]) }, "0 weights for 1 values"),
        (Generator::Rows { rows: vec![], pick: Pick::Uniform }, "the list has no rows"),
        (
            Generator::Rows { rows: vec![vec![Value::Null], vec![]], pick: Pick::Uniform },
            "row 2 has 0 columns, the first has 1",
        ),
        (Generator::Date { low: "x".into(), high: "y".into() }, "\"x\" is no date like 2024-02-29"),
        (Generator::Bool { share: 2.0 }, "share=2 must be from 0 to 1"),
    ];
    for (generator, message) in cases {
        let found = refused(&|transaction| transaction.parameters[0].generator = generator.clone());
        assert_eq!(found, format!("own.sql: :id: {message}"));
    }
}

#[test]
fn statements_are_read_with_their_lines() {
    let text = "SELECT 'it\\'s';\n -- x\n DELETE FROM t WHERE a = 'x';\n";
    let found = read_statements(text, Dialect::Mysql).unwrap();
    let found: Vec<_> = found.iter().map(|one| (one.text.as_str(), one.line, one.reach.writes)).collect();
    assert_eq!(found, [("SELECT 'it\\'s'", 1, false), ("DELETE FROM t WHERE a = 'x'", 3, true)]);
    assert!(read_statements(text, Dialect::Postgres).is_err());
}

#[test]
fn what_would_end_the_transaction_around_the_statements_is_refused() {
    let wrapped = |text: &str, wrap, dialect| {
        let transaction = Transaction { text: text.to_owned(), parameters: Vec::new(), wrap, ..transaction() };
        compile(transaction, &Options { dialect, ..users(1) }).err()
    };
    let ends =
        "own.sql:2:1: the script runs in a transaction that is begun and ended for it: this would end it earlier";
    for text in ["select 1;\nCOMMIT", "select 1;\nbegin; select 2", "select 1;\nSET autocommit = 0"] {
        for wrap in [Wrap::Commit, Wrap::Rollback] {
            let found = wrapped(text, wrap, Dialect::Postgres).unwrap();
            assert_eq!(found.lines().next(), Some(ends), "{text}");
        }
        assert_eq!(wrapped(text, Wrap::None, Dialect::Postgres), None);
    }
    let commits = "own.sql:1:1: the script is to be rolled back: at this statement the server may commit";
    for text in ["truncate t", "call p()"] {
        let found = wrapped(text, Wrap::Rollback, Dialect::Mysql).unwrap();
        assert_eq!(found.lines().next(), Some(commits), "{text}");
        assert_eq!(wrapped(text, Wrap::Commit, Dialect::Mysql), None);
        assert_eq!(wrapped(text, Wrap::Rollback, Dialect::Postgres), None);
    }
    assert_eq!(wrapped("savepoint a; select 1; rollback to a", Wrap::Rollback, Dialect::Mysql), None);
}

#[test]
fn a_batch_of_cassandra_is_one_statement_and_no_open_transaction() {
    let text = "begin batch insert into t (k) values (:id) apply batch".to_owned();
    let transaction = Transaction { text, wrap: Wrap::None, ..transaction() };
    let sources = compile(transaction, &Options { dialect: Dialect::Cql, ..users(1) }).unwrap();
    let mut source = sources.source(0, 1);
    source.begin();
    let lines = steps(&sources, &mut *source, &[]);
    assert_eq!(lines, ["text begin batch insert into t (k) values (10) apply batch", "end"]);
}

#[test]
fn a_batch_with_texts_is_prepared_because_quotes_fit_few_types() {
    let text = "BEGIN BATCH INSERT INTO t (k) VALUES (:k); INSERT INTO u (k, n) VALUES (:k, :id); APPLY BATCH";
    let choice = |value| Generator::Choice { values: vec![value], weights: None };
    let lines = |generator| {
        let parameters = vec![parameter("k", generator), parameter("id", Generator::Int { low: 7, high: 7 })];
        let transaction = Transaction { text: text.to_owned(), parameters, wrap: Wrap::None, ..transaction() };
        let sources = compile(transaction, &Options { dialect: Dialect::Cql, ..users(1) }).unwrap();
        let mut source = sources.source(0, 1);
        source.begin();
        (sources.statements(), steps(&sources, &mut *source, &[]))
    };
    let prepared = "BEGIN BATCH INSERT INTO t (k) VALUES (?); INSERT INTO u (k, n) VALUES (?, ?); APPLY BATCH";
    assert_eq!(lines(Generator::Uuid).0, [prepared]);
    let (statements, sent) = lines(choice(Value::Text("a".to_owned())));
    assert_eq!(statements, [prepared]);
    assert_eq!(sent, [format!("{prepared} [\"a\", \"a\", 7]"), "end".to_owned()]);
    let (statements, sent) = lines(choice(Value::Int(1)));
    assert!(statements.is_empty() && sent[0].starts_with("text BEGIN BATCH"), "{sent:?}");
}

#[test]
fn a_batch_may_have_its_semicolons() {
    let batch =
        "BEGIN UNLOGGED BATCH\n  INSERT INTO t (k) VALUES (:id);\n  UPDATE t SET v = 1 WHERE k = :id; APPLY BATCH";
    let text =
        format!("SELECT v FROM t;\n{batch};\nBEGIN BATCH DELETE FROM t WHERE k = 1 APPLY BATCH; SELECT k FROM t");
    let found = read_statements(&text, Dialect::Cql).unwrap();
    let found: Vec<_> = found.iter().map(|one| (one.text.as_str(), one.line, one.reach.writes)).collect();
    let other = "BEGIN BATCH DELETE FROM t WHERE k = 1 APPLY BATCH";
    let expected = [("SELECT v FROM t", 1, false), (batch, 2, true), (other, 5, true), ("SELECT k FROM t", 5, false)];
    assert_eq!(found, expected);
    assert_eq!(read_statements("BEGIN; SELECT 1", Dialect::Postgres).unwrap().len(), 2);
}

#[test]
fn a_routine_in_sql_is_one_statement() {
    let function = "CREATE OR REPLACE FUNCTION f(a int) RETURNS int LANGUAGE SQL\n BEGIN ATOMIC\n  INSERT INTO t VALUES (a);\n  \
        SELECT CASE WHEN a > 0 THEN CASE a WHEN 1 THEN 'END;' ELSE '' END ELSE (CASE WHEN true THEN '' END) END;\n  \
        SELECT t.case, 1 AS end FROM t; /* END; */\n END";
    let procedure = "create procedure p() begin atomic delete from t; delete from u; end";
    let text = format!("{function};\nSELECT 1; {procedure}; BEGIN; SELECT 2; COMMIT");
    let found = read_statements(&text, Dialect::Postgres).unwrap();
    let found: Vec<_> = found.iter().map(|one| (one.text.as_str(), one.line, one.reach.controls)).collect();
    let others = [("BEGIN", 7, true), ("SELECT 2", 7, false), ("COMMIT", 7, true)];
    let expected = [(function, 1, false), ("SELECT 1", 7, false), (procedure, 7, false)].into_iter().chain(others);
    assert_eq!(found, expected.collect::<Vec<_>>());
    for (text, n) in [
        ("CREATE FUNCTION begin() RETURNS int RETURN 1; SELECT 1", 2),
        ("CREATE FUNCTION f() RETURNS int AS $$ begin atomic $$ LANGUAGE SQL; SELECT 1", 2),
        ("CREATE TABLE f (atomic int); BEGIN; SELECT 1; END", 4),
        ("CREATE FUNCTION f() RETURNS int BEGIN ATOMIC SELECT 1; END; END; SELECT 1", 3),
    ] {
        assert_eq!(read_statements(text, Dialect::Postgres).unwrap().len(), n, "{text}");
    }
}

#[test]
fn bodies_of_several_statements_are_refused_on_mysql() {
    for (text, message) in [
        ("DELIMITER //\nCREATE PROCEDURE p() BEGIN SELECT 1; END //", "DELIMITER is a command of the mysql client"),
        (
            "SELECT 1;\nCREATE OR REPLACE DEFINER = a@b PROCEDURE p(IN n int)\nBEGIN\n SELECT 1; END",
            "the body of a routine",
        ),
        (
            "create trigger t before insert on u for each row if new.a < 0 then set new.a = 0; end if",
            "a trigger or an event",
        ),
        ("CREATE PROCEDURE p() CASE x WHEN 1 THEN SELECT 1; END CASE", "the body of a routine"),
        ("CREATE FUNCTION f() RETURNS int WHILE @a > 0 DO SET @a = @a - 1; END WHILE", "CALL it here"),
        ("BEGIN NOT ATOMIC SELECT 1; END", "BEGIN NOT ATOMIC cannot hold several statements"),
    ] {
        let error = read_statements(text, Dialect::Mysql).unwrap_err().to_string();
        assert!(error.contains(message), "{error}");
    }
    for (text, n) in [
        ("BEGIN; SELECT 1; COMMIT", 3),
        ("CREATE TABLE event (begin int); CREATE VIEW v AS SELECT begin FROM event", 2),
        ("CREATE PROCEDURE p() INSERT INTO t VALUES (CASE WHEN 1 THEN 2 END); SELECT 1", 2),
        ("CREATE FUNCTION f(a int) RETURNS int RETURN CASE WHEN a THEN 2 ELSE 3 END; CALL p()", 2),
        ("CREATE EVENT e ON SCHEDULE EVERY 1 DAY DO DELETE FROM t", 1),
    ] {
        assert_eq!(read_statements(text, Dialect::Mysql).unwrap().len(), n, "{text}");
    }
}
