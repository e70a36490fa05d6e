//! One user: a source of operations and a connection, one operation after the other.

use std::pin::{Pin, pin};
use std::time::Duration;

use tokio::task::coop;
use tokio::time::timeout;

use crate::driver::{Canceller, Driver, ErrorClass, Failure, Session};
use crate::model::Think;
use crate::protocol::Protocol;
use crate::random::Random;
use crate::recorder::{Ending, Success};
use crate::room::{Interruption, Seat};
use crate::schedule::{Backoff, nanoseconds, retry_wait_ns};
use crate::source::{Source, Step};

/// A cancel request that came between two statements is lost, so it is repeated.
const CANCEL_AGAIN: Duration = Duration::from_millis(50);

/// At the run's end operations may end by themselves for so long before they are cancelled: most are short, and a
/// cancel request costs the server a connection.
const DRAIN: Duration = Duration::from_millis(30);

/// How long a polite goodbye may take.
pub(crate) const CLOSE_TIMEOUT: Duration = Duration::from_millis(100);

/// How a user behaves.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Manners {
    pub(crate) think: Think,
    pub(crate) connect_timeout: Duration,
    /// How long a cancelled operation may take to come back before its connection is given up.
    pub(crate) cancel_grace: Duration,
    /// How often an operation is tried at most.
    pub(crate) max_tries: u32,
}

/// One user at work.
pub(crate) struct User<D: Driver> {
    driver: D,
    manners: Manners,
    seat: Seat,
    source: Box<dyn Source<D::Protocol>>,
    request: <D::Protocol as Protocol>::Request,
    answer: <D::Protocol as Protocol>::Answer,
    link: Option<Link<D::Session>>,
    backoff: Backoff,
    random: Random,
}

struct Link<S: Session> {
    session: S,
    canceller: Option<S::Canceller>,
}

/// How an attempt at an operation ended.
enum Attempt {
    Done {
        rows: u64,
    },
    Failed(Failure),
    /// It is recorded already.
    TimedOut,
    Stopped,
}

/// The run is over.
struct Stopped;

impl<D: Driver> User<D> {
    pub(crate) fn new(
        driver: D,
        session: D::Session,
        source: Box<dyn Source<D::Protocol>>,
        seat: Seat,
        manners: Manners,
        random: Random,
    ) -> Self {
        let mut user = Self {
            driver,
            manners,
            seat,
            source,
            request: Default::default(),
            answer: Default::default(),
            link: None,
            backoff: Backoff::new(),
            random,
        };
        user.take(session);
        user
    }

    /// Works until the run is over or there is nothing more to do.
    pub(crate) async fn run(mut self) {
        // The error says no more than that the run is over.
        let _ = self.work().await;
        if let Some(link) = self.link.take() {
            let _ = timeout(CLOSE_TIMEOUT, link.session.close()).await;
        }
    }

    async fn work(&mut self) -> Result<(), Stopped> {
        let mut free_ns = self.seat.now_ns();
        let mut pause_ns = self.delay_ns();
        loop {
            let is_scheduled = self.waits_for_schedule();
            let due_ns = self.next_turn(free_ns, pause_ns).await?;
            // A user that never has to wait must let others run.
            coop::consume_budget().await;
            let Some(label) = self.source.begin() else {
                self.seat.give_back(due_ns);
                return Ok(());
            };
            while !self.is_connected() {
                self.reconnect(label).await?;
            }
            free_ns = self.operate(label, due_ns, is_scheduled).await?;
            pause_ns = self.pause_ns();
        }
    }

    /// Waits for the user's next turn and gives the moment since when its operation is due.
    async fn next_turn(&mut self, free_ns: u64, pause_ns: u64) -> Result<u64, Stopped> {
        if self.waits_for_schedule() {
            return self.seat.job().await.ok_or(Stopped);
        }
        if self.seat.is_stopped() {
            return Err(Stopped);
        }
        if pause_ns == 0 {
            return Ok(free_ns);
        }
        let due_ns = free_ns.saturating_add(pause_ns);
        self.seat.until(due_ns).await.map_err(|_| Stopped)?;
        let now_ns = self.seat.now_ns();
        self.seat.late(now_ns.saturating_sub(due_ns));
        Ok(now_ns)
    }

    fn waits_for_schedule(&self) -> bool {
        self.seat.is_open_loop() && !self.source.is_engaged()
    }

    /// How long after the start it comes.
    fn delay_ns(&mut self) -> u64 {
        let own_ns = nanoseconds(self.source.delay());
        let start_s = self.manners.think.start_s;
        // No number is drawn for nothing: the pauses of a run without it stay what they are.
        if start_s == 0.0 { own_ns } else { own_ns.saturating_add((start_s * self.random.unit() * 1e9) as u64) }
    }

    fn pause_ns(&mut self) -> u64 {
        let own_ns = nanoseconds(self.source.think());
        let Think { mean_s, is_exponential, .. } = self.manners.think;
        if mean_s == 0.0 {
            return own_ns;
        }
        let factor = if is_exponential { self.random.exponential() } else { 1.0 };
        own_ns.saturating_add((mean_s * factor * 1e9) as u64)
    }

    fn is_connected(&self) -> bool {
        self.link.as_ref().is_some_and(|link| !link.session.is_lost())
    }

    fn take(&mut self, session: D::Session) {
        let canceller = session.canceller();
        self.link = Some(Link { session, canceller });
    }

    /// Runs one operation to its end, with all its tries, and gives the moment of its end.
    async fn operate(&mut self, label: u32, due_ns: u64, is_scheduled: bool) -> Result<u64, Stopped> {
        self.seat.begin(label, is_scheduled);
        let mut tries = 1;
        loop {
            let failure = match self.attempt(due_ns).await {
                Attempt::Done { rows } => {
                    let end_ns = self.seat.finish(due_ns, Ok(Success { rows, tries }));
                    self.backoff.reset();
                    self.source.end(true);
                    return Ok(end_ns);
                }
                Attempt::Failed(failure) => failure,
                Attempt::TimedOut => break,
                Attempt::Stopped => return Err(Stopped),
            };
            if failure.class.is_retryable() && tries < self.manners.max_tries {
                match self.await_retry(due_ns, tries).await {
                    Ok(true) => {
                        tries += 1;
                        self.source.rewind();
                        continue;
                    }
                    Ok(false) => {}
                    Err(Interruption::TimedOut) => {
                        self.source.end(false);
                        return Ok(self.seat.now_ns());
                    }
                    Err(Interruption::Stopped) => return Err(Stopped),
                }
            }
            self.seat.finish(due_ns, Err(Ending::Failed(&failure)));
            break;
        }
        self.source.end(false);
        self.recover().await;
        Ok(self.seat.now_ns())
    }

    /// Makes the connection fit for another try and waits until that is due; false when the connection is gone. An operation
    /// that is cut off meanwhile is recorded at that moment; the connection is made fit all the same.
    async fn await_retry(&mut self, due_ns: u64, tries: u32) -> Result<bool, Interruption> {
        let Self { link, seat, manners, random, .. } = self;
        {
            let mut recovering = pin!(recover(link, manners.cancel_grace));
            match seat.guard(recovering.as_mut()).await {
                Ok(true) => {}
                Ok(false) => return Ok(false),
                Err(interruption) => {
                    cut_off(seat, due_ns, interruption);
                    recovering.await;
                    return Err(interruption);
                }
            }
        }
        let waited = seat.until(seat.now_ns() + retry_wait_ns(tries, random)).await;
        if let Err(interruption) = waited {
            cut_off(seat, due_ns, interruption);
        }
        waited.map(|()| true)
    }

    /// Takes the operation's steps once.
    async fn attempt(&mut self, due_ns: u64) -> Attempt {
        let mut rows = 0;
        loop {
            match self.source.step(&mut self.request) {
                Step::End => return Attempt::Done { rows },
                Step::Fail => return Attempt::Failed(self.source.failure()),
                Step::Sleep(pause) => {
                    let until_ns = self.seat.now_ns().saturating_add(nanoseconds(pause));
                    if let Err(interruption) = self.seat.until(until_ns).await {
                        return cut_off(&self.seat, due_ns, interruption);
                    }
                }
                Step::Request => match self.ask(due_ns).await {
                    Ok(n_rows) => {
                        rows += n_rows;
                        self.source.answer(&self.answer);
                    }
                    Err(attempt) => return attempt,
                },
            }
        }
    }

    /// Sends the step's request and waits for its answer: the rows of it, or how the attempt has ended.
    async fn ask(&mut self, due_ns: u64) -> Result<u64, Attempt> {
        let Self { request, answer, link, seat, manners, .. } = self;
        let Some(Link { session, canceller }) = link else {
            return Err(Attempt::Failed(Failure::without_code(ErrorClass::Connect, "no connection")));
        };
        let (attempt, is_settled) = {
            let mut running = pin!(session.run(request, answer));
            match seat.guard(running.as_mut()).await {
                Ok(ended) => return ended.map_err(Attempt::Failed),
                Err(interruption) => {
                    let attempt = cut_off(seat, due_ns, interruption);
                    let grace = manners.cancel_grace;
                    (attempt, settle(running, canceller.as_ref(), interruption, grace).await)
                }
            }
        };
        if !is_settled {
            *link = None;
        }
        Err(attempt)
    }

    async fn recover(&mut self) -> bool {
        recover(&mut self.link, self.manners.cancel_grace).await
    }

    /// One attempt after a pause; a failure counts as an error of the operation that waits for the connection.
    async fn reconnect(&mut self, label: u32) -> Result<(), Stopped> {
        self.link = None;
        let pause_ns = self.backoff.wait_ns();
        self.seat.until(self.seat.now_ns() + pause_ns).await.map_err(|_| Stopped)?;
        let start_ns = self.seat.now_ns();
        let result = {
            let connecting = pin!(connect(&self.driver, self.manners.connect_timeout));
            self.seat.guard(connecting).await.map_err(|_| Stopped)?
        };
        match result {
            Ok(session) => self.take(session),
            Err(failure) => self.seat.fail(label, start_ns, &failure),
        }
        Ok(())
    }
}

/// Makes a connection fit for the next attempt; false when it is gone.
async fn recover<S: Session>(connection: &mut Option<Link<S>>, grace: Duration) -> bool {
    let Some(mut link) = connection.take() else { return false };
    let is_fit = !link.session.is_lost()
        && matches!(timeout(grace, link.session.reset()).await, Ok(Ok(())))
        && !link.session.is_lost();
    if is_fit {
        *connection = Some(link);
    }
    is_fit
}

/// The operation ends here for the record, whatever becomes of what the server does.
fn cut_off(seat: &Seat, due_ns: u64, interruption: Interruption) -> Attempt {
    match interruption {
        Interruption::TimedOut => {
            seat.finish(due_ns, Err(Ending::TimedOut));
            Attempt::TimedOut
        }
        Interruption::Stopped => Attempt::Stopped,
    }
}

/// One attempt to connect.
pub(crate) async fn connect<D: Driver>(driver: &D, limit: Duration) -> Result<D::Session, Failure> {
    let too_late =
        |_| Err(Failure::without_code(ErrorClass::Connect, format!("no connection within {} s", limit.as_secs_f64())));
    timeout(limit, driver.connect()).await.unwrap_or_else(too_late)
}

/// Cancels `running` and waits for its end; false when its connection cannot be trusted any more.
async fn settle<T, C: Canceller>(
    mut running: Pin<&mut impl Future<Output = T>>,
    canceller: Option<&C>,
    interruption: Interruption,
    grace: Duration,
) -> bool {
    if interruption == Interruption::Stopped && timeout(DRAIN, running.as_mut()).await.is_ok() {
        return true;
    }
    // Its session knows what it was at when `running` is dropped.
    let Some(canceller) = canceller else { return true };
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
