//! OP_MSG: one command out, one answer in, over one connection.

use super::bson::{Document, Value, Writer};
use crate::driver::channel::Channel;
use crate::driver::inbox::{Inbox, send_all};
use crate::driver::{ErrorClass, Failure};

const OP_MSG: u32 = 2013;
const HEADER: usize = 16;
/// The header, the flags, and the kind of the only section.
const BEFORE: usize = HEADER + 4 + 1;
/// The most that a server says of itself that it sends; ours ask for far less.
const BYTES_MAX: usize = 48 * 1024 * 1024;

/// A connection with its buffers.
pub(super) struct Wire {
    stream: Channel,
    inbox: Inbox,
    out: Writer,
    n_asked: u32,
    /// Bytes of the answer at the front of the inbox.
    taken: usize,
    /// Whether a request was sent whose answer has not come.
    pub(super) is_waiting: bool,
}

impl Wire {
    pub(super) fn new(stream: Channel) -> Self {
        Self { stream, inbox: Inbox::new(), out: Writer::default(), n_asked: 0, taken: 0, is_waiting: false }
    }

    /// Sends the command that `write` puts into a document for `database`, and gives the answer's document, which says whether it
    /// went well.
    pub(super) async fn ask(
        &mut self,
        database: &str,
        write: impl FnOnce(&mut Writer),
    ) -> Result<Document<'_>, Failure> {
        self.n_asked = self.n_asked.wrapping_add(1);
        let out = &mut self.out;
        out.bytes.clear();
        for word in [0, self.n_asked, 0, OP_MSG, 0] {
            out.bytes.extend_from_slice(&word.to_le_bytes());
        }
        out.bytes.push(0);
        out.begin();
        write(out);
        out.text("$db", database);
        out.close();
        let length = out.bytes.len() as u32;
        out.bytes[..4].copy_from_slice(&length.to_le_bytes());
        self.inbox.take(self.taken);
        self.taken = 0;
        self.inbox.shrink();
        self.is_waiting = true;
        let lost = |error| Failure::lost("the connection was lost", &error);
        send_all(&mut self.stream, &self.out.bytes).await.map_err(lost)?;
        let length = self.arrive().await?;
        self.is_waiting = false;
        self.taken = length;
        read(&self.inbox.arrived()[..length], self.n_asked)
    }

    /// Waits until an answer has come as a whole, and gives its length.
    async fn arrive(&mut self) -> Result<usize, Failure> {
        loop {
            if let Some(length) = self.inbox.arrived().first_chunk() {
                let length = u32::from_le_bytes(*length) as usize;
                if !(BEFORE + 5..=BYTES_MAX).contains(&length) {
                    return Err(Failure::protocol(format!("an answer of {length} bytes")));
                }
                if self.inbox.len() >= length {
                    return Ok(length);
                }
                self.inbox.make_room(length);
            }
            let lost = |error| Failure::lost("the connection was lost", &error);
            self.inbox.fill(&mut self.stream).await.map_err(lost)?;
        }
    }
}

/// The document of an answer to request `asked`.
fn read(message: &[u8], asked: u32) -> Result<Document<'_>, Failure> {
    let word =
        |index: usize| message.get(index * 4..).and_then(|rest| rest.first_chunk()).map(|b| u32::from_le_bytes(*b));
    if (word(2), word(3)) != (Some(asked), Some(OP_MSG)) {
        return Err(Failure::protocol("an answer that is none to this request, or no OP_MSG"));
    }
    let body = message.get(BEFORE..).filter(|_| message[BEFORE - 1] == 0).and_then(Document::split);
    body.map(|(document, _)| document).ok_or_else(|| Failure::protocol("an answer that is no document"))
}

/// The answer, if it says that all went well; a write that failed within says so in a place of its own.
pub(super) fn judged(answer: Document<'_>) -> Result<Document<'_>, Failure> {
    if answer.get("ok").and_then(Value::number) != Some(1.0) {
        return Err(failure(answer, "errmsg"));
    }
    let within = answer.get("writeErrors").and_then(Value::document).and_then(|errors| errors.get("0"));
    if let Some(error) = within.and_then(Value::document) {
        return Err(failure(error, "errmsg"));
    }
    match answer.get("writeConcernError").and_then(Value::document) {
        Some(error) => Err(failure(error, "errmsg")),
        None => Ok(answer),
    }
}

fn failure(document: Document<'_>, words: &str) -> Failure {
    let code = document.get("code").and_then(Value::number).map_or(0, |code| code as i64);
    let message = document.get(words).and_then(Value::text).unwrap_or("the server gives no reason").to_owned();
    Failure { class: class_of(code), code: (code != 0).then(|| code.to_string()), message, word: None }
}

/// By MongoDB's published error codes.
fn class_of(code: i64) -> ErrorClass {
    match code {
        // WriteConflict, LockTimeout, TransactionTooOld and NoSuchTransaction: the same may succeed when repeated.
        112 | 24 | 225 | 251 => ErrorClass::Serialization,
        // MaxTimeMSExpired, ExceededTimeLimit, NetworkTimeout, WriteConcernFailed by time.
        50 | 262 | 89 | 64 => ErrorClass::Timeout,
        // DuplicateKey, DocumentValidationFailure.
        11_000 | 11_001 | 121 => ErrorClass::Constraint,
        // NotWritablePrimary, PrimarySteppedDown, NotPrimaryOrSecondary and the like.
        10_107 | 189 | 13_435 | 13_436 | 11_602 => ErrorClass::ReadOnly,
        // ExceededMemoryLimit, OutOfDiskSpace, TooManyLocks, TemporarilyUnavailable, IngressRequestRateLimitExceeded.
        146 | 14_031 | 208 | 365 | 462 => ErrorClass::Resource,
        // Unauthorized, AuthenticationFailed.
        13 | 18 => ErrorClass::Permission,
        // BadValue, FailedToParse, TypeMismatch, CommandNotFound, NamespaceNotFound, InvalidNamespace.
        2 | 9 | 14 | 59 | 26 | 73 | 40_415 => ErrorClass::Statement,
        // HostUnreachable, InterruptedAtShutdown, ShutdownInProgress.
        6 | 11_600 | 91 => ErrorClass::Connect,
        _ => ErrorClass::Other,
    }
}
