//! One worker: its connections, its streams, its recorder, and the loop that watches over them.
//!
//! Everything here runs on one thread inside a `LocalSet`; the engine speaks to it through channels only.

use std::cell::RefCell;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::Duration;

use futures_util::{StreamExt, TryStreamExt};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until, timeout};

use crate::cpu::thread_cpu_s;
use crate::driver::{Canceller, Driver, ErrorClass, Failure, Session};
use crate::recorder::{Batch, Ending, Recorder};
use crate::schedule::{Backoff, Cursor, Operation};

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
    /// All its streams are connected, or why one is not.
    Connected(Result<(), ConnectFailure>),
    /// One second's news.
    Second(Batch),
    /// The answer to [`Command::Flush`].
    Flushed(Batch),
    /// Its thread is ending, in whatever way.
    Gone,
}

/// A stream that could not connect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConnectFailure {
    /// The stream's number.
    pub stream: u32,
    /// Why.
    pub failure: Failure,
}

/// How long things may take.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// The run ends by itself after this time.
    pub duration: Duration,
    /// An operation is cut off after this time.
    pub operation_timeout: Duration,
    /// One attempt to connect.
    pub connect_timeout: Duration,
    /// How long a cancelled operation may take to come back before its connection is given up.
    pub cancel_grace: Duration,
}

/// One stream as a worker gets it.
pub(crate) struct Assignment<R> {
    pub(crate) stream: u32,
    pub(crate) cursor: Cursor<R>,
}

/// The worker's way to the engine.
pub(crate) struct Outbox {
    pub(crate) worker: usize,
    pub(crate) events: Sender<(usize, Event)>,
}

impl Outbox {
    fn send(&self, event: Event) {
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

/// A cancel request that came between two statements is lost, so it is repeated.
const CANCEL_AGAIN: Duration = Duration::from_millis(50);

/// How long a polite goodbye may take.
const CLOSE_TIMEOUT: Duration = Duration::from_millis(100);

/// Connects, waits for the start, drives its streams until the end, and reports all the while.
pub(crate) async fn run<D: Driver>(
    driver: D,
    assignments: Vec<Assignment<D::Request>>,
    labels: Arc<[String]>,
    limits: Limits,
    mut commands: mpsc::UnboundedReceiver<Command>,
    outbox: Outbox,
) {
    let connecting = connect_all(&driver, &assignments, limits.connect_timeout);
    let sessions = tokio::select! {
        result = connecting => match result {
            Ok(sessions) => sessions,
            Err(failure) => return outbox.send(Event::Connected(Err(failure))),
        },
        // No other command comes before all are connected.
        _ = commands.recv() => return,
    };
    outbox.send(Event::Connected(Ok(())));
    let Some(Command::Start(start)) = commands.recv().await else {
        return close_all(sessions).await;
    };
    let streams: Vec<u32> = assignments.iter().map(|assignment| assignment.stream).collect();
    let book = Book::new(Recorder::new(&streams, labels), start);
    let (stop, stopped) = watch::channel(false);
    let stopped = StopSignal(stopped);
    let mut clients = JoinSet::new();
    for (slot, (assignment, session)) in assignments.into_iter().zip(sessions).enumerate() {
        let client = Client {
            driver: driver.clone(),
            cursor: assignment.cursor,
            session: Some(session),
            slot,
            book: book.clone(),
            limits,
            stopped: stopped.clone(),
            backoff: Backoff::new(),
        };
        clients.spawn_local(client.run());
    }
    supervise(&mut clients, &book, limits.duration, &mut commands, &outbox).await;
    finish(&mut clients, &book, &stop, &outbox).await;
}

/// The run's end: nothing is recorded after this moment, however long the cancelled operations take to come back.
async fn finish(clients: &mut JoinSet<()>, book: &Book, stop: &watch::Sender<bool>, outbox: &Outbox) {
    let end_s = book.now_s();
    book.recorder.borrow_mut().close(end_s);
    outbox.send(Event::Second(book.drain()));
    let _ = stop.send(true);
    while let Some(ended) = clients.join_next().await {
        resume_panic(ended);
    }
    outbox.send(Event::Second(Batch { now_s: end_s, ..book.drain() }));
}

/// Sends news every second and answers commands, until the run is over.
async fn supervise(
    clients: &mut JoinSet<()>,
    book: &Book,
    duration: Duration,
    commands: &mut mpsc::UnboundedReceiver<Command>,
    outbox: &Outbox,
) {
    let deadline = book.start + duration;
    loop {
        let edge = book.start + Duration::from_secs_f64(book.recorder.borrow().edge_s());
        tokio::select! {
            command = commands.recv() => match command {
                Some(Command::Flush) => {
                    book.recorder.borrow_mut().roll(book.now_s());
                    outbox.send(Event::Flushed(book.drain()));
                }
                Some(Command::Start(_)) => {}
                Some(Command::Stop) | None => return,
            },
            ended = clients.join_next() => match ended {
                Some(ended) => resume_panic(ended),
                None => return,
            },
            () = sleep_until(deadline) => return,
            () = sleep_until(edge) => {
                book.recorder.borrow_mut().roll(book.now_s());
                outbox.send(Event::Second(book.drain()));
            }
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

async fn connect_all<D: Driver>(
    driver: &D,
    assignments: &[Assignment<D::Request>],
    limit: Duration,
) -> Result<Vec<D::Session>, ConnectFailure> {
    let connect = async |assignment: &Assignment<D::Request>| {
        let stream = assignment.stream;
        connect_one(driver, limit).await.map_err(|failure| ConnectFailure { stream, failure })
    };
    futures_util::stream::iter(assignments).map(connect).buffered(CONNECTS_AT_ONCE).try_collect().await
}

async fn connect_one<D: Driver>(driver: &D, limit: Duration) -> Result<D::Session, Failure> {
    let too_late =
        |_| Err(Failure::without_code(ErrorClass::Connect, format!("no connection within {} s", limit.as_secs_f64())));
    timeout(limit, driver.connect()).await.unwrap_or_else(too_late)
}

async fn close_all<S: Session>(sessions: Vec<S>) {
    for session in sessions {
        let _ = timeout(CLOSE_TIMEOUT, session.close()).await;
    }
}

/// The recorder together with the run's clock.
#[derive(Clone)]
struct Book {
    recorder: Rc<RefCell<Recorder>>,
    start: Instant,
    cpu_before_s: f64,
}

impl Book {
    fn new(recorder: Recorder, start: Instant) -> Self {
        Self { recorder: Rc::new(RefCell::new(recorder)), start, cpu_before_s: thread_cpu_s() }
    }

    fn now_s(&self) -> f64 {
        self.start.elapsed().as_secs_f64()
    }

    fn drain(&self) -> Batch {
        Batch { now_s: self.now_s(), cpu_s: thread_cpu_s() - self.cpu_before_s, ..self.recorder.borrow_mut().drain() }
    }
}

/// Tells the clients that the run is over.
#[derive(Clone)]
struct StopSignal(watch::Receiver<bool>);

impl StopSignal {
    fn is_set(&self) -> bool {
        *self.0.borrow()
    }

    async fn wait(&mut self) {
        // A sender that is gone can only mean that the run is over too.
        let _ = self.0.wait_for(|&is_stopped| is_stopped).await;
    }
}

/// What a step of a client leads to.
enum Step {
    /// The operation is over, well or badly.
    Next,
    /// It could not be sent: there is no connection.
    Again,
    /// The run is over.
    Stop,
}

/// One stream at work.
struct Client<D: Driver> {
    driver: D,
    cursor: Cursor<D::Request>,
    session: Option<D::Session>,
    slot: usize,
    book: Book,
    limits: Limits,
    stopped: StopSignal,
    backoff: Backoff,
}

impl<D: Driver> Client<D> {
    async fn run(mut self) {
        let mut due_s = 0.0;
        while let Some((label, operation)) = self.cursor.current() {
            if !self.wait_until(due_s).await {
                break;
            }
            let step = match self.session.take().filter(|session| !session.is_lost()) {
                Some(session) => self.operate(session, label, &operation).await,
                None => self.reconnect(label).await,
            };
            match step {
                Step::Next => {
                    self.cursor.advance();
                    due_s = self.cursor.due_s(self.book.now_s());
                }
                Step::Again => {}
                Step::Stop => break,
            }
        }
        if let Some(session) = self.session.take() {
            let _ = timeout(CLOSE_TIMEOUT, session.close()).await;
        }
    }

    /// Runs one operation to its end, its time-out, or the stop; keeps the session if it can be used again.
    async fn operate(&mut self, mut session: D::Session, label: u32, operation: &Operation<D::Request>) -> Step {
        let canceller = session.canceller();
        self.book.recorder.borrow_mut().begin(self.slot, label, self.book.now_s());
        let cut_off = Instant::now() + self.limits.operation_timeout;
        let (step, is_settled) = {
            let mut running = pin!(session.run(&operation.request));
            tokio::select! {
                biased;
                result = &mut running => {
                    self.finish(result.map(|answer| answer.rows).map_err(|failure| Ending::Failed(failure.to_string())));
                    (Step::Next, true)
                }
                () = self.stopped.wait() => {
                    (Step::Stop, settle(running, &canceller, self.limits.cancel_grace).await)
                }
                () = sleep_until(cut_off) => {
                    self.finish(Err(Ending::TimedOut));
                    (Step::Next, settle(running, &canceller, self.limits.cancel_grace).await)
                }
            }
        };
        if is_settled {
            self.session = Some(session);
        }
        step
    }

    fn finish(&mut self, result: Result<u64, Ending>) {
        if result.is_ok() {
            self.backoff.reset();
        }
        self.book.recorder.borrow_mut().finish(self.slot, self.book.now_s(), result);
    }

    /// One attempt after a pause; a failure counts as an error of the operation that waits for the connection.
    async fn reconnect(&mut self, label: u32) -> Step {
        let pause_s = self.backoff.wait_s();
        if !self.wait_until(self.book.now_s() + pause_s).await {
            return Step::Stop;
        }
        let start_s = self.book.now_s();
        let connecting = connect_one(&self.driver, self.limits.connect_timeout);
        let result = tokio::select! {
            result = connecting => result,
            () = self.stopped.wait() => return Step::Stop,
        };
        match result {
            Ok(session) => self.session = Some(session),
            Err(failure) => {
                let now_s = self.book.now_s();
                self.book.recorder.borrow_mut().fail(self.slot, label, start_s, now_s, &failure.to_string());
            }
        }
        Step::Again
    }

    /// Whether the run still goes on at `due_s`.
    async fn wait_until(&mut self, due_s: f64) -> bool {
        if self.stopped.is_set() {
            return false;
        }
        if due_s <= self.book.now_s() {
            return true;
        }
        tokio::select! {
            () = self.stopped.wait() => false,
            () = sleep_until(self.book.start + Duration::from_secs_f64(due_s)) => true,
        }
    }
}

/// Cancels `running` and waits for its end; false when its connection cannot be trusted any more.
async fn settle<T, C: Canceller>(
    mut running: Pin<&mut impl Future<Output = T>>,
    canceller: &C,
    grace: Duration,
) -> bool {
    let cancelling = async {
        loop {
            let is_confirmed = canceller.cancel().await.is_ok();
            if timeout(CANCEL_AGAIN, running.as_mut()).await.is_ok() {
                return is_confirmed;
            }
        }
    };
    timeout(grace, cancelling).await.unwrap_or(false)
}

#[cfg(test)]
mod tests;
