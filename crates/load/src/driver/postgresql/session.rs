//! One connection at work: a request out, its answer in, and what state the transaction is in.

use std::sync::Arc;

use postgres_protocol::message::frontend;

use super::cancel::PostgresCanceller;
use super::encode::{self, Kind, Prepared};
use super::failure::ServerError;
use super::reply::{Flow, Reply};
use super::wire::Wire;
use crate::driver::channel::Channel;
use crate::driver::{ErrorClass, Failure, Session};
use crate::sql::{Sql, SqlAnswer, SqlCommand, SqlRequest};

/// The server is in no transaction.
const IDLE: u8 = b'I';

/// One connection to a PostgreSQL server.
pub struct PostgresSession {
    wire: Wire<Channel>,
    statements: Vec<Prepared>,
    canceller: PostgresCanceller,
    /// What the server said last: idle, in a transaction (T), in a failed one (E).
    status: u8,
    /// Set while an answer is awaited, so that a future that is dropped leaves it set.
    is_lost: bool,
}

impl PostgresSession {
    pub(super) fn new(wire: Wire<Channel>, canceller: PostgresCanceller) -> Self {
        Self { wire, statements: Vec::new(), canceller, status: IDLE, is_lost: false }
    }

    /// Runs a text whose answer does not matter.
    pub(super) async fn execute(&mut self, text: &str) -> Result<(), Failure> {
        let request = SqlRequest { command: SqlCommand::Text(Arc::from(text)), ..SqlRequest::default() };
        self.run(&request, &mut SqlAnswer::default()).await.map(drop)
    }

    /// Prepares the next statement; they are counted from 1 in texts for people.
    pub(super) async fn prepare(&mut self, text: &str) -> Result<(), Failure> {
        let number = self.statements.len() + 1;
        let name = encode::statement_name(number);
        let named =
            |failure: Failure| Failure { message: format!("statement {number}: {}", failure.message), ..failure };
        let out = &mut self.wire.out;
        frontend::parse(&name, text, [], out)
            .and_then(|()| frontend::describe(b'S', &name, out))
            .map_err(|_| named(Failure::statement("it holds a NUL character")))?;
        frontend::sync(out);
        let kinds = self.describe().await?.map_err(named)?;
        self.statements.push(Prepared { name, kinds });
        Ok(())
    }

    /// The parameters' types of the statement that is being prepared, or what the server says against it.
    async fn describe(&mut self) -> Result<Result<Box<[Kind]>, Failure>, Failure> {
        self.is_lost = true;
        self.wire.send().await.map_err(|error| Failure::lost("preparing the statements", &error))?;
        let mut result = Ok(Box::default());
        loop {
            let (tag, body) =
                self.wire.next().await.map_err(|error| Failure::lost("preparing the statements", &error))?;
            match tag {
                b't' => result = Ok(parameter_kinds(body)),
                b'E' => {
                    let error = ServerError::read(body);
                    if error.is_fatal {
                        return Err(error.failure);
                    }
                    result = Err(error.failure);
                }
                b'Z' => break,
                _ => {}
            }
        }
        self.is_lost = false;
        Ok(result)
    }

    fn encode(&mut self, request: &SqlRequest) -> Result<(), Failure> {
        let out = &mut self.wire.out;
        out.clear();
        match &request.command {
            SqlCommand::Begin => encode::query("BEGIN", out),
            SqlCommand::Commit => encode::query("COMMIT", out),
            SqlCommand::Rollback => encode::query("ROLLBACK", out),
            SqlCommand::Text(text) => encode::query(text, out),
            SqlCommand::Prepared(index) => {
                let prepared = self.statements.get(*index as usize).ok_or_else(|| {
                    let (asked, known) = (u64::from(*index) + 1, self.statements.len());
                    Failure::statement(format!("statement {asked} was asked for, and {known} are prepared"))
                })?;
                encode::execute(prepared, &request.params, out)
            }
        }
    }

    async fn exchange(&mut self, request: &SqlRequest, answer: &mut SqlAnswer) -> Result<u64, Failure> {
        self.is_lost = true;
        // A server that ended the connection has said why, which is better to know than that nothing can be sent.
        let sent = self.wire.send().await;
        let mut reply = Reply::new(request, answer);
        loop {
            while let Some(frame) = self.wire.frame(reply.wants_rows()).map_err(|error| broken(&error))? {
                match reply.take(frame.tag, self.wire.body(&frame)) {
                    Flow::More => {}
                    Flow::Ready(status) => {
                        self.status = status;
                        self.is_lost = false;
                        self.wire.shrink();
                        return reply.finish();
                    }
                    Flow::Lost(failure) => return Err(failure),
                }
            }
            if let Err(error) = self.wire.fill().await {
                return Err(Failure::lost("connection lost", sent.as_ref().err().unwrap_or(&error)));
            }
        }
    }
}

impl Session for PostgresSession {
    type Protocol = Sql;
    type Canceller = PostgresCanceller;

    async fn run(&mut self, request: &SqlRequest, answer: &mut SqlAnswer) -> Result<u64, Failure> {
        if self.is_lost {
            return Err(Failure::without_code(ErrorClass::Connect, "the connection is lost"));
        }
        self.encode(request)?;
        self.exchange(request, answer).await
    }

    async fn reset(&mut self) -> Result<(), Failure> {
        if self.status == IDLE && !self.is_lost {
            return Ok(());
        }
        let request = SqlRequest { command: SqlCommand::Rollback, ..SqlRequest::default() };
        self.run(&request, &mut SqlAnswer::default()).await.map(drop)
    }

    fn canceller(&self) -> Option<PostgresCanceller> {
        Some(self.canceller.clone())
    }

    fn is_lost(&self) -> bool {
        self.is_lost
    }

    async fn close(mut self) {
        self.wire.out.clear();
        frontend::terminate(&mut self.wire.out);
        self.wire.close().await;
    }
}

fn broken(error: &std::io::Error) -> Failure {
    Failure::protocol(error.to_string())
}

fn parameter_kinds(body: &[u8]) -> Box<[Kind]> {
    let (oids, _) = body.get(2..).unwrap_or_default().as_chunks();
    oids.iter().map(|oid| Kind::of(u32::from_be_bytes(*oid))).collect()
}
