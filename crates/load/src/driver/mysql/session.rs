//! One connection at work: a command out, its answer in, and what state the transaction is in.

use std::sync::Arc;

use super::auth::{Entered, capability};
use super::cancel::MysqlCanceller;
use super::encode::{self, COM_QUERY, COM_QUIT, COM_STMT_EXECUTE, COM_STMT_PREPARE, Prepared};
use super::failure;
use super::fields::Fields;
use super::reply::{Flow, Form, Reply};
use super::row::Column;
use super::wire::Wire;
use crate::driver::channel::Channel;
use crate::driver::{Answer, ErrorClass, Failure, Session};
use crate::sql::{SqlCommand, SqlRequest};

/// A transaction is open, by the bits of the server's status.
const IN_TRANSACTION: u16 = 1;

/// One connection to a MySQL or MariaDB server.
pub struct MysqlSession {
    wire: Wire<Channel>,
    statements: Vec<Prepared>,
    canceller: MysqlCanceller,
    columns: Vec<Column>,
    has_eof: bool,
    /// What the server said last; an error says nothing, so that after one a transaction may be open.
    status: u16,
    /// Set while an answer is awaited, so that a future that is dropped leaves it set.
    is_lost: bool,
}

impl MysqlSession {
    pub(super) fn new(entered: Entered, canceller: MysqlCanceller) -> Self {
        Self {
            wire: entered.wire,
            statements: Vec::new(),
            canceller,
            columns: Vec::new(),
            has_eof: entered.capabilities & capability::DEPRECATE_EOF == 0,
            status: 0,
            is_lost: false,
        }
    }

    /// Runs a text whose answer does not matter.
    pub(super) async fn execute(&mut self, text: &str) -> Result<(), Failure> {
        let request = SqlRequest { command: SqlCommand::Text(Arc::from(text)), ..SqlRequest::default() };
        self.run(&request).await.map(drop)
    }

    /// Prepares the next statement; they are counted from 1 in texts for people.
    pub(super) async fn prepare(&mut self, text: &str) -> Result<(), Failure> {
        let number = self.statements.len() + 1;
        self.is_lost = true;
        let prepared = self.describe(text).await.map_err(|failure| Failure {
            // What the server says of a statement while it has the resources for it is about the statement.
            class: if failure.class == ErrorClass::Other { ErrorClass::Statement } else { failure.class },
            message: format!("statement {number}: {}", failure.message),
            ..failure
        })?;
        self.statements.push(prepared);
        self.is_lost = false;
        Ok(())
    }

    async fn describe(&mut self, text: &str) -> Result<Prepared, Failure> {
        let lost = |error| Failure::lost("preparing the statements", &error);
        self.wire.command(COM_STMT_PREPARE).extend(text.as_bytes());
        self.wire.send().await.map_err(lost)?;
        let payload = self.wire.next().await.map_err(lost)?;
        if payload.first() == Some(&0xff) {
            return Err(failure::read_error(payload));
        }
        let mut fields = Fields(payload.get(1..).unwrap_or_default());
        let (Some(id), Some(n_columns), Some(n_params)) = (fields.u32(), fields.u16(), fields.u16()) else {
            return Err(Failure::protocol("a prepared statement's description that is cut short"));
        };
        for n in [n_params, n_columns] {
            let n_ends = u32::from(n > 0 && self.has_eof);
            for _ in 0..u32::from(n) + n_ends {
                self.wire.next().await.map_err(lost)?;
            }
        }
        Ok(Prepared { id, n_params })
    }

    fn encode(&mut self, request: &SqlRequest) -> Result<(), Failure> {
        match &request.command {
            SqlCommand::Begin => self.wire.command(COM_QUERY).extend(b"BEGIN"),
            SqlCommand::Commit => self.wire.command(COM_QUERY).extend(b"COMMIT"),
            SqlCommand::Rollback => self.wire.command(COM_QUERY).extend(b"ROLLBACK"),
            SqlCommand::Text(text) => self.wire.command(COM_QUERY).extend(text.as_bytes()),
            SqlCommand::Prepared(index) => {
                let number = *index as usize + 1;
                let Some(&prepared) = self.statements.get(number - 1) else {
                    let known = self.statements.len();
                    let message = format!("statement {number} was asked for, and {known} are prepared");
                    return Err(Failure::statement(message));
                };
                encode::execute(number, prepared, &request.params, self.wire.command(COM_STMT_EXECUTE))?;
            }
        }
        Ok(())
    }

    async fn exchange(&mut self, request: &SqlRequest) -> Result<Answer, Failure> {
        self.is_lost = true;
        // A server that ended the connection may have said why, which is better to know than that nothing can be sent.
        let sent = self.wire.send().await;
        let form = Form { is_binary: matches!(request.command, SqlCommand::Prepared(_)), has_eof: self.has_eof };
        let mut reply = Reply::new(request, form, &mut self.columns);
        loop {
            let broken = |error: std::io::Error| Failure::protocol(error.to_string());
            while let Some(packet) = self.wire.packet(reply.ignores_rows()).map_err(broken)? {
                match reply.take(self.wire.payload(&packet)) {
                    Flow::More => {}
                    Flow::Ready(status) => {
                        self.status = status.unwrap_or(self.status);
                        self.is_lost = false;
                        let answer = reply.finish(&request.expect);
                        self.wire.shrink();
                        return answer;
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

impl Session for MysqlSession {
    type Request = SqlRequest;
    type Canceller = MysqlCanceller;

    async fn run(&mut self, request: &SqlRequest) -> Result<Answer, Failure> {
        if self.is_lost {
            return Err(Failure::without_code(ErrorClass::Connect, "the connection is lost"));
        }
        self.encode(request)?;
        self.exchange(request).await
    }

    async fn reset(&mut self) -> Result<(), Failure> {
        if self.status & IN_TRANSACTION == 0 && !self.is_lost {
            return Ok(());
        }
        let request = SqlRequest { command: SqlCommand::Rollback, ..SqlRequest::default() };
        self.run(&request).await.map(drop)
    }

    fn canceller(&self) -> MysqlCanceller {
        self.canceller.clone()
    }

    fn is_lost(&self) -> bool {
        self.is_lost
    }

    async fn close(mut self) {
        self.wire.command(COM_QUIT);
        self.wire.close().await;
    }
}
