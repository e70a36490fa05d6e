//! The engine: starts workers, lets them connect, starts the clock, and gathers what they record.

use std::fmt;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::LocalSet;

use crate::driver::Driver;
use crate::log::{Frame, Log};
use crate::merge::Merge;
use crate::schedule::{Cursor, Stream, index_labels};
use crate::worker::{self, Assignment, Command, Event, Outbox};

pub use crate::worker::{ConnectFailure, Limits};

/// Why a load cannot run or has not run to its end.
#[derive(Debug)]
pub enum LoadError {
    /// What was asked for makes no sense.
    Invalid(String),
    /// A stream could not connect.
    Connect(ConnectFailure),
    /// The system gave no thread.
    System(std::io::Error),
    /// A worker thread panicked: a bug.
    Worker,
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Invalid(text) => f.write_str(text),
            Self::Connect(ConnectFailure { stream, failure }) => {
                write!(f, "stream {stream} could not connect: {failure}")
            }
            Self::System(error) => write!(f, "no worker thread: {error}"),
            Self::Worker => f.write_str("a worker thread of the load engine panicked"),
        }
    }
}

impl std::error::Error for LoadError {}

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
    failure: Option<ConnectFailure>,
    has_panicked: bool,
}

impl Load {
    /// Starts the workers, which connect all streams; the run itself starts in [`Load::wait_connected`].
    ///
    /// # Errors
    /// `Invalid` for a load without operations or a limit of zero, `System` when a thread cannot be had.
    pub fn launch<D: Driver>(
        driver: &D,
        streams: Vec<Stream<D::Request>>,
        limits: Limits,
        n_threads: usize,
    ) -> Result<Self, LoadError> {
        check(&streams, limits, n_threads)?;
        let (labels, mut label_indexes) = index_labels(&streams);
        let labels: Arc<[String]> = labels.into();
        let n_workers = n_threads.min(streams.len());
        let mut shares: Vec<Vec<Assignment<D::Request>>> = (0..n_workers).map(|_| Vec::new()).collect();
        for (i, (stream, indexes)) in streams.into_iter().zip(label_indexes.drain(..)).enumerate() {
            shares[i % n_workers].push(Assignment { stream: i as u32, cursor: Cursor::new(stream, indexes) });
        }
        let (sender, events) = channel();
        let desk = Desk::new(events, n_workers, Arc::clone(&labels));
        let mut load = Self { commands: Vec::new(), desk: Mutex::new(desk) };
        for (worker, share) in shares.into_iter().enumerate() {
            let (command, commands) = unbounded_channel();
            let outbox = Outbox { worker, events: sender.clone() };
            let job = Job { driver: driver.clone(), share, labels: Arc::clone(&labels), limits, commands, outbox };
            let thread = std::thread::Builder::new().name(format!("trimtab-load-{worker}")).spawn(|| job.run());
            load.commands.push(command);
            load.desk().threads.push(thread.map_err(LoadError::System)?);
        }
        Ok(load)
    }

    /// Waits until all streams are connected and starts the clock; false when that takes longer than `limit`.
    ///
    /// # Errors
    /// `Connect` for the first stream that could not connect; the load is over then.
    pub fn wait_connected(&self, limit: Duration) -> Result<bool, LoadError> {
        let deadline = Instant::now() + limit;
        let mut desk = self.desk();
        while !desk.is_started {
            if let Some(failure) = desk.failure.clone() {
                return Err(LoadError::Connect(failure));
            }
            if desk.merge.is_done() {
                return Err(LoadError::Worker);
            }
            if desk.n_connected == self.commands.len() {
                self.tell_all(Command::Start(tokio::time::Instant::now()));
                desk.is_started = true;
            } else if !desk.read_one(deadline) {
                return Ok(false);
            }
        }
        Ok(true)
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

/// What a worker thread takes with it.
struct Job<D: Driver> {
    driver: D,
    share: Vec<Assignment<D::Request>>,
    labels: Arc<[String]>,
    limits: Limits,
    commands: UnboundedReceiver<Command>,
    outbox: Outbox,
}

impl<D: Driver> Job<D> {
    fn run(self) {
        let Self { driver, share, labels, limits, commands, outbox } = self;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("a runtime needs two file descriptors");
        LocalSet::new().block_on(&runtime, worker::run(driver, share, labels, limits, commands, outbox));
    }
}

fn check<R>(streams: &[Stream<R>], limits: Limits, n_threads: usize) -> Result<(), LoadError> {
    let invalid = |text: String| Err(LoadError::Invalid(text));
    if streams.is_empty() {
        return invalid("streams: a load needs at least one".to_owned());
    }
    if let Some(i) = streams.iter().position(|stream| stream.operations.is_empty()) {
        return invalid(format!("streams: stream {i} has no operations"));
    }
    if limits.duration.is_zero() || limits.operation_timeout.is_zero() || limits.connect_timeout.is_zero() {
        return invalid("the duration and the time-outs must be longer than 0 s".to_owned());
    }
    if n_threads == 0 {
        return invalid("threads=0: a load needs at least one".to_owned());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use super::*;
    use crate::driver::fake::{DEAF, Fake, FakeRequest};
    use crate::log::Outcome;
    use crate::schedule::Operation;

    const LONG: Duration = Duration::from_secs(60);
    const LIMITS: Limits = Limits {
        duration: LONG,
        operation_timeout: LONG,
        connect_timeout: LONG,
        cancel_grace: Duration::from_millis(100),
    };

    fn stream(request: FakeRequest, repeat: bool) -> Stream<FakeRequest> {
        let operation = Arc::new(Operation { label: "q".to_owned(), request });
        Stream { operations: vec![operation], repeat, think_s: 0.0 }
    }

    /// A load all of whose streams have sent a request.
    fn running(streams: Vec<Stream<FakeRequest>>, n_threads: usize) -> Load {
        let (fake, n_streams) = (Fake::default(), streams.len() as u32);
        let load = Load::launch(&fake, streams, LIMITS, n_threads).expect("a legal load");
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
        let load = Load::launch(&fake, vec![stream(FakeRequest::Hang(1), true)], LIMITS, 1).expect("a legal load");
        assert!(load.wait_connected(LONG).expect("the fake accepts"));
        drop(load);
        assert_eq!(Arc::strong_count(&fake.n_connects), 1, "a worker still holds its copy of the driver");
    }

    #[test]
    fn dropping_while_connecting_stops() {
        let fake = Fake { is_silent: true, ..Fake::default() };
        let load = Load::launch(&fake, vec![stream(FakeRequest::Answer(1), true)], LIMITS, 1).expect("a legal load");
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
        let load = running(vec![stream(FakeRequest::Panic, true), stream(FakeRequest::Answer(1), true)], 2);
        assert!(matches!(load.stop(), Err(LoadError::Worker)));
    }

    #[test]
    fn a_refused_stream_is_told() {
        let fake = Fake { refused: (0, 9), ..Fake::default() };
        let load = Load::launch(&fake, vec![stream(FakeRequest::Answer(1), true)], LIMITS, 1).expect("a legal load");
        let error = load.wait_connected(LONG).expect_err("refused");
        assert_eq!(error.to_string(), "stream 0 could not connect: refused");
    }
}
