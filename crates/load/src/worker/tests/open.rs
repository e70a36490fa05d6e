//! The open loop on simulated time.

use super::*;

pub(super) fn open(rate: f64) -> Open {
    Open {
        rate,
        arrivals: Arrivals::Uniform,
        profile: Profile::Constant,
        backlog_max: 10_000,
        backlog_age_max: Duration::from_secs(10),
    }
}

fn stalled(from_s: u64, until_s: u64) -> Fake {
    let start = Instant::now();
    let stall = Some((start + Duration::from_secs(from_s), start + Duration::from_secs(until_s)));
    Fake { stall, ..Fake::default() }
}

async fn play_open(fake: &Fake, request: FakeRequest, n_users: usize, open: Open) -> (Log, Vec<Frame>) {
    let plan = Plan { model: Model::Open(open), ..plan(n_users) };
    play_plan(fake, &vec![forever(request); n_users], plan).await
}

fn n_of(histogram: &[(u64, u64)], is_meant: impl Fn(u64) -> bool) -> u64 {
    histogram.iter().filter(|&&(ms, _)| is_meant(ms)).map(|&(_, n)| n).sum()
}

#[tokio::test(start_paused = true)]
async fn operations_come_at_their_times_whatever_the_answers() {
    let (log, frames) = play_open(&Fake::default(), Answer(30), 4, open(100.0)).await;
    let starts: Vec<u64> = story(&log).iter().take(900).map(|row| row.0).collect();
    assert_eq!(starts, (0..900).map(|k| 10 * k).collect::<Vec<_>>());
    assert_eq!(frames.iter().map(|frame| frame.n_ok).collect::<Vec<_>>()[1..], [100; 9]);
    assert!(log.seconds.iter().all(|second| (second.offered, second.shed) == (100, 0)), "{:?}", log.seconds);
    assert_eq!(histogram_ms(&log, What::Response), [(30, 997)]);
    assert_eq!(histogram_ms(&log, What::Queue), [(0, 997)]);
}

#[tokio::test(start_paused = true)]
async fn users_take_turns() {
    let (log, _) = play_open(&Fake::default(), Answer(1), 3, open(100.0)).await;
    let users: Vec<u32> = log.rows.iter().take(9).map(|row| row.user).collect();
    assert_eq!(users, [0, 1, 2, 0, 1, 2, 0, 1, 2]);
}

#[tokio::test(start_paused = true)]
async fn a_stall_shows_in_the_response_of_all_and_in_the_service_of_those_in_flight() {
    let (log, frames) = play_open(&stalled(4, 5), Answer(2), 2, open(100.0)).await;
    let (response, service) = (histogram_ms(&log, What::Response), histogram_ms(&log, What::Service));
    assert_eq!(n_of(&service, |ms| ms > 100), 2, "{service:?}");
    // One second of operations waits, and the backlog is worked off at 2 users per 2 ms while 100/s come in.
    let n_late = n_of(&response, |ms| ms > 20);
    assert!((95..=112).contains(&n_late), "{n_late}");
    assert_eq!(response.iter().map(|&(_, n)| n).sum::<u64>(), 1_000);
    assert!(response.last().is_some_and(|&(ms, _)| (985..=1_005).contains(&ms)), "{response:?}");
    assert!(histogram_ms(&log, What::Lateness).iter().all(|&(ms, _)| ms <= 1));
    // The clock starts 1 ms after the stall's: two of those that waited are taken before the second's end.
    assert_eq!(frames[4].backlog, 96);
    assert!(frames[5].response_us.p99 > 900_000, "{:?}", frames[5]);
    assert_eq!(log.seconds.iter().map(|second| second.shed).sum::<u64>(), 0);
}

#[tokio::test(start_paused = true)]
async fn what_is_shed_is_counted() {
    // Two users answer 20 per second, 100 per second come: every operation is served, shed, waiting or in flight.
    let open = Open { backlog_max: 50, ..open(100.0) };
    let (log, frames) = play_open(&Fake::default(), Answer(100), 2, open).await;
    let offered: u64 = log.seconds.iter().map(|second| second.offered).sum();
    let shed: u64 = log.seconds.iter().map(|second| second.shed).sum();
    let n_ok: u64 = log.seconds.iter().map(|second| second.n_ok).sum();
    assert_eq!(offered, 1_000);
    assert_eq!(n_ok + shed + 50 + 2, offered);
    assert_eq!(frames[8].backlog, 50);
    assert_eq!(frames[8].n_shed, 80);
    let most_ms = histogram_ms(&log, What::Response).last().expect("some were served").0;
    assert!((2_500..2_700).contains(&most_ms), "{most_ms}");
}

#[tokio::test(start_paused = true)]
async fn what_is_too_old_is_not_sent_any_more() {
    let open = Open { backlog_age_max: Duration::from_millis(300), ..open(100.0) };
    let (log, _) = play_open(&Fake::default(), Answer(100), 2, open).await;
    let queue = histogram_ms(&log, What::Queue);
    assert!(queue.iter().all(|&(ms, _)| ms <= 300), "{queue:?}");
    let shed: u64 = log.seconds.iter().map(|second| second.shed).sum();
    assert!((750..=790).contains(&shed), "{shed}");
}

#[tokio::test(start_paused = true)]
async fn a_dead_server_is_an_error_of_every_attempt_and_not_the_end() {
    let fake = Fake { refused: (2, DEAF), ..Fake::default() };
    let before = Instant::now();
    let (log, _) = play_open(&fake, Lose(10), 2, Open { backlog_max: 5, ..open(100.0) }).await;
    assert!(before.elapsed() < Duration::from_millis(10_100), "{:?}", before.elapsed());
    let counts: Vec<_> = log.error_counts.iter().collect();
    assert!(matches!(&counts[..], [(name, 20..=32)] if name == "connect"), "{counts:?}");
    let shed: u64 = log.seconds.iter().map(|second| second.shed).sum();
    assert!(shed > 980, "{shed}");
}

#[tokio::test(start_paused = true)]
async fn the_same_seed_gives_the_same_run() {
    let poisson = || Open { arrivals: Arrivals::Poisson, ..open(50.0) };
    let (first, _) = play_open(&Fake::default(), Answer(7), 3, poisson()).await;
    let (again, _) = play_open(&Fake::default(), Answer(7), 3, poisson()).await;
    assert_eq!(story(&first), story(&again));
    assert!((400..600).contains(&first.rows.len()), "{}", first.rows.len());
}

#[tokio::test(start_paused = true)]
async fn users_without_work_leave_theirs_to_others() {
    let plan = Plan { model: Model::Open(open(10.0)), ..plan(2) };
    let (log, _) = play_plan(&Fake::default(), &[once(&[Answer(1)]), forever(Answer(1))], plan).await;
    assert_eq!(log.rows.iter().filter(|row| row.user == 0).count(), 1);
    assert_eq!(log.rows.len(), 100);
    // What the first user leaves is not kept until the next operation falls due.
    assert_eq!(histogram_ms(&log, What::Response), [(1, 100)]);
}

#[tokio::test(start_paused = true)]
async fn wake_ups_are_counted_whether_or_not_a_user_is_free() {
    let hung = Open { rate: 1_000.0, ..open(1.0) };
    let (log, _) = play_open(&Fake::default(), FakeRequest::Hang(DEAF), 1, hung).await;
    // The only user is never free again.
    assert!(histogram_ms(&log, What::Lateness).iter().map(|&(_, n)| n).sum::<u64>() <= 1);
    let wakeups = histogram_ms(&log, What::WakeUp);
    assert!(wakeups.iter().all(|&(ms, _)| ms <= 1), "{wakeups:?}");
    assert!(wakeups.iter().map(|&(_, n)| n).sum::<u64>() > 5_000, "{wakeups:?}");
}
