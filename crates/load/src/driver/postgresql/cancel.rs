//! Cancelling what a connection runs, over a connection of its own as the protocol wants it.

use std::sync::Arc;

use postgres_protocol::message::frontend;

use super::auth::Key;
use super::stream::Door;
use super::wire::Wire;
use crate::driver::{Canceller, Failure};

/// Cancels what one connection runs.
#[derive(Clone)]
pub struct PostgresCanceller {
    door: Arc<Door>,
    key: Key,
}

impl PostgresCanceller {
    pub(super) fn new(door: Arc<Door>, key: Key) -> Self {
        Self { door, key }
    }
}

impl Canceller for PostgresCanceller {
    async fn cancel(&self) -> Result<(), Failure> {
        let mut wire = Wire::new(self.door.open().await?);
        frontend::cancel_request(self.key.process, self.key.secret, &mut wire.out);
        let lost = |error| Failure::lost("the cancel request", &error);
        wire.send().await.map_err(lost)?;
        // The server closes the connection after it has signalled the backend; until then the signal could still come late
        // and hit the next operation.
        wire.wait_for_end().await.map_err(lost)
    }
}
