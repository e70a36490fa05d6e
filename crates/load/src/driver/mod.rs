//! What the engine asks of a protocol: connect, run a request, cancel it.

pub mod cql;
pub mod http;
pub mod mongodb;
pub mod mysql;
pub mod postgresql;
pub mod wiredtiger;

mod access;
mod channel;
mod inbox;
mod name;
mod socket;
mod tls;

pub use access::Access;
pub use tls::{TlsFiles, TlsMode};

#[cfg(test)]
pub(crate) mod fake;

use std::fmt;

use crate::protocol::Protocol;

/// What kind of failure it was, in terms that fit every protocol. The numbers are part of the Python interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum ErrorClass {
    /// No connection, or it was lost.
    Connect = 0,
    /// The server's own time-out (a statement or lock time-out); the engine's is [`crate::log::Outcome::TimedOut`].
    Timeout = 1,
    /// A serialization failure, a deadlock or a write conflict: the same transaction may succeed when repeated.
    Serialization = 2,
    /// A constraint of the data was violated.
    Constraint = 3,
    /// The server accepts no writes now (a standby, a failover, a full cluster).
    ReadOnly = 4,
    /// The server lacks something: connections, memory, disk, or it is overloaded.
    Resource = 5,
    /// The request is wrong: it does not parse, or names what does not exist.
    Statement = 6,
    /// The server may not be asked this by this user.
    Permission = 7,
    /// An answer that the protocol does not allow.
    Protocol = 8,
    /// HTTP status 400 to 499.
    Http4xx = 9,
    /// HTTP status 500 to 599.
    Http5xx = 10,
    /// An answer that came and is wrong: rows, lengths or contents are not what they must be.
    Validation = 11,
    /// Anything else.
    Other = 12,
    /// A page in which the application says that it failed, with a status of success.
    ErrorPage = 13,
}

impl ErrorClass {
    /// Whether the same operation may be sent again and succeed.
    pub fn is_retryable(self) -> bool {
        self == Self::Serialization
    }
}

/// Why a request or a connection failed; the text never holds a password.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// What kind of failure.
    pub class: ErrorClass,
    /// The server's own error code (an SQLSTATE for SQL), where there is one.
    pub code: Option<String>,
    /// The server's or the system's words.
    pub message: String,
    /// What the application itself calls it, where it does: such failures are counted by it too.
    pub word: Option<Box<str>>,
}

impl Failure {
    /// A connection that cannot be opened or was lost, in the system's words.
    pub(crate) fn lost(context: &str, error: &std::io::Error) -> Self {
        let words = match error.kind() {
            std::io::ErrorKind::UnexpectedEof => "the server closed the connection".to_owned(),
            std::io::ErrorKind::AddrNotAvailable => {
                format!("{error}: this machine has no port left for another connection, or no address of this kind")
            }
            _ => error.to_string(),
        };
        Self::without_code(ErrorClass::Connect, format!("{context}: {words}"))
    }

    /// An answer that the protocol does not allow.
    pub(crate) fn protocol(message: impl Into<String>) -> Self {
        Self::without_code(ErrorClass::Protocol, message)
    }

    /// A request that cannot be sent as it is.
    pub(crate) fn statement(message: impl Into<String>) -> Self {
        Self::without_code(ErrorClass::Statement, message)
    }

    /// A failure that no server gave a code for.
    pub fn without_code(class: ErrorClass, message: impl Into<String>) -> Self {
        Self { class, code: None, message: message.into(), word: None }
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

/// A language with the address and credentials of one server; each worker thread has its own copy.
///
/// All futures run on the worker's own current-thread runtime, where `spawn_local` works, so they need not be `Send`.
/// Dropping one must not block.
pub trait Driver: Clone + Send + 'static {
    /// What it speaks.
    type Protocol: Protocol;
    /// One connection.
    type Session: Session<Protocol = Self::Protocol>;

    /// Whether the server's work is done on the worker's own thread, so that what the thread uses is not the load's.
    const WORKS_HERE: bool = false;

    /// A copy for one worker, which shares with those of other workers nothing that belongs to a thread.
    #[must_use]
    fn for_worker(&self) -> Self {
        self.clone()
    }

    /// Opens one connection, ready for requests. The engine bounds the time it may take.
    fn connect(&self) -> impl Future<Output = Result<Self::Session, Failure>>;

    /// A session that connects with its first request, where the driver has such.
    fn late(&self) -> Option<Self::Session> {
        None
    }

    /// Opens what this worker needs besides its users' connections; called once, when all users of the run are connected, and
    /// while they work. What cannot be had must not be needed.
    fn attend(&self) -> impl Future<Output = ()> {
        async {}
    }

    /// Closes it again, when all users have left. The engine bounds the time it may take.
    fn leave(&self) -> impl Future<Output = ()> {
        async {}
    }
}

/// One connection; runs one request at a time.
pub trait Session: 'static {
    /// What it speaks.
    type Protocol: Protocol;
    /// See [`Canceller`]; [`Uncancellable`] where there is none.
    type Canceller: Canceller;

    /// Runs one request to its end, and gives how many rows, documents or pages came or were touched; what else the request
    /// asked for is written into `answer`, which may hold an earlier one. Validates the answer where the request says what
    /// it must be.
    fn run(
        &mut self,
        request: &<Self::Protocol as Protocol>::Request,
        answer: &mut <Self::Protocol as Protocol>::Answer,
    ) -> impl Future<Output = Result<u64, Failure>>;

    /// Brings the connection back to where a new operation can start (rolls back what a failed step left open).
    fn reset(&mut self) -> impl Future<Output = Result<(), Failure>>;

    /// A handle that cancels what this session runs while `run` is pending; asked for once per connection. `None`: the
    /// engine drops the future of a request that is cut off, and the session must end what it was at.
    fn canceller(&self) -> Option<Self::Canceller>;

    /// Whether the connection is gone, so that the next request would fail; the engine then waits a while before it opens
    /// another. A session that can open a connection anew when its server has closed it in good order says no.
    fn is_lost(&self) -> bool;

    /// Says goodbye to the server. The engine bounds the time it may take.
    fn close(self) -> impl Future<Output = ()>;
}

/// Cancels what a session runs.
pub trait Canceller {
    /// Returns once the server has taken the request, so that it cannot hit a later operation.
    fn cancel(&self) -> impl Future<Output = Result<(), Failure>>;
}

/// The canceller of a protocol that has none.
#[derive(Clone, Copy, Debug)]
pub enum Uncancellable {}

impl Canceller for Uncancellable {
    async fn cancel(&self) -> Result<(), Failure> {
        match *self {}
    }
}

/// Whatever keeps a connection from being made is a failure to connect: an unknown database is no wrong statement.
pub(crate) fn refused(failure: Failure) -> Failure {
    match failure.class {
        ErrorClass::Statement => Failure { class: ErrorClass::Connect, ..failure },
        _ => failure,
    }
}

/// A statement that cannot be prepared is a wrong one, also when the user may not run it.
pub(crate) fn unprepared(failure: Failure) -> Failure {
    match failure.class {
        ErrorClass::Permission | ErrorClass::Constraint | ErrorClass::Other => {
            Failure { class: ErrorClass::Statement, ..failure }
        }
        _ => failure,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn that_the_ports_of_this_machine_are_used_up_is_told() {
        let failure = Failure::lost("cannot connect to x:80", &std::io::Error::from_raw_os_error(libc::EADDRNOTAVAIL));
        assert_eq!(failure.class, ErrorClass::Connect);
        let words = "this machine has no port left for another connection, or no address of this kind";
        assert!(failure.message.ends_with(words), "{failure}");
    }
}
