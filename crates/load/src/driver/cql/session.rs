//! One connection at work: its prepared statements, and requests as messages.

use std::net::IpAddr;
use std::sync::Arc;

use super::encode::{self, Form, Prepared, opcode};
use super::failure::{ServerError, UNPREPARED, lost};
use super::reply::{self, Rows};
use super::wire::{Message, Wire};
use crate::driver::channel::Channel;
use crate::driver::{ErrorClass, Failure, Session, Uncancellable};
use crate::sql::{Sql, SqlAnswer, SqlCommand, SqlRequest};

/// So many answers that nobody waits for may still come; a connection with more is given up.
const ABANDONED_MAX: u32 = 1024;
/// Rows of a page when a whole table is read.
const PAGE_ROWS: i32 = 5000;

/// Rows as texts; `None`: NULL.
pub type Texts = Vec<Vec<Option<String>>>;

/// One connection to a node.
pub struct CqlSession {
    pub(super) wire: Wire<Channel>,
    pub(super) form: Form,
    texts: Arc<[String]>,
    statements: Vec<Prepared>,
    /// Number of the newest request, by which its answer is known.
    stream: i16,
    /// Set while an answer is awaited, so that a future that is dropped leaves it set.
    is_waiting: bool,
    n_abandoned: u32,
    pub(super) is_lost: bool,
}

impl CqlSession {
    pub(super) fn new(wire: Wire<Channel>, form: Form, texts: Arc<[String]>) -> Self {
        let statements = Vec::with_capacity(texts.len());
        Self { wire, form, texts, statements, stream: 0, is_waiting: false, n_abandoned: 0, is_lost: false }
    }

    /// The address that it leads to.
    pub(super) fn peer(&self) -> Option<IpAddr> {
        self.wire.stream().peer()
    }

    /// The version of the protocol that is spoken.
    pub fn version(&self) -> u8 {
        self.form.version
    }

    /// Runs a text whose answer does not matter.
    pub(super) async fn execute(&mut self, text: &str) -> Result<(), Failure> {
        encode::query(text, self.form, self.begin(opcode::QUERY)?);
        self.exchange().await.map(drop).map_err(|error| error.failure)
    }

    /// All rows of a statement, page by page; none where it gives none.
    ///
    /// # Errors
    /// The server refuses it, or the connection is lost.
    pub async fn rows(&mut self, text: &str) -> Result<Texts, Failure> {
        let (mut found, mut state) = (Texts::new(), None::<Vec<u8>>);
        loop {
            let form = self.form;
            encode::page(text, form, PAGE_ROWS, state.as_deref(), self.begin(opcode::QUERY)?);
            let message = self.exchange().await.map_err(|error| error.failure)?;
            let Some(mut rows) = Rows::of(self.body(&message)?).ok_or_else(reply::cut_short)? else {
                return Ok(found);
            };
            for _ in 0..rows.n_rows {
                found.push(rows.texts().ok_or_else(reply::cut_short)?);
            }
            state = rows.state.map(<[u8]>::to_vec);
            if state.is_none() {
                return Ok(found);
            }
        }
    }

    /// The same of tables that each node has for itself, whatever consistency is asked for elsewhere.
    pub(super) async fn own_rows(&mut self, text: &str) -> Result<Texts, Failure> {
        let consistency = std::mem::replace(&mut self.form.consistency, encode::ONE);
        let rows = self.rows(text).await;
        self.form.consistency = consistency;
        rows
    }

    /// A statement that was prepared.
    pub(super) fn statement(&self, index: usize) -> Option<&Prepared> {
        self.statements.get(index)
    }

    /// Prepares a statement, anew if the server has forgotten it; they are counted from 1 in texts for people.
    pub(super) async fn prepare(&mut self, index: usize) -> Result<(), Failure> {
        let named = |failure: Failure| Failure {
            class: if failure.class == ErrorClass::Other { ErrorClass::Statement } else { failure.class },
            message: format!("statement {}: {}", index + 1, failure.message),
            ..failure
        };
        let (texts, form) = (Arc::clone(&self.texts), self.form);
        encode::prepare(&texts[index], form, self.begin(opcode::PREPARE)?);
        let message = self.exchange().await.map_err(|error| named(error.failure))?;
        let prepared = reply::prepared(self.body(&message)?, form.version)
            .ok_or_else(|| Failure::protocol("a prepared statement's description that is cut short"))?;
        match self.statements.get_mut(index) {
            Some(place) => *place = prepared,
            None => self.statements.push(prepared),
        }
        Ok(())
    }

    /// Starts a request, behind those that were dropped.
    pub(super) fn begin(&mut self, opcode: u8) -> Result<&mut Vec<u8>, Failure> {
        if self.is_waiting {
            self.is_waiting = false;
            self.n_abandoned += 1;
        }
        self.is_lost |= self.n_abandoned > ABANDONED_MAX;
        if self.is_lost {
            return Err(Failure::without_code(ErrorClass::Connect, "the connection is lost"));
        }
        self.stream = following(self.stream);
        Ok(self.wire.begin(opcode, self.stream))
    }

    /// Sends the request that was written and waits for its answer, which is no error.
    pub(super) async fn exchange(&mut self) -> Result<Message, ServerError> {
        self.wire.finish();
        self.is_waiting = true;
        // A server that ended the connection may have said why, which is better to know than that nothing can be sent.
        let sent = self.wire.send().await;
        loop {
            let message = match self.wire.next().await {
                Ok(message) => message,
                Err(error) => {
                    self.is_lost = true;
                    let failure = lost("connection lost", sent.as_ref().err().unwrap_or(&error));
                    return Err(ServerError { code: 0, failure });
                }
            };
            if message.stream != self.stream {
                // Of a request that was dropped, or news of the server, which have no number.
                self.n_abandoned -= u32::from(message.stream >= 0 && self.n_abandoned > 0);
                continue;
            }
            self.is_waiting = false;
            if message.opcode == opcode::RESULT {
                return Ok(message);
            }
            let error = self.refusal(&message);
            self.is_lost = error.is_fatal();
            return Err(error);
        }
    }

    fn refusal(&self, message: &Message) -> ServerError {
        match self.wire.body(message) {
            Ok(body) if message.opcode == opcode::ERROR => ServerError::read(body),
            _ => {
                let words = format!("an answer of kind {} to a request", message.opcode);
                ServerError { code: super::failure::PROTOCOL, failure: Failure::protocol(words) }
            }
        }
    }

    pub(super) fn body(&self, message: &Message) -> Result<&[u8], Failure> {
        self.wire.body(message).map_err(|error| lost("connection lost", &error))
    }

    fn encode(&mut self, request: &SqlRequest) -> Result<(), Failure> {
        let form = self.form;
        match &request.command {
            SqlCommand::Begin | SqlCommand::Commit | SqlCommand::Rollback => {
                return Err(Failure::statement("such servers have no transactions"));
            }
            SqlCommand::Text(text) => encode::query(text, form, self.begin(opcode::QUERY)?),
            SqlCommand::Prepared(index) => {
                let (number, known) = (*index as usize + 1, self.statements.len());
                if number > known {
                    let message = format!("statement {number} was asked for, and {known} are prepared");
                    return Err(Failure::statement(message));
                }
                self.begin(opcode::EXECUTE)?;
                let Self { statements, wire, stream, .. } = self;
                let out = wire.begin(opcode::EXECUTE, *stream);
                encode::execute(number, &statements[number - 1], &request.params, request.wants_row, form, out)?;
            }
        }
        Ok(())
    }
}

/// The number behind this one; those below 0 are the server's own.
fn following(stream: i16) -> i16 {
    stream.wrapping_add(1) & i16::MAX
}

impl Session for CqlSession {
    type Protocol = Sql;
    type Canceller = Uncancellable;

    async fn run(&mut self, request: &SqlRequest, answer: &mut SqlAnswer) -> Result<u64, Failure> {
        self.encode(request)?;
        let mut exchanged = self.exchange().await;
        if let (Err(error), SqlCommand::Prepared(index)) = (&exchanged, &request.command)
            && error.code == UNPREPARED
        {
            self.prepare(*index as usize).await?;
            self.encode(request)?;
            exchanged = self.exchange().await;
        }
        let message = exchanged.map_err(|error| error.failure)?;
        reply::take(self.body(&message)?, request, answer)
    }

    /// Nothing stays open behind a request.
    async fn reset(&mut self) -> Result<(), Failure> {
        let lost = || Failure::without_code(ErrorClass::Connect, "the connection is lost");
        if self.is_lost { Err(lost()) } else { Ok(()) }
    }

    fn canceller(&self) -> Option<Uncancellable> {
        None
    }

    fn is_lost(&self) -> bool {
        self.is_lost
    }

    async fn close(self) {
        self.wire.close().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_numbered_round_and_round() {
        assert_eq!([0, 1, i16::MAX].map(following), [1, 2, 0]);
    }
}
