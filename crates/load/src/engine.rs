//! The engine: starts workers, lets them connect, starts the clock, and gathers what they record.

use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use std::{fmt, io};

use tokio::runtime::LocalOptions;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::cpu::refuse_timer_slack;
use crate::driver::{Driver, ErrorClass};
use crate::log::{Frame, Log};
use crate::merge::Merge;
use crate::schedule::Place;
use crate::source::Sources;
use crate::timer::Timer;
use crate::worker::{self, Command, Event, Job, NotReady, Outbox};

pub use crate::worker::{ConnectFailure, Limits, Plan};

/// Why a load cannot run or has not run to its end.
#[derive(Debug)]
pub enum LoadError {
    /// What was asked for makes no sense.
    Invalid(String),
    /// A user could not connect.
    Connect(ConnectFailure),
    /// The server cannot prepare a statement.
    Prepare(ConnectFailure),
    /// The system gave no thread, or not the file descriptors that each needs.
    System(Arc<io::Error>),
    /// A worker thread panicked: a bug.
    Worker,
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Invalid(text) => f.write_str(text),
            Self::Connect(ConnectFailure { user, failure }) => write!(f, "user {user} could not connect: {failure}"),
            Self::Prepare(ConnectFailure { failure, .. }) => write!(f, "{failure}"),
            Self::System(error) => write!(f, "no worker thread: {error}"),
            Self::Worker => f.write_str("a worker thread of the load engine panicked"),
        }
    }
}

impl std::error::Error for LoadError {}

impl From<ConnectFailure> for LoadError {
    /// A connection that fails for a wrong request can only have failed in preparing the statements.
    fn from(failure: ConnectFailure) -> Self {
        if failure.failure.class == ErrorClass::Statement { Self::Prepare(failure) } else { Self::Connect(failure) }
    }
}

impl From<NotReady> for LoadError {
    fn from(reason: NotReady) -> Self {
        match reason {
            NotReady::User(failure) => failure.into(),
            NotReady::System(error) => Self::System(error),
        }
    }
}

/// Which of a run's worker threads are in this process; those in others drive the other users, and together they are the same
/// load as that of one process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// Threads here.
    pub n_threads: usize,
    /// The number of the first of them among all.
    pub first: usize,
    /// All threads of the run.
    pub n_all: usize,
}

impl Share {
    /// The whole run, on so many threads; a thread without a user makes no sense.
    #[must_use]
    pub fn whole(n_threads: usize, n_users: u32) -> Self {
        let n_threads = n_threads.min(n_users as usize);
        Self { n_threads, first: 0, n_all: n_threads }
    }

    /// How many of the run's users are driven here.
    #[must_use]
    pub fn n_users(self, n_users: u32) -> u32 {
        self.places(n_users).map(Place::n_own).sum()
    }

    fn places(self, n_users: u32) -> impl Iterator<Item = Place> {
        let place = move |worker| Place { worker: worker as u32, n_workers: self.n_all as u32, n_users };
        (self.first..self.first + self.n_threads).map(place)
    }
}

/// A load on threads of its own.
///
/// The methods may be called from several threads. Dropping it stops it.
pub struct Load {
    commands: Vec<UnboundedSender<Command>>,
    desk: Mutex<Desk>,
}

/// The controlling side's book; whoever holds its lock reads the workers' news.
struct Desk {
    events: Receiver<(usize, Event)>,
    threads: Vec<JoinHandle<()>>,
    merge: Merge,
    n_connected: usize,
    has_flushed: Vec<bool>,
    is_started: bool,
    failure: Option<NotReady>,
    has_panicked: bool,
}

impl Load {
    /// Starts the workers, which connect all users; the run itself starts in [`Load::wait_connected`] or [`Load::start`].
    ///
    /// # Errors
    /// `Invalid` for a plan that makes no sense, `System` when a thread cannot be had.
    pub fn launch<D: Driver>(
        driver: &D,
        sources: Arc<dyn Sources<D::Protocol>>,
        plan: &Plan,
        share: Share,
    ) -> Result<Self, LoadError> {
        check(plan, sources.n_users(), share).map_err(LoadError::Invalid)?;
        let labels: Arc<[String]> = sources.labels().into();
        let (sender, events) = channel();
        let desk = Desk::new(events, share.n_threads, Arc::clone(&labels));
        let mut load = Self { commands: Vec::new(), desk: Mutex::new(desk) };
        for (worker, place) in share.places(plan.n_users).enumerate() {
            let (command, commands) = unbounded_channel();
            let outbox = Outbox { worker, events: sender.clone() };
            let (driver, sources, labels) = (driver.for_worker(), Arc::clone(&sources), Arc::clone(&labels));
            let plan = plan.clone();
            let reads_steal = worker == 0;
            let job = move |timer| Job { driver, sources, labels, plan, place, reads_steal, timer };
            let thread = std::thread::Builder::new()
                .name(format!("trimtab-load-{worker}"))
                .spawn(move || work(job, commands, outbox));
            load.commands.push(command);
            load.desk().threads.push(thread.map_err(|error| LoadError::System(Arc::new(error)))?);
        }
        Ok(load)
    }

    /// Waits until all users are connected and starts the clock; false when that takes longer than `limit`.
    ///
    /// # Errors
    /// `Connect` or `Prepare` for the first user that could not connect, `System` for a worker that the system gives too little;
    /// the load is over then.
    pub fn wait_connected(&self, limit: Duration) -> Result<bool, LoadError> {
        let is_ready = self.wait_ready(limit)?;
        if is_ready {
            self.start();
        }
        Ok(is_ready)
    }

    /// Starts the clock of a load whose users are all connected; once.
    pub fn start(&self) {
        let mut desk = self.desk();
        if !std::mem::replace(&mut desk.is_started, true) {
            self.tell_all(Command::Start(tokio::time::Instant::now()));
        }
    }

    /// Waits until all users are connected; false when that takes longer than `limit`.
    ///
    /// # Errors
    /// As [`Load::wait_connected`].
    pub fn wait_ready(&self, limit: Duration) -> Result<bool, LoadError> {
        let deadline = Instant::now() + limit;
        let mut desk = self.desk();
        loop {
            if let Some(failure) = desk.failure.clone() {
                return Err(failure.into());
            }
            if desk.merge.is_done() {
                return Err(LoadError::Worker);
            }
            if desk.n_connected == self.commands.len() {
                return Ok(true);
            }
            if !desk.read_one(deadline) {
                return Ok(false);
            }
        }
    }

    /// The next one-second frame; `None` when the run has ended or none came within `limit`.
    pub fn next_frame(&self, limit: Duration) -> Option<Frame> {
        let deadline = Instant::now() + limit;
        let mut desk = self.desk();
        loop {
            if let Some(frame) = desk.merge.next_frame() {
                return Some(frame);
            }
            if desk.merge.is_done() || !desk.read_one(deadline) {
                return None;
            }
        }
    }

    /// Whether nothing runs any more; frames may still wait to be read.
    pub fn is_done(&self) -> bool {
        let mut desk = self.desk();
        desk.read_all();
        desk.merge.is_done()
    }

    /// Everything that ended so far, without stopping.
    pub fn log(&self) -> Log {
        let mut desk = self.desk();
        if !desk.is_started {
            return desk.merge.log();
        }
        desk.has_flushed.fill(false);
        self.tell_all(Command::Flush);
        // A worker that ends instead of answering has sent everything too.
        while !desk.is_flushed() && desk.read_next() {}
        desk.merge.log()
    }

    /// Cancels what is in flight, waits for the workers' end, and returns everything. Idempotent.
    ///
    /// # Errors
    /// `Worker` when a thread has panicked.
    pub fn stop(&self) -> Result<Log, LoadError> {
        self.tell_all(Command::Stop);
        let mut desk = self.desk();
        while !desk.merge.is_done() && desk.read_next() {}
        desk.join();
        if desk.has_panicked { Err(LoadError::Worker) } else { Ok(desk.merge.log()) }
    }

    fn tell_all(&self, command: Command) {
        for worker in &self.commands {
            // A worker that is gone needs no commands.
            let _ = worker.send(command);
        }
    }

    fn desk(&self) -> MutexGuard<'_, Desk> {
        self.desk.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.tell_all(Command::Stop);
        self.desk().join();
    }
}

impl Desk {
    fn new(events: Receiver<(usize, Event)>, n_workers: usize, labels: Arc<[String]>) -> Self {
        Self {
            events,
            threads: Vec::new(),
            merge: Merge::new(n_workers, labels),
            n_connected: 0,
            has_flushed: vec![false; n_workers],
            is_started: false,
            failure: None,
            has_panicked: false,
        }
    }

    fn take(&mut self, worker: usize, event: Event) {
        match event {
            Event::Connected(Ok(())) => self.n_connected += 1,
            Event::Connected(Err(failure)) => self.failure = self.failure.take().or(Some(failure)),
            Event::Second(batch) => self.merge.absorb(worker, batch),
            Event::Flushed(batch) => {
                self.has_flushed[worker] = true;
                self.merge.absorb(worker, batch);
            }
            Event::Gone => self.merge.leave(worker),
        }
    }

    fn is_flushed(&self) -> bool {
        self.has_flushed.iter().enumerate().all(|(worker, &has_flushed)| has_flushed || self.merge.is_gone(worker))
    }

    /// Reads one event; false when none came before `deadline`.
    fn read_one(&mut self, deadline: Instant) -> bool {
        match self.events.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            Ok((worker, event)) => {
                self.take(worker, event);
                true
            }
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => false,
        }
    }

    /// Reads one event however long it takes; false when there can be none.
    fn read_next(&mut self) -> bool {
        let Ok((worker, event)) = self.events.recv() else { return false };
        self.take(worker, event);
        true
    }

    fn read_all(&mut self) {
        while let Ok((worker, event)) = self.events.try_recv() {
            self.take(worker, event);
        }
    }

    fn join(&mut self) {
        for thread in self.threads.drain(..) {
            self.has_panicked |= thread.join().is_err();
        }
    }
}

/// A worker thread from its first moment to its last.
fn work<D: Driver>(job: impl FnOnce(Timer) -> Job<D>, commands: UnboundedReceiver<Command>, outbox: Outbox) {
    refuse_timer_slack();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build_local(LocalOptions::default());
    match runtime {
        Ok(runtime) => runtime.block_on(async { worker::run(job(Timer::fine()), commands, outbox).await }),
        // It needs file descriptors.
        Err(error) => outbox.send(Event::Connected(Err(NotReady::System(Arc::new(error))))),
    }
}

fn check(plan: &Plan, n_fixed: Option<u32>, share: Share) -> Result<(), String> {
    plan.model.check()?;
    let Limits { duration, operation_timeout, connect_timeout, .. } = plan.limits;
    if plan.n_users == 0 {
        return Err("users=0: a load needs at least one".to_owned());
    }
    if let Some(n) = n_fixed
        && n != plan.n_users
    {
        return Err(format!("users={}: there are {n} streams, one for each user", plan.n_users));
    }
    if duration.is_zero() || operation_timeout.is_zero() || connect_timeout.is_zero() {
        return Err("the duration and the time-outs must be longer than 0 s".to_owned());
    }
    let Share { n_threads, first, n_all } = share;
    if n_threads == 0 {
        return Err("threads=0: a load needs at least one".to_owned());
    }
    if first + n_threads > n_all || n_all > plan.n_users as usize {
        let n_users = plan.n_users;
        return Err(format!("threads={first}..{}: users={n_users} have threads 0..{n_all}", first + n_threads));
    }
    if plan.max_tries == 0 {
        return Err("max_tries=0: an operation must be tried at least once".to_owned());
    }
    Ok(())
}

#[cfg(test)]
mod tests;
