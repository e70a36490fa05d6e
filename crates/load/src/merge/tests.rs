//! Merging, with operations made up.

use super::*;
use crate::driver::{ErrorClass, Failure};
use crate::log::Bucket;
use crate::random::Random;
use crate::recorder::{Ending, Extras, Recorder, Success};

const MS: u64 = 1_000_000;
const ROWS: Extras = Extras { keeps_rows: true, reads_steal: false, works_here: false, priority: Priority::Normal };

fn labels() -> Arc<[String]> {
    vec!["a".to_owned(), "b".to_owned(), "c".to_owned()].into()
}

fn recorder(users: &[u32]) -> Recorder {
    Recorder::new(users, labels(), ROWS)
}

fn below(dice: &mut Random, n: u64) -> u64 {
    dice.bits() % n
}

/// Plays the same operations on `n_workers` workers and merges them, in batches of the worker's own rhythm.
fn played(seed: u64, n_workers: usize, n_users: usize) -> (Vec<Frame>, Log) {
    let mut merge = Merge::new(n_workers, labels());
    let users_of = |worker: usize| (worker..n_users).step_by(n_workers).map(|user| user as u32);
    let mut recorders: Vec<Recorder> =
        (0..n_workers).map(|worker| recorder(&users_of(worker).collect::<Vec<_>>())).collect();
    // When the user's operation was due, while one runs.
    let mut due: Vec<Option<u64>> = vec![None; n_users];
    // What is played, and how it is handed over, are independent.
    let (mut dice, mut rhythm, mut now_ns) = (Random::new(seed, 0), Random::new(seed, n_workers as u64), 0);
    for step in 0..4_000 {
        now_ns += below(&mut dice, 5_000_000);
        let user = below(&mut dice, n_users as u64) as usize;
        let (label, fate, rows) = (below(&mut dice, 3) as u32, below(&mut dice, 8), below(&mut dice, 9));
        let (worker, slot) = (user % n_workers, user / n_workers);
        let recorder = &mut recorders[worker];
        let word = (step % 3 > 0).then(|| format!("kind{}", step % 3).into());
        let failure = Failure { word, ..Failure::without_code(ErrorClass::Other, format!("error {step}")) };
        let ending = match fate {
            0 => Err(Ending::Failed(&failure)),
            1 => Err(Ending::TimedOut),
            _ => Ok(Success { rows, tries: 1 + rows as u32 }),
        };
        if let Some(due_ns) = due[user].take() {
            recorder.finish(slot, due_ns, now_ns, ending);
        } else {
            recorder.roll(now_ns);
            recorder.offer(1);
            recorder.late(fate * 1_000);
            recorder.woke(fate * 2_000);
            recorder.begin(slot, label, now_ns);
            due[user] = Some(now_ns.saturating_sub(rows * MS));
        }
        if below(&mut rhythm, 50) == 0 {
            recorder.roll(now_ns);
            merge.absorb(worker, Batch { now_ns, ..recorder.drain() });
        }
    }
    for (worker, recorder) in recorders.iter_mut().enumerate() {
        recorder.close(now_ns);
        merge.absorb(worker, Batch { now_ns, ..recorder.drain() });
        merge.leave(worker);
    }
    (std::iter::from_fn(|| merge.next_frame()).collect(), merge.log())
}

/// What does not depend on the machine.
fn played_only(seconds: &[Second]) -> Vec<Second> {
    seconds.iter().map(|&second| Second { client_cpu_s: 0.0, credited: 0.0, ..second }).collect()
}

#[test]
fn merging_parts_equals_the_whole() {
    for seed in 0..20 {
        let (whole_frames, whole) = played(seed, 1, 12);
        assert!(whole_frames.len() >= 8, "{}", whole_frames.len());
        for n_workers in [2, 3, 5] {
            let (frames, log) = played(seed, n_workers, 12);
            assert_eq!(log.rows, whole.rows);
            assert_eq!(log.errors, whole.errors);
            assert_eq!(log.error_counts, whole.error_counts);
            for what in What::ALL {
                assert_eq!(log.buckets(what), whole.buckets(what), "{what:?}");
                assert!(!whole.buckets(what).is_empty());
            }
            assert_eq!(played_only(&log.seconds), played_only(&whole.seconds));
            for (second, expected) in log.seconds.iter().zip(&whole.seconds) {
                assert!((second.credited - expected.credited).abs() < 1e-9, "{second:?} {expected:?}");
            }
            assert_eq!(frames.len(), whole_frames.len());
            for (frame, expected) in frames.iter().zip(&whole_frames) {
                assert!((frame.credited - expected.credited).abs() < 1e-9, "{frame:?} {expected:?}");
                let comparable =
                    |frame: &Frame| Frame { credited: 0.0, client_cpu_s: 0.0, wait_s: None, ..frame.clone() };
                assert_eq!(comparable(frame), comparable(expected));
            }
        }
    }
}

#[test]
fn the_credit_of_all_seconds_is_the_number_of_successes() {
    let (_, log) = played(3, 2, 12);
    let n_ok: u64 = log.seconds.iter().map(|second| second.n_ok).sum();
    let credited: f64 = log.seconds.iter().map(|second| second.credited).sum();
    assert!((credited - n_ok as f64).abs() < 1e-6, "{credited} {n_ok}");
    let counted: u64 = log.buckets(What::Response).iter().map(|bucket| bucket.count).sum();
    assert_eq!(counted, n_ok);
}

#[test]
fn a_frame_waits_for_the_slowest_worker_and_not_for_one_that_left() {
    let mut merge = Merge::new(3, labels());
    let mut recorders: Vec<Recorder> = (0..3).map(|user| recorder(&[user])).collect();
    for (recorder, end_ms) in recorders.iter_mut().zip([500, 600, 700]) {
        recorder.begin(0, 0, 250 * MS);
        recorder.finish(0, 250 * MS, end_ms * MS, Ok(Success { rows: 1, tries: 1 }));
    }
    recorders[0].close(750 * MS);
    merge.absorb(0, recorders[0].drain());
    merge.leave(0);
    recorders[1].roll(2_000 * MS);
    merge.absorb(1, recorders[1].drain());
    assert_eq!(merge.next_frame(), None);
    recorders[2].roll(1_000 * MS);
    merge.absorb(2, recorders[2].drain());
    let frame = merge.next_frame().expect("all have passed the first second or left");
    assert_eq!((frame.second, frame.n_ok, frame.credited), (0, 3, 3.0));
    assert_eq!(merge.next_frame(), None);
    assert!(!merge.is_done());
}

#[test]
fn running_operations_count_by_what_their_label_takes() {
    let mut merge = Merge::new(1, labels());
    let mut recorder = recorder(&[0, 1]);
    recorder.begin(0, 0, 0);
    recorder.finish(0, 0, 800 * MS, Ok(Success { rows: 1, tries: 1 }));
    recorder.begin(0, 0, 800 * MS);
    recorder.begin(1, 1, 900 * MS);
    recorder.roll(2_000 * MS);
    merge.absorb(0, recorder.drain());
    let credited: Vec<f64> = std::iter::from_fn(|| merge.next_frame()).map(|frame| frame.credited).collect();
    let expected = [1.0 + 0.2 / 0.8 + 0.1 / 0.1, 1.0 / 1.2 + 1.0 / 1.1];
    for (credited, expected) in credited.iter().zip(expected) {
        assert!((credited - expected).abs() < 1e-9, "{credited} {expected}");
    }
}

#[test]
fn percentiles_of_a_frame_are_those_of_its_operations() {
    let mut merge = Merge::new(1, labels());
    let mut recorder = recorder(&[0]);
    for i in 1..=100 {
        let sent_ns = i * 5 * MS;
        recorder.begin(0, (i % 3) as u32, sent_ns);
        recorder.finish(0, sent_ns, sent_ns + i * 10_000, Ok(Success { rows: 1, tries: 1 }));
    }
    recorder.roll(1_000 * MS);
    merge.absorb(0, recorder.drain());
    let frame = merge.next_frame().expect("a second is over");
    assert_eq!(frame.response_us, Percentiles { p50: 500, p95: 950, p99: 990 });
    assert_eq!(frame.lateness_p99_us, 0);
    let log = merge.log();
    let first = Bucket { second: 0, label: 0, value: 30.0, count: 1 };
    assert_eq!(log.buckets(What::Service)[0], first);
}

#[test]
fn waits_for_a_core_are_kept_by_worker_and_second() {
    let mut merge = Merge::new(2, labels());
    let batch = |waits: &[(u32, f64)], n_seconds: u32, priority| Batch {
        parts: waits.iter().map(|&(second, wait_s)| Part { wait_s, steal_s: 0.25, ..Part::new(second, 3) }).collect(),
        n_seconds,
        now_ns: u64::from(n_seconds) * 1_000 * MS,
        knows_waits: true,
        priority,
        ..Batch::default()
    };
    // A second may come in pieces.
    merge.absorb(0, batch(&[(0, 0.25), (0, 0.25), (1, 0.75)], 2, Priority::RealTime));
    merge.absorb(1, batch(&[(0, 0.125)], 2, Priority::ShortSlice));
    let frame = merge.next_frame().expect("both have passed it");
    assert_eq!((frame.wait_s, frame.steal_s), (Some(0.5), 0.75));
    let log = merge.log();
    assert_eq!(log.waits_s, [[0.5, 0.75], [0.125, 0.0]]);
    assert_eq!(log.priority, Priority::ShortSlice);
}

#[test]
fn waits_that_a_worker_does_not_know_are_not_told() {
    let mut merge = Merge::new(1, labels());
    merge.absorb(0, Batch { parts: vec![Part::new(0, 3)], n_seconds: 1, now_ns: 1_000 * MS, ..Batch::default() });
    assert_eq!(merge.next_frame().expect("over").wait_s, None);
    assert!(merge.log().waits_s.is_empty());
}
