//! A server that exists in memory only and does what a test asks of it: it stalls, fails, hangs and drops connections.

use std::future::pending;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, sleep, sleep_until};

use super::{Canceller, Driver, ErrorClass, Failure, Session};
use crate::fixed::Fill;
use crate::protocol::Protocol;

/// What a [`Fake`] speaks.
pub(crate) enum Faked {}

impl Protocol for Faked {
    type Request = FakeRequest;
    type Answer = ();
}

/// What one operation does.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) enum FakeRequest {
    /// Answers one row after so many milliseconds.
    Answer(u64),
    /// Answers an error after so many milliseconds.
    Fail(u64),
    /// Loses the connection after so many milliseconds.
    Lose(u64),
    /// Never ends by itself, and obeys only the n-th cancel request of its connection.
    Hang(u32),
    /// Clashes with others so many times, 10 ms each, and is then answered after 10 ms.
    Conflict(u32),
    /// A bug in the driver.
    #[default]
    Panic,
}

impl Fill<Self> for FakeRequest {
    fn fill(&self, request: &mut Self) {
        *request = *self;
    }
}

/// Obeys no cancel request at all.
pub(crate) const DEAF: u32 = u32::MAX;

/// The server; its copies are the same server.
#[derive(Clone, Default)]
pub(crate) struct Fake {
    pub(crate) n_connects: Arc<AtomicU32>,
    pub(crate) n_cancels: Arc<AtomicU32>,
    pub(crate) n_requests: Arc<AtomicU32>,
    /// Connections with numbers in this half-open range are refused.
    pub(crate) refused: (u32, u32),
    /// Whether connecting never ends.
    pub(crate) is_silent: bool,
    /// No answer leaves the server between these two moments.
    pub(crate) stall: Option<(Instant, Instant)>,
    pub(crate) n_resets: Arc<AtomicU32>,
    /// How long a reset takes.
    pub(crate) reset_ms: u64,
    /// Whether requests end with their futures only.
    pub(crate) is_uncancellable: bool,
}

impl Driver for Fake {
    type Protocol = Faked;
    type Session = FakeSession;

    async fn connect(&self) -> Result<FakeSession, Failure> {
        if self.is_silent {
            pending::<()>().await;
        }
        let number = self.n_connects.fetch_add(1, Ordering::SeqCst);
        if (self.refused.0..self.refused.1).contains(&number) {
            return Err(Failure::without_code(ErrorClass::Connect, "refused"));
        }
        let canceller = FakeCanceller { cancelled: Rc::default(), n_cancels: Arc::clone(&self.n_cancels) };
        Ok(FakeSession { canceller, server: self.clone(), n_conflicts: 0, is_lost: false })
    }
}

pub(crate) struct FakeSession {
    canceller: FakeCanceller,
    server: Fake,
    n_conflicts: u32,
    is_lost: bool,
}

impl Session for FakeSession {
    type Protocol = Faked;
    type Canceller = FakeCanceller;

    async fn run(&mut self, request: &FakeRequest, _answer: &mut ()) -> Result<u64, Failure> {
        self.server.n_requests.fetch_add(1, Ordering::SeqCst);
        match *request {
            FakeRequest::Answer(ms) => {
                sleep(Duration::from_millis(ms)).await;
                if let Some((from, until)) = self.server.stall
                    && (from..until).contains(&Instant::now())
                {
                    sleep_until(until).await;
                }
                Ok(1)
            }
            FakeRequest::Conflict(n) => {
                sleep(Duration::from_millis(10)).await;
                self.n_conflicts += 1;
                if self.n_conflicts <= n {
                    return Err(Failure::without_code(ErrorClass::Serialization, "conflict"));
                }
                self.n_conflicts = 0;
                Ok(1)
            }
            FakeRequest::Fail(ms) => {
                sleep(Duration::from_millis(ms)).await;
                Err(Failure { code: Some("F0001".to_owned()), ..Failure::without_code(ErrorClass::Other, "failed") })
            }
            FakeRequest::Lose(ms) => {
                sleep(Duration::from_millis(ms)).await;
                self.is_lost = true;
                Err(Failure::without_code(ErrorClass::Connect, "connection lost"))
            }
            FakeRequest::Hang(n_cancels) => {
                for _ in 0..n_cancels {
                    self.canceller.cancelled.notified().await;
                }
                Err(Failure::without_code(ErrorClass::Connect, "cancelled"))
            }
            FakeRequest::Panic => panic!("the driver has a bug"),
        }
    }

    async fn reset(&mut self) -> Result<(), Failure> {
        self.server.n_resets.fetch_add(1, Ordering::SeqCst);
        if self.server.reset_ms > 0 {
            sleep(Duration::from_millis(self.server.reset_ms)).await;
        }
        Ok(())
    }

    fn canceller(&self) -> Option<FakeCanceller> {
        (!self.server.is_uncancellable).then(|| self.canceller.clone())
    }

    fn is_lost(&self) -> bool {
        self.is_lost
    }

    async fn close(self) {}
}

#[derive(Clone)]
pub(crate) struct FakeCanceller {
    cancelled: Rc<Notify>,
    n_cancels: Arc<AtomicU32>,
}

impl Canceller for FakeCanceller {
    async fn cancel(&self) -> Result<(), Failure> {
        self.n_cancels.fetch_add(1, Ordering::SeqCst);
        self.cancelled.notify_one();
        Ok(())
    }
}
