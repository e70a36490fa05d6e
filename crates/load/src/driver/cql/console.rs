//! A connection for a few questions beside the load, asked from a thread that may wait: to look at a server, and to copy a table.

use std::pin::pin;
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};
use tokio::time::timeout;

use super::session::{CqlSession, Texts};
use crate::driver::{ErrorClass, Failure, Session};

/// Whether somebody still waits for an answer.
pub type IsAwaited = Box<dyn Fn() -> bool + Send>;

/// That is asked so often.
const SLICE: Duration = Duration::from_millis(50);

/// See the module.
pub struct CqlConsole {
    // Before the runtime, which its socket needs to the end.
    session: CqlSession,
    runtime: Runtime,
    is_awaited: IsAwaited,
}

impl CqlConsole {
    /// Waits for the connection, `limit` at most.
    pub(super) fn open(
        connecting: impl Future<Output = Result<CqlSession, Failure>>,
        limit: Duration,
        is_awaited: IsAwaited,
    ) -> Result<Self, Failure> {
        let system = |error: std::io::Error| Failure::without_code(ErrorClass::Other, error.to_string());
        let runtime = Builder::new_current_thread().enable_all().build().map_err(system)?;
        let too_late = Failure { class: ErrorClass::Connect, ..late(limit) };
        let session = runtime.block_on(awaited(connecting, limit, too_late, &is_awaited))?;
        Ok(Self { session, runtime, is_awaited })
    }

    /// All rows of a statement as texts, page by page; none where it gives none.
    ///
    /// # Errors
    /// The server refuses it, the connection is lost, the answer takes longer than `limit`, or nobody waits for it any more.
    pub fn rows(&mut self, text: &str, limit: Duration) -> Result<Texts, Failure> {
        let Self { session, runtime, is_awaited } = self;
        runtime.block_on(awaited(session.rows(text), limit, late(limit), is_awaited))
    }

    /// Writes all rows that `select` gives with `insert`, whose parameters are the same columns in the same order; how many.
    ///
    /// # Errors
    /// As `rows`; some rows may have been written.
    pub fn copy(&mut self, select: &str, insert: &str, limit: Duration) -> Result<u64, Failure> {
        let Self { session, runtime, is_awaited } = self;
        runtime.block_on(awaited(session.copy(select, insert), limit, late(limit), is_awaited))
    }

    /// Says goodbye.
    pub fn close(self) {
        let Self { session, runtime, .. } = self;
        runtime.block_on(session.close());
    }
}

/// What comes of `work`; `too_late` where that takes longer than `limit`, and another failure when nobody waits for it any more.
async fn awaited<T>(
    work: impl Future<Output = Result<T, Failure>>,
    limit: Duration,
    too_late: Failure,
    is_awaited: &IsAwaited,
) -> Result<T, Failure> {
    let mut work = pin!(timeout(limit, work));
    loop {
        match timeout(SLICE, work.as_mut()).await {
            Ok(ended) => return ended.unwrap_or(Err(too_late)),
            Err(_) if is_awaited() => {}
            Err(_) => return Err(Failure::without_code(ErrorClass::Other, "nobody waits for the answer any more")),
        }
    }
}

fn late(limit: Duration) -> Failure {
    Failure::without_code(ErrorClass::Timeout, format!("no answer within {} s", limit.as_secs_f64()))
}
