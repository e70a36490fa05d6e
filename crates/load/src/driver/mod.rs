//! What the engine asks of a protocol: connect, run a request, cancel it.

pub mod postgres;

#[cfg(test)]
pub(crate) mod fake;

use std::fmt;

/// Why a request or a connection failed; the text never holds a password.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The server's own error code (an SQLSTATE for SQL), where there is one.
    pub code: Option<String>,
    /// The server's or the system's words.
    pub message: String,
}

impl Failure {
    /// A failure that no server spoke of.
    pub fn without_code(message: impl Into<String>) -> Self {
        Self { code: None, message: message.into() }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.code {
            Some(code) => write!(f, "{code} {}", self.message),
            None => f.write_str(&self.message),
        }
    }
}

impl std::error::Error for Failure {}

/// A protocol with the address and credentials of one server; each worker thread has its own copy.
///
/// All futures run on the worker's current-thread runtime inside a `LocalSet`, so they need not be `Send`. Dropping one
/// must not block.
pub trait Driver: Clone + Send + 'static {
    /// What one operation asks of the server.
    type Request: Send + Sync + 'static;
    /// One connection.
    type Session: Session<Request = Self::Request>;

    /// Opens one connection, ready for requests. The engine bounds the time it may take.
    fn connect(&self) -> impl Future<Output = Result<Self::Session, Failure>>;
}

/// One connection; runs one request at a time.
pub trait Session: 'static {
    /// What one operation asks of the server.
    type Request;
    /// See [`Canceller`].
    type Canceller: Canceller;

    /// Runs a request to its end and returns how many rows (documents, pages) it returned or touched.
    fn run(&mut self, request: &Self::Request) -> impl Future<Output = Result<u64, Failure>>;

    /// A handle that cancels what this session runs while `run` is pending.
    fn canceller(&self) -> Self::Canceller;

    /// Whether the connection is gone, so that the next request would fail.
    fn is_lost(&self) -> bool;

    /// Says goodbye to the server. The engine bounds the time it may take.
    fn close(self) -> impl Future<Output = ()>;
}

/// Cancels what a session runs.
pub trait Canceller {
    /// Returns once the server has taken the request, so that it cannot hit a later operation.
    fn cancel(&self) -> impl Future<Output = Result<(), Failure>>;
}
