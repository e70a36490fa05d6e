//! One connection that the server has let in: a command out, its answer in, and what state the transaction is in.

use std::sync::Arc;

use super::auth::{self, Agreed};
use super::door::Door;
use super::encode::{COM_QUERY, COM_QUIT};
use super::reply::{Flow, Reply};
use super::row::Column;
use super::wire::Wire;
use crate::driver::access::Access;
use crate::driver::channel::Channel;
use crate::driver::{ErrorClass, Failure};
use crate::sql::{SqlAnswer, SqlCommand, SqlRequest};

/// A transaction is open, by the bits of the server's status.
const IN_TRANSACTION: u16 = 1;

/// See the module.
pub(super) struct Link {
    pub(super) wire: Wire<Channel>,
    /// The server's number of the connection, which KILL takes.
    pub(super) thread: u32,
    pub(super) agreed: Agreed,
    /// What the server said last; an error says nothing, so that after one a transaction may be open.
    status: u16,
    /// Set while an answer is awaited, so that a future that is dropped leaves it set.
    pub(super) is_lost: bool,
}

impl Link {
    /// Opens a connection to the server behind `door`.
    pub(super) async fn open(door: &Door, access: &Access) -> Result<Self, Failure> {
        let entered = auth::enter(door, access).await?;
        Ok(Self { wire: entered.wire, thread: entered.thread, agreed: entered.agreed, status: 0, is_lost: false })
    }

    /// Runs a text whose answer does not matter.
    pub(super) async fn execute(&mut self, text: &str) -> Result<(), Failure> {
        let request = SqlRequest { command: SqlCommand::Text(Arc::from(text)), ..SqlRequest::default() };
        self.require()?;
        self.wire.command(COM_QUERY).extend(text.as_bytes());
        self.exchange(&request, &mut SqlAnswer::default(), &mut Vec::new()).await.map(drop)
    }

    /// An error when there is no connection any more.
    pub(super) fn require(&self) -> Result<(), Failure> {
        let lost = || Failure::without_code(ErrorClass::Connect, "the connection is lost");
        if self.is_lost { Err(lost()) } else { Ok(()) }
    }

    pub(super) fn is_in_transaction(&self) -> bool {
        self.status & IN_TRANSACTION != 0
    }

    /// Sends the command that was written to the wire, which is `request`'s, and reads its answer. `columns` are those of the
    /// same statement's last answer, and then of this one.
    pub(super) async fn exchange(
        &mut self,
        request: &SqlRequest,
        answer: &mut SqlAnswer,
        columns: &mut Vec<Column>,
    ) -> Result<u64, Failure> {
        self.is_lost = true;
        // A server that ended the connection may have said why, which is better to know than that nothing can be sent.
        let sent = self.wire.send().await;
        let form = self.agreed.form(matches!(request.command, SqlCommand::Prepared(_)));
        let mut reply = Reply::new(request, answer, form, columns);
        loop {
            let broken = |error: std::io::Error| Failure::protocol(error.to_string());
            while let Some(packet) = self.wire.packet(reply.ignores_rows()).map_err(broken)? {
                match reply.take(self.wire.payload(&packet)) {
                    Flow::More => {}
                    Flow::Ready(status) => {
                        self.status = status.unwrap_or(self.status);
                        self.is_lost = false;
                        let n_rows = reply.finish();
                        self.wire.shrink();
                        return n_rows;
                    }
                    Flow::Lost(failure) => return Err(failure),
                }
            }
            if let Err(error) = self.wire.fill().await {
                return Err(Failure::lost("connection lost", sent.as_ref().err().unwrap_or(&error)));
            }
        }
    }

    /// Says goodbye.
    pub(super) async fn close(mut self) {
        self.wire.command(COM_QUIT);
        self.wire.close().await;
    }
}
