//! The language against what a real pgbench made of it.

use super::super::random::Zipf;
use super::super::value::{Scalar, Slot};
use super::{State, parse};
use crate::random::Random;

const TABLE: &str = include_str!("../testdata/pgbench_expressions.tsv");

/// The variables that the table was recorded with.
const VARIABLES: [(&str, &str); 25] = [
    ("a", "5"),
    ("b", "7"),
    ("neg", "-5"),
    ("d", "2.5"),
    ("t", "true"),
    ("f", "false"),
    ("n", "null"),
    ("yes", "yes"),
    ("no", "no"),
    ("on", "on"),
    ("off", "off"),
    ("y", "y"),
    ("tr", "tr"),
    ("of", "of"),
    ("o", "o"),
    ("word", "word"),
    ("big", "9223372036854775807"),
    ("bigger", "9223372036854775808"),
    ("exp", "1e3"),
    ("plus", "+5"),
    ("space", " 5"),
    ("default_seed", "12345"),
    ("scale", "7"),
    ("client_id", "0"),
    ("random_seed", "1"),
];

fn state() -> State {
    let slots = VARIABLES.map(|(_, text)| Slot { value: Scalar::Text, text: text.to_owned() });
    State { slots: slots.into(), rng: Random::new(1, 0), zipf: Zipf::new(1, 1.0) }
}

fn find(name: &str) -> Option<u32> {
    VARIABLES.iter().position(|(known, _)| *known == name).map(|slot| slot as u32)
}

/// The result as the table has it.
fn outcome(expression: &str, state: &mut State) -> Result<Scalar, &'static str> {
    parse(expression, &find).map_err(|_| "rejected")?.evaluate(state).map_err(|_| "fails")
}

fn is_as_recorded(found: Result<Scalar, &str>, recorded: &str) -> bool {
    match (found, recorded.split_once(' ')) {
        (Err(how), None) => how == recorded,
        (Ok(Scalar::Null), None) => recorded == "null",
        (Ok(Scalar::Bool(value)), Some(("boolean", text))) => text == value.to_string(),
        (Ok(Scalar::Int(value)), Some(("int", text))) => text == value.to_string(),
        // pgbench prints 15 digits.
        (Ok(Scalar::Float(value)), Some(("double", text))) => {
            let recorded: f64 = text.parse().unwrap();
            value == recorded || value.is_nan() && recorded.is_nan() || (value / recorded - 1.0).abs() < 2e-14
        }
        _ => false,
    }
}

#[test]
fn every_recorded_expression_gives_what_pgbench_gave() {
    let mut state = state();
    let rows = TABLE.lines().filter(|line| !line.starts_with('#'));
    let mut n = 0;
    let wrong: Vec<String> = rows
        .filter_map(|row| {
            n += 1;
            let (expression, recorded) = row.split_once('\t').unwrap();
            let found = outcome(expression, &mut state);
            (!is_as_recorded(found, recorded)).then(|| format!("{expression}: {found:?}, pgbench: {recorded}"))
        })
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(n > 300, "{n}");
}

#[test]
fn mistakes_say_what_and_where() {
    let mistakes = [
        ("1 + +* 2", 5, "unexpected \"*\""),
        ("1 +", 3, "the expression ends too early"),
        (":a + :nobody", 5, "nothing sets the variable :nobody"),
        ("foo(1)", 0, "there is no function \"foo\""),
        ("2 * pow(1)", 4, "pow: 1 arguments where 2 are wanted"),
        ("hash()", 0, "hash: 0 arguments where 1 or 2 are wanted"),
        ("greatest()", 0, "greatest: 0 arguments where at least 1 are wanted"),
        ("1 + 'a'", 4, "unexpected '\\''"),
        ("9223372036854775808", 0, "9223372036854775808 is too large for a bigint"),
        ("99999999999999999999", 0, "99999999999999999999 is too large for a bigint"),
        ("1e999", 0, "1e999 is too large for a double"),
        ("1 = 2 = 3", 6, "unexpected \"=\""),
        (": a", 0, "a colon that no name follows"),
    ];
    for (text, offset, message) in mistakes {
        let mistake = parse(text, &find).unwrap_err();
        assert_eq!((mistake.offset, mistake.message.as_str()), (offset, message), "{text}");
    }
}

#[test]
fn failures_say_what() {
    let failures = [
        ("1 / 0", "division by zero"),
        ("9223372036854775807 + 1", "9223372036854775807 + 1 is out of the range of bigint"),
        ("not 1", "cannot coerce int to boolean"),
        ("abs(true)", "cannot coerce boolean to double"),
        ("random(5, 1)", "random numbers from an empty range, low=5 high=1"),
        ("random_zipfian(1, 9, 1)", "random_zipfian: the parameter must be from 1.001 to 1000, parameter=1"),
        ("random_gaussian(1, 9, 1.9)", "random_gaussian: the parameter must be at least 2.0, parameter=1.9"),
        ("random_exponential(1, 9, 0)", "random_exponential: the parameter must be greater than zero, parameter=0"),
        ("permute(1, 0)", "permute: the size must be greater than zero"),
        (":word + 1", "\"word\" is no value that an expression can use"),
    ];
    for (text, message) in failures {
        assert_eq!(parse(text, &find).unwrap().evaluate(&mut state()), Err(message.to_owned()), "{text}");
    }
}

#[test]
fn deep_nesting_is_refused_and_not_a_crash() {
    for deep in ["(".repeat(100_000), "-".repeat(100_000), "not ".repeat(100_000), "~".repeat(100_000)] {
        assert!(parse(&deep, &find).unwrap_err().message.starts_with("nested more than"));
    }
    let fine = format!("{}1{}", "(".repeat(90), ")".repeat(90));
    assert!(parse(&fine, &find).is_ok());
}

#[test]
fn long_chains_are_refused_and_not_a_crash() {
    for long in [format!("1{}", " + 1".repeat(1_000_000)), format!("true{}", " and true".repeat(1_000_000))] {
        assert_eq!(parse(&long, &find).unwrap_err().message, "an expression of more than 2000 words");
    }
    let fine = parse(&format!("1{}", " + 1".repeat(900)), &find).unwrap();
    assert_eq!(fine.evaluate(&mut state()), Ok(Scalar::Int(901)));
}

#[test]
fn random_draws_stay_in_their_ranges() {
    let mut state = state();
    for text in
        ["random(3, 5)", "random_gaussian(3, 5, 2.5)", "random_exponential(3, 5, 2)", "random_zipfian(3, 5, 1.5)"]
    {
        let expression = parse(text, &find).unwrap();
        let drawn: std::collections::BTreeSet<i64> =
            (0..500).map(|_| expression.evaluate(&mut state).unwrap().to_int().unwrap()).collect();
        assert_eq!(drawn.into_iter().collect::<Vec<_>>(), [3, 4, 5], "{text}");
    }
}
