//! The worker on simulated time: every moment is exact.

use std::pin::pin;
use std::sync::atomic::Ordering;
use std::sync::mpsc::channel;

use tokio::sync::mpsc::unbounded_channel;
use tokio::task::LocalSet;

use super::*;
use crate::driver::ErrorClass;
use crate::driver::fake::{DEAF, Fake, FakeRequest, Faked};
use crate::driver::wiredtiger::WiredTiger;
use crate::fixed::{FixedSources, Operation, Stream};
use crate::log::{Frame, Log, Outcome, What};
use crate::merge::Merge;
use crate::model::{Arrivals, Open, Profile};
use FakeRequest::{Answer, Conflict, Fail, Hang, Lose};

mod open;

const LIMITS: Limits = Limits {
    duration: Duration::from_secs(10),
    operation_timeout: Duration::from_secs(5),
    connect_timeout: Duration::from_secs(1),
    cancel_grace: Duration::from_millis(500),
};

/// The priority that a thread takes to drive such a load, and the highest that it may have.
fn priority_of<D: Driver>(model: &Model, keeps_time: bool) -> (Priority, Priority) {
    let place = Place { worker: 0, n_workers: 1, n_users: 1 };
    let model = model.clone();
    // On a thread of its own: it keeps its priority.
    let paced = std::thread::spawn(move || (paced::<D>(&model, place, 1, keeps_time).2, take_precedence()));
    paced.join().expect("no panic")
}

#[test]
fn what_is_due_at_a_moment_takes_precedence_where_that_is_allowed() {
    let (closed, open) = (Model::Closed(Think::default()), Model::Open(open::open(100.0)));
    assert_eq!(priority_of::<Fake>(&closed, false).0, Priority::Normal);
    for (model, keeps_time) in [(&closed, true), (&open, false)] {
        let (had, possible) = priority_of::<Fake>(model, keeps_time);
        assert_eq!(had, possible);
        // The server's own work, which must not go before the server's other threads.
        assert_eq!(priority_of::<WiredTiger>(model, keeps_time).0, Priority::Normal);
    }
}

fn once(requests: &[FakeRequest]) -> Stream<FakeRequest> {
    let operation = |&request| Arc::new(Operation { label: format!("{request:?}"), commands: vec![request] });
    Stream { operations: requests.iter().map(operation).collect(), repeat: false, think: Duration::ZERO }
}

fn forever(request: FakeRequest) -> Stream<FakeRequest> {
    Stream { repeat: true, ..once(&[request]) }
}

fn plan(n_users: usize) -> Plan {
    let model = Model::Closed(Think::default());
    Plan { model, n_users: n_users as u32, limits: LIMITS, seed: 1, keeps_rows: true, max_tries: 1 }
}

/// Runs one worker to its end and gives back what it told.
async fn events(fake: &Fake, streams: &[Stream<FakeRequest>], plan: Plan) -> (Vec<Event>, Arc<[String]>) {
    let sources: Arc<dyn Sources<Faked>> = Arc::new(FixedSources::new(streams.to_vec()).expect("legal streams"));
    let labels: Arc<[String]> = sources.labels().into();
    let place = Place { worker: 0, n_workers: 1, n_users: plan.n_users };
    let (driver, timer) = (fake.clone(), Timer::coarse());
    let job = Job { driver, sources, labels: Arc::clone(&labels), plan, place, reads_steal: true, timer };
    let (events, told) = channel();
    let (command, commands) = unbounded_channel();
    let local = LocalSet::new();
    local
        .run_until(async {
            let outbox = Outbox { worker: 0, events };
            let mut running = pin!(run(job, commands, outbox));
            // Connecting takes no simulated time, so after this all are connected or have failed.
            if timeout(Duration::from_millis(1), &mut running).await.is_err() {
                let is_connected = matches!(told.try_recv(), Ok((0, Event::Connected(Ok(())))));
                if is_connected {
                    command.send(Command::Start(Instant::now())).expect("it listens");
                }
                running.await;
            }
        })
        .await;
    (told.try_iter().map(|(_, event)| event).collect(), labels)
}

async fn play_plan(fake: &Fake, streams: &[Stream<FakeRequest>], plan: Plan) -> (Log, Vec<Frame>) {
    let (events, labels) = events(fake, streams, plan).await;
    let mut merge = Merge::new(1, labels);
    for event in events {
        match event {
            Event::Second(batch) | Event::Flushed(batch) => merge.absorb(0, batch),
            Event::Gone => merge.leave(0),
            Event::Connected(result) => panic!("{result:?}"),
        }
    }
    let frames = std::iter::from_fn(|| merge.next_frame()).collect();
    (merge.log(), frames)
}

async fn play_within(fake: &Fake, streams: &[Stream<FakeRequest>], limits: Limits) -> (Log, Vec<Frame>) {
    play_plan(fake, streams, Plan { limits, ..plan(streams.len()) }).await
}

async fn play(fake: &Fake, streams: &[Stream<FakeRequest>]) -> (Log, Vec<Frame>) {
    play_within(fake, streams, LIMITS).await
}

/// (start, end, outcome) of every row; milliseconds.
fn story(log: &Log) -> Vec<(u64, u64, Outcome)> {
    let ms = |seconds: f64| (seconds * 1e3).round() as u64;
    log.rows.iter().map(|row| (ms(row.start_s), ms(row.end_s), row.outcome)).collect()
}

/// (value to the millisecond, count) of a histogram of all seconds and labels.
fn histogram_ms(log: &Log, what: What) -> Vec<(u64, u64)> {
    let mut all = std::collections::BTreeMap::new();
    for bucket in log.buckets(what) {
        *all.entry((bucket.value / 1_000.0).round() as u64).or_insert(0) += bucket.count;
    }
    all.into_iter().collect()
}

#[tokio::test(start_paused = true)]
async fn operations_follow_each_other() {
    let (log, frames) = play(&Fake::default(), &[once(&[Answer(20), Fail(30), Answer(50)])]).await;
    assert_eq!(story(&log), [(0, 20, Outcome::Ok), (20, 50, Outcome::Error), (50, 100, Outcome::Ok)]);
    assert_eq!(log.errors, ["Fail(30): F0001 failed"]);
    assert_eq!(log.rows.iter().map(|row| row.rows).collect::<Vec<_>>(), [1, 0, 1]);
    assert!(log.is_done);
    assert!(frames.is_empty(), "no whole second has passed");
}

#[tokio::test(start_paused = true)]
async fn a_stall_shows_in_its_seconds() {
    let (log, frames) = play(&Fake::default(), &[once(&[Answer(500), Answer(3_500), Answer(1_000)])]).await;
    assert_eq!(log.duration_s, 5.0);
    assert_eq!(frames.iter().map(|frame| frame.n_ok).collect::<Vec<_>>(), [1, 0, 0, 0, 1]);
    // Only what its label has shown so far is known of the stalled operation, that is nothing: its elapsed time.
    let expected = [1.0 + 0.5 / 0.5, 1.0 / 1.5, 1.0 / 2.5, 1.0 / 3.5, 1.0];
    for (frame, expected) in frames.iter().zip(expected) {
        assert!((frame.credited - expected).abs() < 1e-9, "{frame:?} {expected}");
    }
}

#[tokio::test(start_paused = true)]
async fn thinking_comes_between() {
    let stream = Stream { think: Duration::from_millis(250), ..once(&[Answer(100), Answer(100)]) };
    let (log, _) = play(&Fake::default(), &[stream]).await;
    assert_eq!(story(&log), [(0, 100, Outcome::Ok), (350, 450, Outcome::Ok)]);
}

#[tokio::test(start_paused = true)]
async fn a_pause_that_is_longer_than_can_be_counted_does_not_end() {
    // As nanoseconds it is 2^64, and 0.29 s.
    let stream = Stream { think: Duration::from_secs(18_446_744_074), ..forever(Answer(100)) };
    let (log, _) = play(&Fake::default(), &[stream]).await;
    assert_eq!(story(&log), [(0, 100, Outcome::Ok)]);
}

#[tokio::test(start_paused = true)]
async fn the_duration_cancels_what_runs() {
    let limits = Limits { duration: Duration::from_millis(2_500), ..LIMITS };
    let (log, frames) = play_within(&Fake::default(), &[forever(Answer(1_000)), forever(Hang(1))], limits).await;
    let ends: Vec<_> = story(&log).into_iter().map(|(_, end, outcome)| (end, outcome)).collect();
    let expected =
        [(1_000, Outcome::Ok), (2_000, Outcome::Ok), (2_500, Outcome::Cancelled), (2_500, Outcome::Cancelled)];
    assert_eq!(ends, expected);
    assert_eq!(frames.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_time_out_keeps_a_connection_that_answers_the_cancel() {
    let fake = Fake::default();
    let (log, _) = play(&fake, &[once(&[Hang(1), Answer(10)])]).await;
    assert_eq!(story(&log), [(0, 5_000, Outcome::TimedOut), (5_000, 5_010, Outcome::Ok)]);
    assert_eq!(fake.n_connects.load(Ordering::SeqCst), 1);
    assert_eq!(log.errors, [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_lost_cancel_is_repeated() {
    let fake = Fake::default();
    let (log, _) = play(&fake, &[once(&[Hang(3), Answer(10)])]).await;
    assert_eq!(story(&log), [(0, 5_000, Outcome::TimedOut), (5_100, 5_110, Outcome::Ok)]);
    assert_eq!(fake.n_cancels.load(Ordering::SeqCst), 3);
    assert_eq!(fake.n_connects.load(Ordering::SeqCst), 1);
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_never_answers_the_cancel_is_replaced() {
    let fake = Fake::default();
    let (log, _) = play(&fake, &[once(&[Hang(DEAF), Answer(10)])]).await;
    assert_eq!(story(&log), [(0, 5_000, Outcome::TimedOut), (5_550, 5_560, Outcome::Ok)]);
    assert_eq!(fake.n_connects.load(Ordering::SeqCst), 2);
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_cancelled_is_dropped_and_its_session_goes_on() {
    let fake = Fake { is_uncancellable: true, ..Fake::default() };
    let (log, _) = play(&fake, &[once(&[Hang(1), Answer(10)])]).await;
    assert_eq!(story(&log), [(0, 5_000, Outcome::TimedOut), (5_000, 5_010, Outcome::Ok)]);
    let counts = [&fake.n_connects, &fake.n_cancels, &fake.n_resets].map(|count| count.load(Ordering::SeqCst));
    assert_eq!(counts, [1, 0, 1]);
}

#[tokio::test(start_paused = true)]
async fn users_come_within_the_time_that_the_model_gives_them() {
    let model = Model::Closed(Think { start_s: 8.0, ..Think::default() });
    let streams = vec![once(&[Answer(10)]); 200];
    let (log, _) = play_plan(&Fake::default(), &streams, Plan { model, ..plan(200) }).await;
    let starts: Vec<f64> = log.rows.iter().map(|row| row.start_s).collect();
    let mean_s = starts.iter().sum::<f64>() / 200.0;
    assert!(starts.len() == 200 && (mean_s - 4.0).abs() < 0.6, "{mean_s}");
    assert!(starts.iter().all(|start_s| (0.0..8.01).contains(start_s)));
    assert!((0..8).all(|second| starts.iter().any(|start_s| *start_s as u64 == second)));
}

#[tokio::test(start_paused = true)]
async fn the_end_does_not_wait_for_a_deaf_server() {
    let limits = Limits { duration: Duration::from_secs(1), ..LIMITS };
    let before = Instant::now();
    let (log, _) = play_within(&Fake::default(), &[forever(Hang(DEAF))], limits).await;
    assert_eq!(story(&log), [(0, 1_000, Outcome::Cancelled)]);
    assert_eq!(log.duration_s, 1.0);
    assert!(before.elapsed() < Duration::from_millis(1_540), "{:?}", before.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_lost_connection_comes_back_with_pauses() {
    let fake = Fake { refused: (1, 4), ..Fake::default() };
    let (log, _) = play(&fake, &[once(&[Lose(100), Answer(10)])]).await;
    let expected = [
        (0, 100, Outcome::Error),
        (150, 150, Outcome::Error),
        (250, 250, Outcome::Error),
        (450, 450, Outcome::Error),
        (850, 860, Outcome::Ok),
    ];
    assert_eq!(story(&log), expected);
    assert_eq!(log.errors[1], "Answer(10): refused");
}

#[tokio::test(start_paused = true)]
async fn a_server_that_accepts_and_drops_is_not_hammered() {
    let fake = Fake::default();
    let (log, _) = play(&fake, &[forever(Lose(0))]).await;
    assert!((10..=15).contains(&log.rows.len()), "{} attempts in ten seconds", log.rows.len());
}

#[tokio::test(start_paused = true)]
async fn a_user_that_cannot_connect_is_named() {
    let fake = Fake { refused: (2, 3), ..Fake::default() };
    let (events, _) = events(&fake, &vec![forever(Answer(1)); 4], plan(4)).await;
    let expected = ConnectFailure { user: 2, failure: Failure::without_code(ErrorClass::Connect, "refused") };
    assert!(matches!(&events[0], Event::Connected(Err(NotReady::User(failure))) if *failure == expected), "{events:?}");
    assert!(matches!(events[1], Event::Gone));
}

#[tokio::test(start_paused = true)]
async fn connecting_has_a_time_out() {
    let fake = Fake { is_silent: true, ..Fake::default() };
    let (events, _) = events(&fake, &[forever(Answer(1))], plan(1)).await;
    let expected = Failure::without_code(ErrorClass::Connect, "no connection within 1 s");
    assert!(
        matches!(&events[0], Event::Connected(Err(NotReady::User(failure))) if failure.failure == expected),
        "{events:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_conflict_is_tried_again_within_the_response_time() {
    let fake = Fake::default();
    let (log, _) = play_plan(&fake, &[once(&[Conflict(2), Answer(10)])], Plan { max_tries: 5, ..plan(1) }).await;
    // Three times 10 ms, and pauses of at most 1 ms and 2 ms, which the runtime's timer rounds up.
    let response = histogram_ms(&log, What::Response);
    assert!(response[1].0 > 30 && response[1].0 <= 35, "{response:?}");
    assert_eq!(histogram_ms(&log, What::Service), response);
    assert_eq!(
        log.buckets(What::Attempts).iter().map(|tries| (tries.value as u64, tries.count)).collect::<Vec<_>>(),
        [(3, 1), (1, 1)]
    );
    assert!(log.rows.iter().all(|row| row.outcome == Outcome::Ok));
    assert_eq!(log.errors, [""; 0]);
    assert_eq!(fake.n_resets.load(Ordering::SeqCst), 2);
}

#[tokio::test(start_paused = true)]
async fn tries_are_bounded_and_only_conflicts_are_tried_again() {
    let fake = Fake::default();
    let stream = once(&[Conflict(3), Fail(10), Answer(10)]);
    let (log, _) = play_plan(&fake, &[stream], Plan { max_tries: 2, ..plan(1) }).await;
    let outcomes: Vec<_> = log.rows.iter().map(|row| row.outcome).collect();
    assert_eq!(outcomes, [Outcome::Error, Outcome::Error, Outcome::Ok]);
    assert_eq!(fake.n_requests.load(Ordering::SeqCst), 2 + 1 + 1);
    assert_eq!(log.error_counts.iter().collect::<Vec<_>>(), [("serialization".to_owned(), 1), ("other".to_owned(), 1)]);
    assert_eq!(histogram_ms(&log, What::Error).iter().map(|bucket| bucket.1).sum::<u64>(), 2);
}

#[tokio::test(start_paused = true)]
async fn an_operation_between_tries_is_cut_off_too() {
    let limits = Limits { operation_timeout: Duration::from_millis(200), ..LIMITS };
    let stream = once(&[Conflict(DEAF), Answer(10)]);
    let (log, _) = play_plan(&Fake::default(), &[stream], Plan { max_tries: 1_000, limits, ..plan(1) }).await;
    assert_eq!(story(&log)[0], (0, 200, Outcome::TimedOut));
    assert_eq!(story(&log)[1].2, Outcome::Ok);
}

#[tokio::test(start_paused = true)]
async fn an_operation_is_cut_off_while_its_connection_is_made_fit_for_another_try() {
    let limits = Limits { operation_timeout: Duration::from_millis(200), ..LIMITS };
    let fake = Fake { reset_ms: 400, ..Fake::default() };
    let stream = once(&[Conflict(DEAF), Answer(10)]);
    let (log, _) = play_plan(&fake, &[stream], Plan { max_tries: 1_000, limits, ..plan(1) }).await;
    assert_eq!(story(&log)[0], (0, 200, Outcome::TimedOut));
    let (start_ms, _, outcome) = story(&log)[1];
    assert_eq!((outcome, start_ms / 10), (Outcome::Ok, 41), "as soon as the connection is fit");
    assert_eq!(fake.n_resets.load(Ordering::SeqCst), 1);
}

#[tokio::test(start_paused = true)]
async fn thinking_of_the_model_follows_its_distribution() {
    for (is_exponential, mean_s) in [(false, 0.05), (true, 0.05)] {
        let model = Model::Closed(Think { mean_s, is_exponential, start_s: 0.0 });
        let limits = Limits { duration: Duration::from_secs(100), ..LIMITS };
        let (log, _) = play_plan(&Fake::default(), &[forever(Answer(10))], Plan { model, limits, ..plan(1) }).await;
        let pauses: Vec<f64> = log.rows.windows(2).map(|rows| rows[1].start_s - rows[0].end_s).collect();
        let n = pauses.len() as f64;
        let mean = pauses.iter().sum::<f64>() / n;
        let sd = (pauses.iter().map(|pause| (pause - mean).powi(2)).sum::<f64>() / n).sqrt();
        // The runtime's timer rounds up to a millisecond.
        assert!((mean - mean_s).abs() < 0.005, "{mean}");
        let expected_sd = if is_exponential { mean_s } else { 0.0 };
        assert!((sd - expected_sd).abs() < 0.005, "{sd}");
        assert!(histogram_ms(&log, What::Lateness).iter().all(|&(ms, _)| ms <= 1));
    }
}

#[tokio::test(start_paused = true)]
async fn a_stall_in_a_closed_loop_is_one_long_operation_per_user() {
    let start = Instant::now();
    let stall = Some((start + Duration::from_secs(2), start + Duration::from_secs(3)));
    let (log, frames) = play(&Fake { stall, ..Fake::default() }, &vec![forever(Answer(10)); 4]).await;
    let long = |what| histogram_ms(&log, what).iter().filter(|&&(ms, _)| ms > 20).map(|&(_, n)| n).sum::<u64>();
    assert_eq!((long(What::Response), long(What::Service), long(What::Queue)), (4, 4, 0));
    assert_eq!(frames[2].n_ok, 4);
    assert!(frames[3].response_us.p99 < 20_000, "{:?}", frames[3]);
}

#[tokio::test(start_paused = true)]
async fn a_user_that_never_waits_lets_others_run() {
    let empty = Arc::new(Operation { label: "nothing".to_owned(), commands: vec![] });
    let busy = Stream { operations: vec![empty], repeat: true, think: Duration::ZERO };
    let limits = Limits { duration: Duration::from_millis(20), ..LIMITS };
    let running = async {
        let (log, _) = play_within(&Fake::default(), &[busy, forever(Answer(1))], limits).await;
        log
    };
    // Nobody sleeps, so simulated time stands still: it must be moved by hand.
    let clock = async {
        loop {
            tokio::task::yield_now().await;
            tokio::time::advance(Duration::from_millis(1)).await;
        }
    };
    let log = tokio::select! {
        log = running => log,
        () = clock => unreachable!("the clock has no end"),
    };
    assert!(log.rows.iter().any(|row| row.label == 1 && row.outcome == Outcome::Ok));
}
