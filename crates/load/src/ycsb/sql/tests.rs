use super::*;
use crate::sql::Param;
use crate::ycsb::Proportions;
use crate::ycsb::distribution::LengthDistribution;

const EACH: Proportions = Proportions { read: 0.2, update: 0.2, insert: 0.2, scan: 0.2, read_modify_write: 0.2 };

fn small(proportions: Proportions) -> Workload {
    let mut workload = Workload { proportions, ..Workload::core('a', 100).expect("core") };
    workload.schema.n_fields = 2;
    workload.schema.field_length = 8;
    workload
}

fn statements(workload: Workload, dialect: Dialect) -> Vec<String> {
    YcsbSources::new(workload, dialect, "usertable").expect("sound").statements()
}

/// An operation's label and its requests.
fn operate(source: &mut dyn Source<Sql>) -> (u32, Vec<SqlRequest>) {
    let label = source.begin().expect("endless");
    (label, steps(source))
}

fn steps(source: &mut dyn Source<Sql>) -> Vec<SqlRequest> {
    let mut requests = Vec::new();
    loop {
        let mut request = SqlRequest { wants_row: true, ..SqlRequest::default() };
        request.params.push_null();
        match source.step(&mut request) {
            Step::Request => requests.push(request),
            _ => return requests,
        }
    }
}

fn text_lengths(request: &SqlRequest) -> Vec<usize> {
    let length = |param: Param<'_>| if let Param::Text(text) = param { text.len() } else { 0 };
    request.params.iter().map(length).collect()
}

#[test]
fn statements_of_each_dialect() {
    assert_eq!(
        statements(small(EACH), Dialect::Postgres),
        [
            "SELECT field0, field1 FROM usertable WHERE ycsb_key = $1",
            "SELECT field0, field1 FROM usertable WHERE ycsb_key >= $1 ORDER BY ycsb_key LIMIT $2",
            "UPDATE usertable SET field0 = $1 WHERE ycsb_key = $2",
            "UPDATE usertable SET field1 = $1 WHERE ycsb_key = $2",
            "INSERT INTO usertable (ycsb_key, field0, field1) VALUES ($1, $2, $3)",
        ]
    );
    let narrow = Workload { reads_all_fields: false, writes_all_fields: true, ..small(EACH) };
    assert_eq!(
        statements(narrow, Dialect::Mysql),
        [
            "SELECT field0 FROM usertable WHERE ycsb_key = ?",
            "SELECT field1 FROM usertable WHERE ycsb_key = ?",
            "SELECT field0 FROM usertable WHERE ycsb_key >= ? ORDER BY ycsb_key LIMIT ?",
            "SELECT field1 FROM usertable WHERE ycsb_key >= ? ORDER BY ycsb_key LIMIT ?",
            "UPDATE usertable SET field0 = ?, field1 = ? WHERE ycsb_key = ?",
            "INSERT INTO usertable (ycsb_key, field0, field1) VALUES (?, ?, ?)",
        ]
    );
    let reads = Proportions { read: 1.0, ..Proportions::default() };
    assert_eq!(statements(small(reads), Dialect::Mysql).len(), 1);
}

#[test]
fn every_operation_fits_its_statement_and_says_what_its_answer_must_be() {
    for (reads_all_fields, writes_all_fields) in [(true, false), (false, true), (false, false), (true, true)] {
        let workload = Workload { reads_all_fields, writes_all_fields, ..small(EACH) };
        let sources = YcsbSources::new(workload, Dialect::Mysql, "usertable").expect("sound");
        let texts = sources.statements();
        let labels = sources.labels();
        assert_eq!(labels, ["READ", "UPDATE", "INSERT", "SCAN", "READ-MODIFY-WRITE"]);
        let mut source = sources.source(0, 7);
        let mut n_used = vec![0; texts.len()];
        for _ in 0..500 {
            let (label, requests) = operate(&mut *source);
            let n_steps = if labels[label as usize] == "READ-MODIFY-WRITE" { 2 } else { 1 };
            assert_eq!(requests.len(), n_steps);
            for request in &requests {
                let SqlCommand::Prepared(statement) = request.command else { panic!("{request:?}") };
                let text = &texts[statement as usize];
                n_used[statement as usize] += 1;
                assert_eq!(request.params.len(), text.matches('?').count(), "{text}");
                assert!(!request.wants_row);
                check_expectation(text, request);
            }
            source.end(true);
        }
        assert!(n_used.iter().all(|&n| n > 0), "{n_used:?}");
    }
}

fn check_expectation(text: &str, request: &SqlRequest) {
    let lengths = text_lengths(request);
    match text.split(' ').next() {
        Some("SELECT") => {
            assert_eq!(request.expect.column_bytes, Some(8));
            let most = match request.params.iter().nth(1) {
                Some(Param::Int(limit)) => limit as u64,
                _ => 1,
            };
            assert_eq!(request.expect.rows, Some((1, most)));
        }
        Some("UPDATE") => {
            assert_eq!(request.expect, Expect { rows: Some((1, 1)), column_bytes: None });
            assert!(lengths[..lengths.len() - 1].iter().all(|&n| n == 8) && lengths[lengths.len() - 1] > 8);
        }
        _ => assert!(lengths[0] > 8 && lengths[1..] == [8, 8]),
    }
}

#[test]
fn a_read_modify_write_stays_with_its_record_and_repeats_itself() {
    let proportions = Proportions { read_modify_write: 1.0, ..Proportions::default() };
    let sources = YcsbSources::new(small(proportions), Dialect::Mysql, "usertable").expect("sound");
    let mut source = sources.source(0, 1);
    let (_, requests) = operate(&mut *source);
    let key = requests[0].params.iter().last().map(|param| format!("{param:?}"));
    assert_eq!(requests[1].params.iter().last().map(|param| format!("{param:?}")), key);
    source.rewind();
    assert_eq!(format!("{:?}", steps(&mut *source)), format!("{requests:?}"));
}

#[test]
fn lengths_that_vary_are_not_checked() {
    let mut workload = small(Proportions { read: 1.0, ..Proportions::default() });
    workload.schema.field_lengths = LengthDistribution::Uniform;
    let sources = YcsbSources::new(workload, Dialect::Mysql, "usertable").expect("sound");
    let (_, requests) = operate(&mut *sources.source(0, 1));
    assert_eq!(requests[0].expect.column_bytes, None);
}

#[test]
fn answers_are_not_checked_unless_asked_for() {
    let workload = Workload { is_validated: false, ..small(EACH) };
    let sources = YcsbSources::new(workload, Dialect::Mysql, "usertable").expect("sound");
    let mut source = sources.source(0, 1);
    for _ in 0..50 {
        assert!(operate(&mut *source).1.iter().all(|request| request.expect == Expect::default()));
    }
}

#[test]
fn the_range_of_new_records_is_known() {
    let proportions = Proportions { insert: 1.0, ..Proportions::default() };
    let sources = YcsbSources::new(small(proportions), Dialect::Mysql, "usertable").expect("sound");
    assert_eq!(sources.inserted(), 100..100);
    let mut source = sources.source(0, 1);
    for is_ok in [true, false] {
        operate(&mut *source);
        source.end(is_ok);
    }
    assert_eq!(sources.inserted(), 100..102);
}

#[test]
fn an_insert_gets_its_number_when_it_is_sent_and_waits_for_one() {
    let proportions = Proportions { insert: 1.0, ..Proportions::default() };
    let sources = YcsbSources::new(small(proportions), Dialect::Mysql, "usertable").expect("sound");
    let (mut first, mut second, mut request) = (sources.source(0, 1), sources.source(1, 1), SqlRequest::default());
    first.begin().expect("endless");
    // Its user may have to wait for a connection first.
    assert_eq!(sources.inserted(), 100..100);
    assert_eq!(first.step(&mut request), Step::Request);
    assert_eq!(sources.inserted(), 100..101);
    // It hangs, while others insert as much as the window holds.
    let others: Vec<u64> = std::iter::from_fn(|| sources.shared.existing.reserve()).collect();
    others.iter().for_each(|number| sources.shared.existing.settle(*number, true));
    second.begin().expect("endless");
    assert!(matches!(second.step(&mut request), Step::Sleep(pause) if !pause.is_zero()));
    first.end(false);
    assert_eq!(second.step(&mut request), Step::Request);
}

#[test]
fn names_are_checked() {
    assert_eq!(Dialect::from_name("mysql"), Ok(Dialect::Mysql));
    let text = Dialect::from_name("oracle").expect_err("unknown");
    assert_eq!(text, "dialect=\"oracle\" must be \"postgresql\", \"mysql\" or \"cql\"");
    assert!(check_table("bench.usertable").is_ok());
    for table in ["", "a.b.c", "a b", "1a", "a;", "a."] {
        assert!(check_table(table).is_err(), "{table}");
    }
}
