//! The recorder with times made up.

use super::*;
use crate::counts;
use crate::driver::ErrorClass;

const MS: u64 = 1_000_000;

fn recorder(n_users: u32) -> Recorder {
    let users: Vec<u32> = (0..n_users).collect();
    Recorder::new(&users, vec!["q".to_owned()].into(), Extras { keeps_rows: true, ..Extras::default() })
}

fn ok(rows: u64) -> Result<Success, Ending<'static>> {
    Ok(Success { rows, tries: 1 })
}

fn failure(message: &str) -> Failure {
    Failure::without_code(ErrorClass::Other, message)
}

/// (value, count) of one histogram, all seconds together.
fn histogram(batch: &Batch, what: What) -> Vec<(u64, u32)> {
    let of_what = batch.groups.iter().filter(|group| group.what == what);
    of_what
        .flat_map(|group| counts::decode(&group.counts).map(|(index, count)| (counts::whole_value_of(index), count)))
        .collect()
}

#[test]
fn an_operation_is_credited_to_its_seconds_by_share() {
    let mut recorder = recorder(1);
    recorder.begin(0, 0, 500 * MS);
    recorder.finish(0, 500 * MS, 2_500 * MS, ok(7));
    recorder.roll(3_000 * MS);
    let batch = recorder.drain();
    assert_eq!(batch.parts.iter().map(|part| part.n_ok).collect::<Vec<_>>(), [0, 0, 1, 0]);
    assert_eq!(batch.parts[0].running, [(0, 0.5)]);
    assert_eq!(batch.parts[1].running, [(0, 1.5)]);
    assert_eq!(batch.parts[2].running, []);
    assert_eq!(batch.parts[2].credit, 0.25);
    assert_eq!(batch.credits, [(0, 0.25), (1, 0.5)]);
    assert_eq!(batch.n_seconds, 3);
    assert_eq!(batch.rows[0].rows, 7);
}

#[test]
fn times_of_some_microseconds_are_told_apart() {
    let mut recorder = recorder(1);
    for took_ns in [20_100, 20_400] {
        recorder.begin(0, 0, 0);
        recorder.finish(0, 0, took_ns, ok(1));
    }
    let batch = recorder.drain();
    let response = batch.groups.iter().find(|group| group.what == What::Response).expect("two ended");
    let values: Vec<f64> = counts::decode(&response.counts).map(|(index, _)| counts::value_of(index)).collect();
    assert_eq!(values, [20.112, 20.4]);
}

#[test]
fn the_four_times_give_response_service_and_queue() {
    let mut recorder = recorder(1);
    recorder.begin(0, 0, 30 * MS);
    recorder.finish(0, 10 * MS, 35 * MS, Ok(Success { rows: 1, tries: 3 }));
    let batch = recorder.drain();
    let bucket = |value: u64| counts::whole_value_of(counts::index_of(value));
    assert_eq!(histogram(&batch, What::Response), [(bucket(25_000), 1)]);
    assert_eq!(histogram(&batch, What::Service), [(bucket(5_000), 1)]);
    assert_eq!(histogram(&batch, What::Queue), [(bucket(20_000), 1)]);
    assert_eq!(histogram(&batch, What::Attempts), [(3, 1)]);
    assert_eq!(histogram(&batch, What::Error), []);
}

#[test]
fn failures_are_counted_by_class_and_by_the_applications_word() {
    let mut counts = ErrorCounts::default();
    let failure =
        |class, word: Option<String>| Failure { word: word.map(Into::into), ..Failure::without_code(class, "oops") };
    for (class, word) in [(ErrorClass::Http5xx, "pool"), (ErrorClass::Http4xx, "pool"), (ErrorClass::Http5xx, "pool")] {
        counts.add(&failure(class, Some(word.to_owned())));
    }
    counts.add(&failure(ErrorClass::Http5xx, None));
    let named = |counts: &ErrorCounts| counts.iter().map(|(name, n)| format!("{name}: {n}")).collect::<Vec<_>>();
    assert_eq!(named(&counts), ["http_5xx: 1", "http_4xx pool: 1", "http_5xx pool: 2"]);
    // Whatever a server says, what is kept of it is bounded.
    for n in 0..1_000 {
        counts.add(&failure(ErrorClass::ErrorPage, Some(n.to_string())));
    }
    assert!(counts.iter().count() <= 66, "{}", counts.iter().count());
    assert_eq!(counts.iter().map(|(_, n)| n).sum::<u64>(), 1_004);
}

#[test]
fn failures_and_cut_offs_earn_no_credit_and_have_a_histogram_of_their_own() {
    let mut recorder = recorder(1);
    let failed = Failure {
        class: ErrorClass::Statement,
        code: Some("42601".to_owned()),
        message: "oops".to_owned(),
        word: None,
    };
    for (start, ending) in [(0, Ending::Failed(&failed)), (200, Ending::TimedOut)] {
        recorder.begin(0, 0, start * MS);
        recorder.finish(0, start * MS, (start + 1) * MS, Err(ending));
    }
    recorder.roll(1_000 * MS);
    let batch = recorder.drain();
    let part = &batch.parts[0];
    assert_eq!((part.n_ok, part.n_error, part.n_timed_out, part.credit), (0, 1, 1, 0.0));
    assert_eq!(batch.errors, [(MS, "q: 42601 oops".to_owned())]);
    assert_eq!(batch.error_counts.iter().collect::<Vec<_>>(), [("statement".to_owned(), 1)]);
    assert_eq!(histogram(&batch, What::Error), [(1_000, 2)]);
    assert_eq!(histogram(&batch, What::Response), []);
    let outcomes: Vec<_> = batch.rows.iter().map(|row| row.outcome).collect();
    assert_eq!(outcomes, [Outcome::Error, Outcome::TimedOut]);
}

#[test]
fn closing_cancels_what_runs_and_nothing_is_recorded_after() {
    let mut recorder = recorder(2);
    recorder.begin(0, 0, 250 * MS);
    recorder.close(1_500 * MS);
    recorder.finish(0, 250 * MS, 1_600 * MS, ok(1));
    recorder.begin(1, 0, 1_700 * MS);
    recorder.late(5);
    recorder.roll(9_000 * MS);
    let batch = recorder.drain();
    assert_eq!(batch.rows.len(), 1);
    assert_eq!((batch.rows[0].end_s, batch.rows[0].outcome), (1.5, Outcome::Cancelled));
    assert_eq!(batch.parts.iter().map(|part| part.second).collect::<Vec<_>>(), [0, 1]);
    let elapsed_us = counts::whole_value_of(counts::index_of(1_250_000));
    assert_eq!(histogram(&batch, What::Unfinished), [(elapsed_us, 1)]);
    assert_eq!(batch.groups.len(), 1, "what was cancelled has no latency");
    assert!(recorder.drain().parts.is_empty());
}

#[test]
fn parts_of_a_second_add_up() {
    let mut recorder = recorder(1);
    let mut n_ok = 0;
    for i in 0..10 {
        recorder.begin(0, 0, i * 10 * MS);
        recorder.finish(0, i * 10 * MS, (i * 10 + 5) * MS, ok(1));
        let batch = recorder.drain();
        assert_eq!(batch.n_seconds, 0);
        assert_eq!(histogram(&batch, What::Response).len(), 1);
        n_ok += batch.parts.iter().map(|part| part.n_ok).sum::<u64>();
    }
    assert_eq!(n_ok, 10);
}

#[test]
fn the_first_errors_are_kept_and_no_more() {
    let mut recorder = recorder(1);
    for i in 0..250 {
        recorder.fail(0, 0, 0, i * MS, &failure("refused"));
        if i == 80 {
            assert_eq!(recorder.drain().errors.len(), 81);
        }
    }
    let batch = recorder.drain();
    assert_eq!(batch.errors.len(), MAX_ERRORS - 81);
    assert_eq!(batch.rows.len(), 250 - 81);
}

#[test]
fn an_operation_without_length_counts_whole() {
    let mut recorder = recorder(1);
    recorder.begin(0, 0, 500 * MS);
    recorder.finish(0, 500 * MS, 500 * MS, ok(0));
    recorder.roll(1_000 * MS);
    assert_eq!(recorder.drain().parts[0].credit, 1.0);
}

#[test]
fn rows_are_kept_on_request_only() {
    let mut recorder = Recorder::new(&[0], vec!["q".to_owned()].into(), Extras::default());
    recorder.begin(0, 0, 0);
    recorder.finish(0, 0, MS, ok(1));
    assert!(recorder.drain().rows.is_empty());
}

#[test]
fn memory_does_not_grow_with_users_or_time() {
    let mut recorder = recorder(1_000);
    let mut sizes = Vec::new();
    for second in 0..20 {
        for user in 0..1_000 {
            let sent_ns = second * SECOND_NS + user * MS / 2;
            recorder.begin(user as usize, 0, sent_ns);
            recorder.finish(user as usize, sent_ns, sent_ns + (user + 1) * 1_000, ok(1));
        }
        sizes.push(recorder.drain().memory_bytes);
    }
    assert!(sizes[19] < 110_000, "{sizes:?}");
    assert_eq!(sizes[1], sizes[19]);
}
