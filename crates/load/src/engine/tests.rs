//! Whole loads on real threads, against a server that exists in memory only.

use std::sync::atomic::Ordering;

use super::*;
use crate::driver::fake::{DEAF, Fake, FakeRequest, Faked};
use crate::fixed::{FixedSources, Operation, Stream};
use crate::log::Outcome;
use crate::model::{Model, Think};

const LONG: Duration = Duration::from_secs(60);
const LIMITS: Limits =
    Limits { duration: LONG, operation_timeout: LONG, connect_timeout: LONG, cancel_grace: Duration::from_millis(100) };

fn stream(request: FakeRequest, repeat: bool) -> Stream<FakeRequest> {
    let operation = Arc::new(Operation { label: "q".to_owned(), commands: vec![request] });
    Stream { operations: vec![operation], repeat, think: Duration::ZERO }
}

fn plan(n_users: u32) -> Plan {
    let model = Model::Closed(Think::default());
    Plan { model, n_users, limits: LIMITS, seed: 1, keeps_rows: true, max_tries: 1 }
}

fn launch(fake: &Fake, streams: Vec<Stream<FakeRequest>>, n_threads: usize) -> Load {
    let plan = plan(streams.len() as u32);
    let sources = Arc::new(FixedSources::new(streams).expect("legal streams"));
    Load::launch(fake, sources, &plan, Share::whole(n_threads, plan.n_users)).expect("a legal load")
}

/// A load all of whose streams have sent a request.
fn running(streams: Vec<Stream<FakeRequest>>, n_threads: usize) -> Load {
    let (fake, n_streams) = (Fake::default(), streams.len() as u32);
    let load = launch(&fake, streams, n_threads);
    assert!(load.wait_connected(LONG).expect("the fake accepts"));
    while fake.n_requests.load(Ordering::SeqCst) < n_streams {
        std::thread::yield_now();
    }
    load
}

#[test]
fn stops_at_once_although_nothing_ever_ends() {
    for patience in [1, DEAF] {
        let load = running(vec![stream(FakeRequest::Hang(patience), true); 20], 3);
        let before = Instant::now();
        let log = load.stop().expect("no panic");
        assert!(before.elapsed() < Duration::from_secs(1), "{:?}", before.elapsed());
        assert_eq!(log.rows.len(), 20);
        assert!(log.rows.iter().all(|row| row.outcome == Outcome::Cancelled && row.end_s <= log.duration_s));
        assert!(log.is_done && load.is_done());
        assert_eq!(load.stop().expect("still no panic").rows, log.rows);
    }
}

#[test]
fn dropping_stops() {
    let fake = Fake::default();
    let load = launch(&fake, vec![stream(FakeRequest::Hang(1), true)], 1);
    assert!(load.wait_connected(LONG).expect("the fake accepts"));
    drop(load);
    assert_eq!(Arc::strong_count(&fake.n_connects), 1, "a worker still holds its copy of the driver");
}

#[test]
fn dropping_while_connecting_stops() {
    let fake = Fake { is_silent: true, ..Fake::default() };
    let load = launch(&fake, vec![stream(FakeRequest::Answer(1), true)], 1);
    assert!(!load.wait_connected(Duration::from_millis(1)).expect("no failure yet"));
    assert!(load.log().rows.is_empty());
    drop(load);
    assert_eq!(Arc::strong_count(&fake.n_connects), 1);
}

#[test]
fn the_log_so_far_needs_no_stop() {
    let streams = vec![stream(FakeRequest::Answer(1), true), stream(FakeRequest::Answer(1), false)];
    let load = running(streams, 2);
    let mut n_rows = 0;
    while n_rows < 5 {
        let log = load.log();
        assert!(log.rows.len() >= n_rows && !log.is_done);
        n_rows = log.rows.len();
    }
    assert!(load.stop().expect("no panic").rows.len() > 5);
}

#[test]
fn a_run_whose_streams_are_finished_is_done() {
    let load = running(vec![stream(FakeRequest::Answer(1), false); 4], 2);
    assert_eq!(load.next_frame(LONG), None);
    assert!(load.is_done());
    assert_eq!(load.log().rows.len(), 4);
}

#[test]
fn frames_come_while_it_runs() {
    let load = running(vec![stream(FakeRequest::Answer(5), true); 4], 2);
    let frame = load.next_frame(LONG).expect("a frame");
    assert_eq!(frame.second, 0);
    assert!(frame.n_ok > 4);
    assert_eq!(load.next_frame(Duration::from_millis(1)), None);
    assert!(!load.is_done());
}

#[test]
fn a_panic_in_a_driver_is_told() {
    // The other one sends one request only: two have been sent when both have.
    let load = running(vec![stream(FakeRequest::Panic, true), stream(FakeRequest::Hang(1), true)], 2);
    assert!(matches!(load.stop(), Err(LoadError::Worker)));
}

#[test]
fn a_refused_user_is_told() {
    let fake = Fake { refused: (0, 9), ..Fake::default() };
    let load = launch(&fake, vec![stream(FakeRequest::Answer(1), true)], 1);
    let error = load.wait_connected(LONG).expect_err("refused");
    assert_eq!(error.to_string(), "user 0 could not connect: refused");
}

#[test]
fn two_halves_drive_the_users_of_the_whole() {
    let streams = vec![stream(FakeRequest::Answer(1), false); 5];
    let sources: Arc<dyn Sources<Faked>> = Arc::new(FixedSources::new(streams).expect("legal streams"));
    let mut users = Vec::new();
    for first in 0..2 {
        let share = Share { n_threads: 1, first, n_all: 2 };
        let load = Load::launch(&Fake::default(), Arc::clone(&sources), &plan(5), share).expect("legal");
        assert!(load.wait_ready(Duration::from_secs(30)).expect("connected"));
        assert!(load.next_frame(Duration::from_millis(1)).is_none(), "its clock stands");
        load.start();
        while !load.is_done() {
            load.next_frame(Duration::from_millis(10));
        }
        let log = load.stop().expect("no panic");
        users.push(log.rows.iter().map(|row| row.user).collect::<std::collections::BTreeSet<_>>());
        assert_eq!(share.n_users(5) as usize, users[first].len());
    }
    assert_eq!(users, [[0, 2, 4].into(), [1, 3].into()]);
}

#[test]
fn a_share_beyond_the_run_is_refused() {
    let sources: Arc<dyn Sources<Faked>> =
        Arc::new(FixedSources::new(vec![stream(FakeRequest::Answer(1), false); 2]).expect("legal streams"));
    for (share, text) in [
        (Share { n_threads: 2, first: 1, n_all: 2 }, "threads=1..3: users=2 have threads 0..2"),
        (Share { n_threads: 1, first: 0, n_all: 3 }, "threads=0..1: users=2 have threads 0..3"),
    ] {
        let refused = Load::launch(&Fake::default(), Arc::clone(&sources), &plan(2), share).err().expect("refused");
        assert_eq!(refused.to_string(), text);
    }
}
