//! Cancelling what a connection runs: KILL QUERY on another connection, which each worker keeps open for that.
//!
//! A server that has no connection left would refuse a new one just when a query must end.

use std::sync::Arc;

use tokio::sync::Mutex;

use super::door::Door;
use super::link::Link;
use crate::driver::access::Access;
use crate::driver::{Canceller, Failure};

/// The connection of one worker that says KILL for all its users; opened anew when it was lost.
pub(super) struct Killer {
    access: Arc<Access>,
    door: Arc<Door>,
    link: Mutex<Option<Link>>,
}

impl Killer {
    pub(super) fn new(access: Arc<Access>, door: Arc<Door>) -> Self {
        Self { access, door, link: Mutex::new(None) }
    }

    /// Opens the connection; one that cannot be had now is asked for again at the first cancel.
    pub(super) async fn open(&self) {
        let mut place = self.link.lock().await;
        if place.is_none() {
            *place = Link::open(&self.door, &self.access).await.ok();
        }
    }

    pub(super) async fn close(&self) {
        if let Some(link) = self.link.lock().await.take() {
            link.close().await;
        }
    }

    /// The server answers once it has marked the statement, and forgets the mark when that statement ends.
    async fn kill(&self, thread: u32) -> Result<(), Failure> {
        let text = format!("KILL QUERY {thread}");
        let mut place = self.link.lock().await;
        // While it is in use it is out of its place: if nobody waits for the answer any more, it must not be used again.
        if let Some(mut link) = place.take() {
            let killed = link.execute(&text).await;
            if !link.is_lost {
                *place = Some(link);
                return killed;
            }
        }
        let mut link = Link::open(&self.door, &self.access).await?;
        let killed = link.execute(&text).await;
        if !link.is_lost {
            *place = Some(link);
        }
        killed
    }
}

/// Cancels what one connection runs.
#[derive(Clone)]
pub struct MysqlCanceller {
    pub(super) killer: Arc<Killer>,
    pub(super) thread: u32,
}

impl Canceller for MysqlCanceller {
    async fn cancel(&self) -> Result<(), Failure> {
        self.killer.kill(self.thread).await
    }
}
