//! Cancelling what a connection runs: KILL QUERY on a connection of its own.

use std::sync::Arc;

use super::session::MysqlSession;
use super::{Access, Door, auth};
use crate::driver::{Canceller, Failure, Session};

/// Cancels what one connection runs.
#[derive(Clone)]
pub struct MysqlCanceller {
    pub(super) access: Arc<Access>,
    pub(super) door: Arc<Door>,
    pub(super) thread: u32,
}

impl Canceller for MysqlCanceller {
    /// The server answers once it has marked the statement, and forgets the mark when that statement ends.
    async fn cancel(&self) -> Result<(), Failure> {
        let entered = auth::enter(&self.door, &self.access).await?;
        let mut session = MysqlSession::new(entered, self.clone());
        let killed = session.execute(&format!("KILL QUERY {}", self.thread)).await;
        session.close().await;
        killed
    }
}
