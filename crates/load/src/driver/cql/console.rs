//! A connection for a few questions beside the load, asked from a thread that may wait: to look at a server, and to copy a table.

use std::time::Duration;

use tokio::runtime::{Builder, Runtime};
use tokio::time::timeout;

use super::session::{CqlSession, Texts};
use crate::driver::{ErrorClass, Failure, Session};

/// See the module.
pub struct CqlConsole {
    // Before the runtime, which its socket needs to the end.
    session: CqlSession,
    runtime: Runtime,
}

impl CqlConsole {
    /// Waits for the connection, `limit` at most.
    pub(super) fn open(
        connecting: impl Future<Output = Result<CqlSession, Failure>>,
        limit: Duration,
    ) -> Result<Self, Failure> {
        let system = |error: std::io::Error| Failure::without_code(ErrorClass::Other, error.to_string());
        let runtime = Builder::new_current_thread().enable_all().build().map_err(system)?;
        let opened = runtime.block_on(async { timeout(limit, connecting).await });
        match opened {
            Ok(session) => Ok(Self { session: session?, runtime }),
            Err(_) => Err(Failure { class: ErrorClass::Connect, ..late(limit) }),
        }
    }

    /// All rows of a statement as texts, page by page; none where it gives none.
    ///
    /// # Errors
    /// The server refuses it, the connection is lost, or the answer takes longer than `limit`.
    pub fn rows(&mut self, text: &str, limit: Duration) -> Result<Texts, Failure> {
        let Self { session, runtime } = self;
        runtime.block_on(async { timeout(limit, session.rows(text)).await }).unwrap_or_else(|_| Err(late(limit)))
    }

    /// Writes all rows that `select` gives with `insert`, whose parameters are the same columns in the same order; how many.
    ///
    /// # Errors
    /// As `rows`; some rows may have been written.
    pub fn copy(&mut self, select: &str, insert: &str, limit: Duration) -> Result<u64, Failure> {
        let Self { session, runtime } = self;
        let copied = runtime.block_on(async { timeout(limit, session.copy(select, insert)).await });
        copied.unwrap_or_else(|_| Err(late(limit)))
    }

    /// Says goodbye.
    pub fn close(self) {
        let Self { session, runtime } = self;
        runtime.block_on(session.close());
    }
}

fn late(limit: Duration) -> Failure {
    Failure::without_code(ErrorClass::Timeout, format!("no answer within {} s", limit.as_secs_f64()))
}
