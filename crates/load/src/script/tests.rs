//! Scripts from text to requests.

use super::*;
use crate::driver::ErrorClass;
use crate::source::{Source, Sources, SqlSources, Step};
use crate::sql::{Param, Sql, SqlAnswer, SqlCommand, SqlRequest};

fn pgbench(text: &str) -> Script {
    let (label, file) = ("a".to_owned(), "a.sql".to_owned());
    Script::Pgbench { label, weight: 1.0, file, text: text.to_owned() }
}

fn sources(scripts: &[Script], options: &Options) -> ScriptSources {
    ScriptSources::new(scripts, options).unwrap()
}

fn refused(text: &str) -> String {
    ScriptSources::new(&[pgbench(text)], &Options::default()).unwrap_err().to_string()
}

fn variables(pairs: &[(&str, &str)]) -> Options {
    let variables = pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    Options { variables, users: 1, ..Options::default() }
}

/// One step as a line of text.
fn describe(step: Step, request: &SqlRequest, statements: &[String], source: &mut dyn Source<Sql>) -> String {
    match step {
        Step::End => "end".to_owned(),
        Step::Sleep(time) => format!("sleep {} us", time.as_micros()),
        Step::Fail => {
            let failure = source.failure();
            assert_eq!(failure.class, ErrorClass::Statement);
            format!("fail {}", failure.message)
        }
        Step::Request => {
            let which = if request.keeps_last { "last" } else { "first" };
            let row = if request.wants_row { format!(" {which} row {:?}", request.expect.rows) } else { String::new() };
            let params: Vec<String> = request.params.iter().map(show).collect();
            match &request.command {
                SqlCommand::Begin => "BEGIN".to_owned(),
                SqlCommand::Commit => "COMMIT".to_owned(),
                SqlCommand::Rollback => "ROLLBACK".to_owned(),
                SqlCommand::Text(text) => format!("text {text}{row}"),
                SqlCommand::Prepared(i) => format!("{} [{}]{row}", statements[*i as usize], params.join(", ")),
            }
        }
    }
}

fn show(param: Param<'_>) -> String {
    match param {
        Param::Null => "null".to_owned(),
        Param::Int(value) => value.to_string(),
        Param::Float(value) => format!("{value:?}"),
        Param::Text(text) => format!("{text:?}"),
    }
}

/// The steps of the operation that has begun; every request is answered with one row of these columns.
fn steps(sources: &ScriptSources, source: &mut dyn Source<Sql>, row: &[Option<&str>]) -> Vec<String> {
    let statements = sources.statements();
    let mut request = SqlRequest::default();
    let mut lines = Vec::new();
    loop {
        let step = source.step(&mut request);
        lines.push(describe(step, &request, &statements, source));
        match step {
            Step::End | Step::Fail => return lines,
            Step::Request => {
                let mut answer = SqlAnswer::default();
                answer.set_row(row.iter().map(|column| column.map(str::as_bytes)));
                source.answer(&answer);
            }
            Step::Sleep(_) => {}
        }
    }
}

fn run(text: &str, options: &Options, row: &[Option<&str>]) -> Vec<String> {
    let sources = sources(&[pgbench(text)], options);
    let mut source = sources.source(0, 1);
    assert_eq!(source.begin(), Some(0));
    steps(&sources, &mut *source, row)
}

#[test]
fn the_built_in_scripts_are_the_documented_statements() {
    let script = Script::builtin("tpcb-like", 1.0).unwrap();
    let sources = sources(&[script], &variables(&[("scale", "10")]));
    let statements = [
        "UPDATE pgbench_accounts SET abalance = abalance + $1 WHERE aid = $2",
        "SELECT abalance FROM pgbench_accounts WHERE aid = $1",
        "UPDATE pgbench_tellers SET tbalance = tbalance + $1 WHERE tid = $2",
        "UPDATE pgbench_branches SET bbalance = bbalance + $1 WHERE bid = $2",
        "INSERT INTO pgbench_history (tid, bid, aid, delta, mtime) VALUES ($1, $2, $3, $4, CURRENT_TIMESTAMP)",
    ];
    assert_eq!(sources.statements(), statements);
    assert_eq!(sources.labels(), ["tpcb-like"]);
    let mut source = sources.source(0, 1);
    for _ in 0..200 {
        source.begin();
        let lines = steps(&sources, &mut *source, &[]);
        assert_eq!((lines.len(), &*lines[0], &*lines[6], &*lines[7]), (8, "BEGIN", "COMMIT", "end"));
        let values = lines[5].split(" [").nth(1).unwrap().trim_end_matches(']').split(", ");
        let [tid, bid, aid, delta] = *values.map(|text| text.parse().unwrap()).collect::<Vec<i64>>() else { panic!() };
        assert!((1..=100).contains(&tid) && (1..=10).contains(&bid) && (1..=1_000_000).contains(&aid));
        assert!((-5000..=5000).contains(&delta));
        assert_eq!(lines[2], format!("{} [{aid}]", statements[1]));
    }
}

#[test]
fn built_in_scripts_are_found_by_the_start_of_their_name() {
    for (name, n) in [("simple", 3), ("select-only", 1), ("tpcb", 5)] {
        assert_eq!(sources(&[Script::builtin(name, 1.0).unwrap()], &variables(&[])).statements().len(), n);
    }
    let message = "s: no built-in script has this name; there are tpcb-like, simple-update, select-only";
    assert_eq!(Script::builtin("s", 1.0).unwrap_err().to_string(), message);
}

#[test]
fn statements_become_prepared_ones_and_the_rest_text() {
    let text = "select :a, 'x:a', ':b', b::int; -- :c\nvacuum t;\nbegin isolation level repeatable read; select :a + :a;\n\
                insert into t values (:a)\\; update t set x = :a ;\n /* only a comment */ ; end; select f(1; 2)";
    let lines = run(text, &variables(&[("a", "5")]), &[]);
    let expected = [
        "text select 5, 'x5', ':b', b::int",
        "text vacuum t",
        "text begin isolation level repeatable read",
        "select $1 + $2 [5, 5]",
        "text insert into t values (5); update t set x = 5",
        "COMMIT",
        "select f(1; 2) []",
        "end",
    ];
    assert_eq!(lines, expected);
}

#[test]
fn each_use_of_a_variable_may_be_of_another_type_as_in_pgbench() {
    let lines = run("insert into t values (:a, md5(:a::text));", &variables(&[("a", "5")]), &[]);
    assert_eq!(lines, ["insert into t values ($1, md5($2::text)) [5, 5]", "end"]);
}

#[test]
fn a_variable_may_complete_the_name_of_a_table() {
    let lines = run("select c from sbtest:a where id=:a;", &variables(&[("a", "5")]), &[]);
    assert_eq!(lines, ["text select c from sbtest5 where id=5", "end"]);
}

#[test]
fn what_a_server_reads_of_a_comment_before_a_statement_is_sent() {
    let text = "/* who */ -- what\n/*+ SeqScan(t) */ -- why\nselect :a; /*! select 2 */; /*!50001 select */ 3;\n\
                /*+ alone */; /*!*/";
    let lines = run(text, &variables(&[("a", "5")]), &[]);
    assert_eq!(lines, ["/*+ SeqScan(t) */ \nselect $1 [5]", "text 3", "end"]);
    let lines = run(text, &Options { dialect: Dialect::Mysql, ..variables(&[("a", "5")]) }, &[]);
    let executed = ["text /*! select 2 */", "text /*!50001 select */ 3"];
    assert_eq!(lines, ["/*+ SeqScan(t) */ \nselect ? [5]", executed[0], executed[1], "end"]);
}

#[test]
fn values_keep_their_types() {
    let text =
        "\\set a 2 - 3\n\\set b 1 / 2.0\n\\set c :a < 0\n\\set d null\nselect :a, :b, :c, :d, :number, :word, :padded;";
    let lines = run(text, &variables(&[("number", "7"), ("word", "on"), ("padded", "07")]), &[]);
    assert_eq!(lines[0].split(" [").nth(1), Some("-1, 0.5, \"true\", null, 7, \"on\", \"07\"]"));
}

#[test]
fn the_simple_mode_puts_values_into_texts() {
    let options = Options { mode: Mode::Simple, ..variables(&[("a", "x y")]) };
    let lines = run("\\set b 1.5\n\\set c null\n\\set d 1 < 2\nselect :a, :b, :c, :d;", &options, &[]);
    assert_eq!(lines, ["text select x y, 1.5, NULL, true", "end"]);
}

#[test]
fn mysql_has_its_own_placeholders() {
    let options = Options { dialect: Dialect::Mysql, ..variables(&[("a", "5")]) };
    let lines = run("\\set b :a > 2\nselect :a, `:a`, :b + :a # :x\n;", &options, &[]);
    assert_eq!(lines[0], "text select 5, `5`, true + 5");
    let lines = run("\\set b :a > 2\nselect :a, :b + :a # :x\n;", &options, &[]);
    assert_eq!(lines, ["select ?, ? + ? [5, 1, 5]", "end"]);
}

#[test]
fn conditions_choose_the_commands() {
    let text = "\\if :a = 1\nselect 1;\n\\if true\nselect 11;\n\\else\nselect 12;\n\\endif\n\\elif :a = 2\nselect 2;\n\\else\nselect 3;\n\
                \\endif\n\\if null\n\\elif :a\nselect 4;\n\\endif";
    let statement = |n: u32| format!("select {n} []");
    for (a, numbers) in [("1", vec![1, 11, 4]), ("2", vec![2, 4]), ("0", vec![3])] {
        let expected: Vec<String> = numbers.into_iter().map(statement).chain(["end".to_owned()]).collect();
        assert_eq!(run(text, &variables(&[("a", a)]), &[]), expected, "a={a}");
    }
}

#[test]
fn rows_set_variables() {
    let text = "select x as n, y from t \\gset p_\n\\set z :p_n + 1\nselect :z, :p_y;";
    let lines = run(text, &variables(&[]), &[Some("41"), None]);
    assert_eq!(lines, ["select x as n, y from t [] first row Some((1, 1))", "select $1, $2 [42, null]", "end"]);
    let text = "select 1 as one\\; update t set a = 1\\; select 2 as two \\aset\nselect :one, :two;";
    let lines = run(text, &variables(&[]), &[Some("x")]);
    let expected = [
        "select 1 as one [] last row None",
        "update t set a = 1 []",
        "select 2 as two [] last row None",
        "select $1, $2 [\"x\", \"x\"]",
        "end",
    ];
    assert_eq!(lines, expected);
    let lines = run("select 1 as one, 2 as two \\gset\nselect 3;", &variables(&[]), &[Some("1")]);
    assert_eq!(lines[1], "fail \\gset: 1 columns came back, the statement names 2");
}

#[test]
fn sleeps_have_units() {
    let text = "\\sleep 5\n\\sleep 5ms\n\\sleep 5 us\n\\set n 2\n\\sleep :n ms\n\\sleep :n\n\\sleep -1 s";
    let expected = ["5000000", "5000", "5", "2000", "2000000", "0"].map(|us| format!("sleep {us} us"));
    assert_eq!(run(text, &variables(&[]), &[])[..6], expected);
}

#[test]
fn meta_commands_go_over_several_lines_and_end_statements() {
    let text = "\\set x 1 + \\\n  2\nselect 1 \\set y :x \\\r\n * 2\nselect :y";
    assert_eq!(run(text, &variables(&[]), &[]), ["select 1 []", "select $1 [6]", "end"]);
}

#[test]
fn what_goes_wrong_in_a_script_fails_the_transaction() {
    let failure = |text: &str| run(text, &variables(&[("word", "x")]), &[]).pop().unwrap();
    assert_eq!(failure("\\set x 1 / (:client_id * 0)\nselect 1;"), "fail division by zero");
    assert_eq!(failure("\\set x :word + 1\nselect 1;"), "fail \"x\" is no value that an expression can use");
    assert_eq!(
        failure("\\if false\n\\set x 1\n\\endif\nselect :x;"),
        "fail a statement uses a variable before it is set"
    );
    let open = "fail the script ended inside a transaction: BEGIN without COMMIT, END or ROLLBACK";
    assert_eq!(failure("begin; select 1;"), open);
    assert_eq!(failure("begin\\; select 1; rollback to x;"), open);
    assert_eq!(failure("begin\\; select 1\\; commit;"), "end");
}

#[test]
fn variables_last_over_transactions_and_scripts_of_a_user() {
    let first = pgbench("\\if :client_id = 3\n\\set n 0\n\\endif\n\\set n :n + 1\nselect :n;");
    let sources = sources(&[first], &variables(&[("n", "7")]));
    let mut source = sources.source(0, 1);
    for expected in [8, 9, 10] {
        source.begin();
        assert_eq!(steps(&sources, &mut *source, &[])[0], format!("select $1 [{expected}]"));
    }
}

#[test]
fn a_rewound_transaction_makes_the_same_choices() {
    let text =
        "\\set r random(1, 1000000000)\n\\set n :n + 1\nselect :r, :n; select random_zipf as z \\gset\nselect :z;";
    let sources = sources(&[pgbench(text), Script::Own(transaction())], &variables(&[("n", "0")]));
    let mut source = sources.source(3, 99);
    for _ in 0..20 {
        source.begin();
        let first = steps(&sources, &mut *source, &[Some("5")]);
        source.rewind();
        assert_eq!(steps(&sources, &mut *source, &[Some("5")]), first);
        source.end(true);
    }
    let all = |user, seed| {
        let mut source = sources.source(user, seed);
        (0..20).flat_map(|_| source.begin().map(|_| steps(&sources, &mut *source, &[Some("5")]))).collect::<Vec<_>>()
    };
    assert_eq!(all(1, 2), all(1, 2));
    assert_ne!(all(1, 2), all(2, 2));
    assert_ne!(all(1, 2), all(1, 3));
}

#[test]
fn weights_are_the_shares_of_the_scripts() {
    let weighted = |label: &str, weight| Script::Pgbench {
        label: label.into(),
        weight,
        file: label.into(),
        text: "select 1".into(),
    };
    let sources = sources(&[weighted("x", 1.0), weighted("y", 0.0), weighted("z", 3.0)], &variables(&[]));
    assert_eq!(sources.labels(), ["x", "y", "z"]);
    let mut source = sources.source(0, 5);
    let mut counts = [0_u32; 3];
    for _ in 0..10_000 {
        counts[source.begin().unwrap() as usize] += 1;
    }
    assert!(counts[1] == 0 && counts[0].abs_diff(2_500) < 200, "{counts:?}");
    for (weights, message) in [
        ([0.0, 0.0], "scripts: sum of the weights=0 must be above 0 and finite"),
        ([-1.0, 2.0], "scripts: weight=-1 must be a finite number that is not negative"),
    ] {
        let scripts = weights.map(|weight| weighted("x", weight));
        assert_eq!(ScriptSources::new(&scripts, &Options::default()).unwrap_err().to_string(), message);
    }
}

#[test]
fn mistakes_are_shown_in_their_line() {
    let cases = [
        ("select 1;\n\\set x 1 + +* 2", "a.sql:2:13: unexpected \"*\"\n  \\set x 1 + +* 2\n              ^"),
        ("\\set 1x 5", "a.sql:1:6: \"1x\" is no name for a variable\n  \\set 1x 5\n       ^"),
        ("\\set", "a.sql:1:1: \\set needs a name and an expression\n  \\set\n  ^"),
        ("\\set x", "a.sql:1:7: the expression ends too early\n  \\set x\n        ^"),
        ("select :nobody;", "a.sql:1:8: nothing sets the variable :nobody\n  select :nobody;\n         ^"),
        ("vacuum :nobody;", "a.sql:1:8: nothing sets the variable :nobody\n  vacuum :nobody;\n         ^"),
        ("\\if true\nselect 1;", "a.sql:1:1: \\if without \\endif\n  \\if true\n  ^"),
        ("\\endif", "a.sql:1:1: \\endif without \\if\n  \\endif\n  ^"),
        ("\\else", "a.sql:1:1: \\else without \\if\n  \\else\n  ^"),
        ("\\if 1\n\\else\n\\elif 1\n\\endif", "a.sql:3:1: \\elif after \\else\n  \\elif 1\n  ^"),
        ("\\if 1\n\\else x\n\\endif", "a.sql:2:7: the command takes no argument here\n  \\else x\n        ^"),
        ("\\sleep 0.5 s", "a.sql:1:8: \\sleep needs a whole number, found \"0.5\"\n  \\sleep 0.5 s\n         ^"),
        ("\\sleep 5 xs", "a.sql:1:10: the unit must be us, ms or s, found \"xs\"\n  \\sleep 5 xs\n           ^"),
        ("\\sleep", "a.sql:1:7: \\sleep needs a time\n  \\sleep\n        ^"),
        ("\\gset", "a.sql:1:1: \\gset must follow an SQL command\n  \\gset\n  ^"),
        ("select 1 \\gset", "a.sql:1:1: column 1 needs a name for \\gset: write `AS name`\n  select 1 \\gset\n  ^"),
        ("vacuum \\gset", "a.sql:1:1: \\gset needs a statement that returns a row\n  vacuum \\gset\n  ^"),
        ("select 'a", "a.sql:1:8: a string or comment that does not end\n  select 'a\n         ^"),
        ("select $1", "a.sql:1:9: a placeholder must be written as :name\n  select $1\n          ^"),
        ("\\shell ls", "a.sql:1:1: \\shell runs a program on the machine that loads; it is refused\n  \\shell ls\n  ^"),
        ("\\foo", "a.sql:1:1: there is no meta command \\foo\n  \\foo\n  ^"),
        ("-- nothing\n", "a.sql: there is no command in the script"),
    ];
    for (text, message) in cases {
        assert_eq!(refused(text), message, "{text}");
    }
    assert!(refused("\\startpipeline").contains("pipelines are not supported"));
    assert!(refused("\\setrandom x 1 2").contains("write \\set with random"));
}

fn parameter(name: &str, generator: Generator) -> Parameter {
    Parameter { names: vec![name.to_owned()], generator, each: false, null_share: 0.0 }
}

fn transaction() -> Transaction {
    Transaction {
        label: "own".to_owned(),
        weight: 1.0,
        file: "own.sql".to_owned(),
        text: "update t set a = :v where id = :id; -- x
select :id"
            .to_owned(),
        parameters: vec![
            parameter("id", Generator::Serial { start: 10, step: 5, unique: true }),
            parameter("v", Generator::Text { length: (3, 3), alphabet: "é'".to_owned() }),
        ],
        wrap: Wrap::Commit,
    }
}

mod own;
