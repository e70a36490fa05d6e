//! One connection at work: its prepared statements, and requests as commands.

use super::cancel::MysqlCanceller;
use super::encode::{self, COM_QUERY, COM_STMT_EXECUTE, COM_STMT_PREPARE, Prepared};
use super::failure;
use super::fields::Fields;
use super::link::Link;
use super::row::Column;
use crate::driver::{Failure, Session};
use crate::sql::{Sql, SqlAnswer, SqlCommand, SqlRequest};

/// One connection to a MySQL or MariaDB server.
pub struct MysqlSession {
    link: Link,
    statements: Vec<Prepared>,
    /// Of texts' answers; kept for its memory.
    columns: Vec<Column>,
    canceller: MysqlCanceller,
}

impl MysqlSession {
    pub(super) fn new(link: Link, canceller: MysqlCanceller) -> Self {
        Self { link, statements: Vec::new(), columns: Vec::new(), canceller }
    }

    /// Runs a text whose answer does not matter.
    pub(super) async fn execute(&mut self, text: &str) -> Result<(), Failure> {
        self.link.execute(text).await
    }

    /// Prepares the next statement; they are counted from 1 in texts for people.
    pub(super) async fn prepare(&mut self, text: &str) -> Result<(), Failure> {
        let number = self.statements.len() + 1;
        self.link.is_lost = true;
        let named =
            |failure: Failure| Failure { message: format!("statement {number}: {}", failure.message), ..failure };
        let prepared = self.describe(text).await.map_err(named)?;
        self.statements.push(prepared);
        self.link.is_lost = false;
        Ok(())
    }

    async fn describe(&mut self, text: &str) -> Result<Prepared, Failure> {
        let lost = |error| Failure::lost("preparing the statements", &error);
        self.link.wire.command(COM_STMT_PREPARE).extend(text.as_bytes());
        self.link.wire.send().await.map_err(lost)?;
        let payload = self.link.wire.next().await.map_err(lost)?;
        if payload.first() == Some(&0xff) {
            return Err(failure::read_error(payload));
        }
        let mut fields = Fields(payload.get(1..).unwrap_or_default());
        let (Some(id), Some(n_columns), Some(n_params)) = (fields.u32(), fields.u16(), fields.u16()) else {
            return Err(Failure::protocol("a prepared statement's description that is cut short"));
        };
        let has_eof = self.link.agreed.form(true).has_eof;
        let mut columns = Vec::new();
        for (n, is_column) in [(n_params, false), (n_columns, true)] {
            for _ in 0..n {
                let payload = self.link.wire.next().await.map_err(lost)?;
                if is_column {
                    let cut = || Failure::protocol("a column's description that is cut short");
                    columns.push(Column::read(payload).ok_or_else(cut)?);
                }
            }
            if n > 0 && has_eof {
                self.link.wire.next().await.map_err(lost)?;
            }
        }
        Ok(Prepared::new(id, n_params, columns))
    }

    fn encode(&mut self, request: &SqlRequest) -> Result<(), Failure> {
        match &request.command {
            SqlCommand::Begin => self.link.wire.command(COM_QUERY).extend(b"START TRANSACTION"),
            SqlCommand::Commit => self.link.wire.command(COM_QUERY).extend(b"COMMIT"),
            SqlCommand::Rollback => self.link.wire.command(COM_QUERY).extend(b"ROLLBACK"),
            SqlCommand::Text(text) => self.link.wire.command(COM_QUERY).extend(text.as_bytes()),
            SqlCommand::Prepared(index) => {
                let number = *index as usize + 1;
                let known = self.statements.len();
                let Some(prepared) = self.statements.get_mut(number - 1) else {
                    let message = format!("statement {number} was asked for, and {known} are prepared");
                    return Err(Failure::statement(message));
                };
                encode::execute(number, prepared, &request.params, self.link.wire.command(COM_STMT_EXECUTE))?;
            }
        }
        Ok(())
    }
}

impl Session for MysqlSession {
    type Protocol = Sql;
    type Canceller = MysqlCanceller;

    async fn run(&mut self, request: &SqlRequest, answer: &mut SqlAnswer) -> Result<u64, Failure> {
        self.link.require()?;
        self.encode(request)?;
        let Self { link, statements, columns, .. } = self;
        let columns = match request.command {
            SqlCommand::Prepared(index) => &mut statements[index as usize].columns,
            _ => columns,
        };
        link.exchange(request, answer, columns).await
    }

    async fn reset(&mut self) -> Result<(), Failure> {
        if !self.link.is_in_transaction() && !self.link.is_lost {
            return Ok(());
        }
        let request = SqlRequest { command: SqlCommand::Rollback, ..SqlRequest::default() };
        self.run(&request, &mut SqlAnswer::default()).await.map(drop)
    }

    fn canceller(&self) -> Option<MysqlCanceller> {
        Some(self.canceller.clone())
    }

    fn is_lost(&self) -> bool {
        self.link.is_lost
    }

    async fn close(self) {
        self.link.close().await;
    }
}
