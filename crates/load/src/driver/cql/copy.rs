//! Copying a table through the client: rows as they are, many writes on their way at the same time.

use super::encode::{self, opcode};
use super::failure::{ServerError, lost};
use super::reply::{self, Rows};
use super::session::CqlSession;
use crate::driver::Failure;

/// Rows that are read at once, and so many writes are on their way at the same time.
const PAGE_ROWS: i32 = 500;
const IN_FLIGHT: usize = 100;

impl CqlSession {
    /// See [`super::CqlConsole::copy`].
    pub(super) async fn copy(&mut self, select: &str, insert: &str) -> Result<u64, Failure> {
        let form = self.form;
        encode::prepare(insert, form, self.begin(opcode::PREPARE)?);
        let message = self.exchange().await.map_err(|error| error.failure)?;
        let insert = reply::prepared(self.body(&message)?, form.version).ok_or_else(reply::cut_short)?;
        let (mut n_copied, mut state) = (0, None::<Vec<u8>>);
        loop {
            encode::page(select, form, PAGE_ROWS, state.as_deref(), self.begin(opcode::QUERY)?);
            let message = self.exchange().await.map_err(|error| error.failure)?;
            // The buffer that it lies in is needed for the answers to the writes.
            let body = self.body(&message)?.to_vec();
            let Some(mut rows) = Rows::of(&body).ok_or_else(reply::cut_short)? else { return Ok(n_copied) };
            let (mut n_left, n_columns) = (rows.n_rows, rows.n_columns);
            while n_left > 0 {
                let n_now = n_left.min(IN_FLIGHT);
                for _ in 0..n_now {
                    let values = rows.values().ok_or_else(reply::cut_short)?;
                    encode::execute_with(&insert, n_columns, values, form, self.begin(opcode::EXECUTE)?);
                    self.wire.finish();
                }
                self.written(n_now).await?;
                n_left -= n_now;
                n_copied += n_now as u64;
            }
            state = rows.state.map(<[u8]>::to_vec);
            if state.is_none() {
                return Ok(n_copied);
            }
        }
    }

    /// Sends what is finished and waits for so many answers, in whatever order they come.
    async fn written(&mut self, n_answers: usize) -> Result<(), Failure> {
        let broken = |error: std::io::Error| lost("connection lost", &error);
        // Whoever stops here leaves answers behind that nobody counts.
        self.is_lost = true;
        self.wire.send().await.map_err(broken)?;
        let mut refusal = None;
        for _ in 0..n_answers {
            let message = self.wire.next().await.map_err(broken)?;
            if message.opcode == opcode::ERROR {
                refusal = Some(ServerError::read(self.wire.body(&message).map_err(broken)?).failure);
            }
        }
        self.is_lost = false;
        refusal.map_or(Ok(()), Err)
    }
}
