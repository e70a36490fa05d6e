//! One worker: its connections, its users, its recorder, and the loop that watches over them.
//!
//! Everything here runs on one thread, on a runtime of its own; the engine speaks to it through channels only.

use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::Duration;

use futures_util::{StreamExt, TryStreamExt};
use tokio::sync::mpsc;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{Instant, timeout};

use crate::cpu::{Priority, take_precedence};
use crate::driver::{Driver, Failure, Session};
use crate::model::{Model, Think};
use crate::queue::Queue;
use crate::random::Random;
use crate::recorder::{Batch, Extras, Recorder};
use crate::room::{Bell, Room, Seat, Times};
use crate::schedule::Place;
use crate::source::Sources;
use crate::timer::Timer;
use crate::user::{CLOSE_TIMEOUT, Manners, User, connect};

/// What the engine tells a worker.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Command {
    /// The run's clock starts at this instant.
    Start(Instant),
    /// Hand over what was recorded so far, as [`Event::Flushed`].
    Flush,
    /// Stop now.
    Stop,
}

/// What a worker tells the engine.
#[derive(Debug)]
pub(crate) enum Event {
    /// All its users are connected, or why one is not.
    Connected(Result<(), NotReady>),
    /// One second's news.
    Second(Batch),
    /// The answer to [`Command::Flush`].
    Flushed(Batch),
    /// Its thread is ending, in whatever way.
    Gone,
}

/// A user that could not connect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConnectFailure {
    /// The user's number.
    pub user: u32,
    /// Why.
    pub failure: Failure,
}

/// Why a worker cannot begin.
#[derive(Clone, Debug)]
pub(crate) enum NotReady {
    /// One of its users could not connect.
    User(ConnectFailure),
    /// The system gives the thread too little.
    System(Arc<io::Error>),
}

/// How long things may take.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// The run ends by itself after this time.
    pub duration: Duration,
    /// An operation is cut off after this time, counted from its sending.
    pub operation_timeout: Duration,
    /// One attempt to connect.
    pub connect_timeout: Duration,
    /// How long a cancelled operation may take to come back before its connection is given up.
    pub cancel_grace: Duration,
}

/// What all workers of a run have in common.
#[derive(Clone, Debug)]
pub struct Plan {
    /// When operations are due.
    pub model: Model,
    /// How many users there are.
    pub n_users: u32,
    /// How long things may take.
    pub limits: Limits,
    /// Decides every random choice.
    pub seed: u64,
    /// Whether a row of every operation is kept: for long operations.
    pub keeps_rows: bool,
    /// How often an operation is tried at most.
    pub max_tries: u32,
}

/// What a worker gets.
pub(crate) struct Job<D: Driver> {
    pub(crate) driver: D,
    pub(crate) sources: Arc<dyn Sources<D::Protocol>>,
    pub(crate) labels: Arc<[String]>,
    pub(crate) plan: Plan,
    pub(crate) place: Place,
    /// Whether it is this worker that reads the machine's steal time.
    pub(crate) reads_steal: bool,
    pub(crate) timer: Timer,
}

/// The worker's way to the engine.
pub(crate) struct Outbox {
    pub(crate) worker: usize,
    pub(crate) events: Sender<(usize, Event)>,
}

impl Outbox {
    pub(crate) fn send(&self, event: Event) {
        // An engine that is gone needs no news.
        let _ = self.events.send((self.worker, event));
    }
}

impl Drop for Outbox {
    fn drop(&mut self) {
        self.send(Event::Gone);
    }
}

/// So many connections are opened at once: a Unix socket refuses what exceeds the server's backlog.
const CONNECTS_AT_ONCE: usize = 16;

/// How long users think, in an open loop the requests that wait for them, and the priority with which the thread drives them.
/// One that does the server's own work never goes before the server's other threads.
fn paced<D: Driver>(model: &Model, place: Place, seed: u64, keeps_time: bool) -> (Think, Option<Queue>, Priority) {
    let priority = |is_due: bool| if is_due && !D::WORKS_HERE { take_precedence() } else { Priority::Normal };
    match model {
        // People who think come when they have thought, however busy the server is.
        Model::Closed(think) => (*think, None, priority(keeps_time)),
        // A closed loop competes with the server as its clients would; a schedule must be kept whatever the server does.
        Model::Open(open) => (Think::default(), Some(Queue::new(open, place, seed)), priority(true)),
    }
}

/// Connects, waits for the start, drives its users until the end, and reports all the while.
pub(crate) async fn run<D: Driver>(job: Job<D>, mut commands: mpsc::UnboundedReceiver<Command>, outbox: Outbox) {
    let users: Vec<u32> = (job.place.worker..job.place.n_users).step_by(job.place.n_workers as usize).collect();
    // Made before the clock starts: what a source works out beforehand is not the server's doing.
    let seed = job.plan.seed;
    let sources: Vec<_> = users.iter().map(|&user| job.sources.source(user, seed)).collect();
    let sessions = tokio::select! {
        result = connect_all(&job, &users) => match result {
            Ok(sessions) => sessions,
            Err(failure) => return outbox.send(Event::Connected(Err(NotReady::User(failure)))),
        },
        // No other command comes before all are connected.
        _ = commands.recv() => return,
    };
    outbox.send(Event::Connected(Ok(())));
    let Some(Command::Start(start)) = commands.recv().await else {
        return close_all(sessions).await;
    };
    let Job { driver, sources: all, labels, plan, place, reads_steal, timer } = job;
    let (think, queue, priority) = paced::<D>(&plan.model, place, seed, all.keeps_time());
    let extras = Extras { keeps_rows: plan.keeps_rows, reads_steal, works_here: D::WORKS_HERE, priority };
    let recorder = Recorder::new(&users, labels, extras);
    let Limits { duration, operation_timeout, connect_timeout, cancel_grace } = plan.limits;
    let times = Times { start, duration, operation_timeout, n_workers: place.n_workers };
    let room = Room::new(times, users.len(), recorder, queue, timer);
    let manners = Manners { think, connect_timeout, cancel_grace, max_tries: plan.max_tries };
    let attendant = attend(&driver, connect_timeout);
    let mut tasks = JoinSet::new();
    for (slot, (session, source)) in sessions.into_iter().zip(sources).enumerate() {
        let seat = Seat::new(Rc::clone(&room), slot);
        let random = Random::of_pauses(seed, users[slot]);
        tasks.spawn_local(User::new(driver.clone(), session, source, seat, manners, random).run());
    }
    let pacer = tokio::task::spawn_local({
        let room = Rc::clone(&room);
        async move { room.pace().await }
    });
    supervise(&mut tasks, &room, &mut commands, &outbox).await;
    pacer.abort();
    finish(&mut tasks, &room, &outbox).await;
    attendant.abort();
    let _ = timeout(CLOSE_TIMEOUT, driver.leave()).await;
}

/// Lets the driver open what it needs besides the sessions, while the users work.
fn attend<D: Driver>(driver: &D, limit: Duration) -> JoinHandle<()> {
    let driver = driver.clone();
    tokio::task::spawn_local(async move {
        let _ = timeout(limit, driver.attend()).await;
    })
}

/// The run's end: nothing is recorded after this moment, however long the cancelled operations take to come back.
async fn finish(users: &mut JoinSet<()>, room: &Room, outbox: &Outbox) {
    let now_ns = room.stop();
    outbox.send(Event::Second(Batch { now_ns, ..room.drain() }));
    while let Some(ended) = users.join_next().await {
        resume_panic(ended);
    }
}

/// Sends news every second and answers commands, until the run is over.
async fn supervise(
    users: &mut JoinSet<()>,
    room: &Room,
    commands: &mut mpsc::UnboundedReceiver<Command>,
    outbox: &Outbox,
) {
    loop {
        tokio::select! {
            command = commands.recv() => match command {
                Some(Command::Flush) => outbox.send(Event::Flushed(room.drain())),
                Some(Command::Start(_)) => {}
                Some(Command::Stop) | None => return,
            },
            ended = users.join_next() => match ended {
                Some(ended) => resume_panic(ended),
                None => return,
            },
            bell = room.bell() => match bell {
                Bell::Second => outbox.send(Event::Second(room.drain())),
                Bell::End => return,
            },
        }
    }
}

fn resume_panic(ended: Result<(), tokio::task::JoinError>) {
    if let Err(error) = ended
        && error.is_panic()
    {
        std::panic::resume_unwind(error.into_panic());
    }
}

async fn connect_all<D: Driver>(job: &Job<D>, users: &[u32]) -> Result<Vec<D::Session>, ConnectFailure> {
    let (limit, comes_late) = (job.plan.limits.connect_timeout, job.sources.connects_late());
    let connect = async |&user: &u32| {
        // The first one shows whether the server can be reached.
        let late = if comes_late && Some(&user) != users.first() { job.driver.late() } else { None };
        match late {
            Some(session) => Ok(session),
            None => connect(&job.driver, limit).await.map_err(|failure| ConnectFailure { user, failure }),
        }
    };
    futures_util::stream::iter(users).map(connect).buffered(CONNECTS_AT_ONCE).try_collect().await
}

async fn close_all<S: Session>(sessions: Vec<S>) {
    for session in sessions {
        let _ = timeout(CLOSE_TIMEOUT, session.close()).await;
    }
}

#[cfg(test)]
mod tests;
