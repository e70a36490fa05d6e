//! The worker on simulated time: every moment is exact.

use std::sync::atomic::Ordering;
use std::sync::mpsc::channel;

use tokio::sync::mpsc::unbounded_channel;
use tokio::task::LocalSet;

use super::*;
use crate::driver::fake::{DEAF, Fake, FakeRequest};
use crate::log::{Frame, Log, Outcome};
use crate::merge::Merge;
use crate::schedule::{Stream, index_labels};
use FakeRequest::{Answer, Fail, Hang, Lose};

const LIMITS: Limits = Limits {
    duration: Duration::from_secs(10),
    operation_timeout: Duration::from_secs(5),
    connect_timeout: Duration::from_secs(1),
    cancel_grace: Duration::from_millis(500),
};

fn once(requests: &[FakeRequest]) -> Stream<FakeRequest> {
    let operation = |&request| Arc::new(Operation { label: format!("{request:?}"), request });
    Stream { operations: requests.iter().map(operation).collect(), repeat: false, think_s: 0.0 }
}

fn forever(request: FakeRequest) -> Stream<FakeRequest> {
    Stream { repeat: true, ..once(&[request]) }
}

/// Runs one worker to its end and gives back what it told.
async fn events(fake: &Fake, streams: &[Stream<FakeRequest>], limits: Limits) -> (Vec<Event>, Arc<[String]>) {
    let (labels, indexes) = index_labels(streams);
    let labels: Arc<[String]> = labels.into();
    let assign = |(i, (stream, labels)): (usize, (&Stream<FakeRequest>, Vec<u32>))| Assignment {
        stream: i as u32,
        cursor: Cursor::new(stream.clone(), labels),
    };
    let assignments = streams.iter().zip(indexes).enumerate().map(assign).collect();
    let (events, told) = channel();
    let (command, commands) = unbounded_channel();
    let local = LocalSet::new();
    local
        .run_until(async {
            let outbox = Outbox { worker: 0, events };
            let connecting = run(fake.clone(), assignments, Arc::clone(&labels), limits, commands, outbox);
            let mut running = pin!(connecting);
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

async fn play_within(fake: &Fake, streams: &[Stream<FakeRequest>], limits: Limits) -> (Log, Vec<Frame>) {
    let (events, labels) = events(fake, streams, limits).await;
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

async fn play(fake: &Fake, streams: &[Stream<FakeRequest>]) -> (Log, Vec<Frame>) {
    play_within(fake, streams, LIMITS).await
}

/// (start, end, outcome) of every row; milliseconds.
fn story(log: &Log) -> Vec<(u64, u64, Outcome)> {
    let ms = |seconds: f64| (seconds * 1e3).round() as u64;
    log.rows.iter().map(|row| (ms(row.start_s), ms(row.end_s), row.outcome)).collect()
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
    let stream = Stream { think_s: 0.25, ..once(&[Answer(100), Answer(100)]) };
    let (log, _) = play(&Fake::default(), &[stream]).await;
    assert_eq!(story(&log), [(0, 100, Outcome::Ok), (350, 450, Outcome::Ok)]);
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
async fn the_end_does_not_wait_for_a_deaf_server() {
    let limits = Limits { duration: Duration::from_secs(1), ..LIMITS };
    let before = Instant::now();
    let (log, _) = play_within(&Fake::default(), &[forever(Hang(DEAF))], limits).await;
    assert_eq!(story(&log), [(0, 1_000, Outcome::Cancelled)]);
    assert_eq!(log.duration_s, 1.0);
    assert!(before.elapsed() < Duration::from_millis(1_510), "{:?}", before.elapsed());
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
async fn a_stream_that_cannot_connect_is_named() {
    let fake = Fake { refused: (2, 3), ..Fake::default() };
    let (events, _) = events(&fake, &vec![forever(Answer(1)); 4], LIMITS).await;
    let expected = ConnectFailure { stream: 2, failure: Failure::without_code(ErrorClass::Connect, "refused") };
    assert!(matches!(&events[0], Event::Connected(Err(failure)) if *failure == expected), "{events:?}");
    assert!(matches!(events[1], Event::Gone));
}

#[tokio::test(start_paused = true)]
async fn connecting_has_a_time_out() {
    let fake = Fake { is_silent: true, ..Fake::default() };
    let (events, _) = events(&fake, &[forever(Answer(1))], LIMITS).await;
    let expected = Failure::without_code(ErrorClass::Connect, "no connection within 1 s");
    assert!(matches!(&events[0], Event::Connected(Err(failure)) if failure.failure == expected), "{events:?}");
}
