//! Cassandra's protocol, versions 4 and 5, spoken directly: one write and one read per step on the worker's own thread.
//!
//! A node that is alone has one connection for each user. Of a ring each user has one to each node, and sends a prepared
//! statement whose key is known to a node that has the row. Statements are prepared once per connection, and again when the
//! server has forgotten them. The protocol cancels nothing: an answer that nobody waits for any more is skipped when it comes.

mod checksum;
mod console;
mod copy;
mod encode;
mod entry;
mod failure;
mod fields;
mod kind;
mod links;
mod murmur3;
mod number;
mod placement;
mod reply;
mod ring;
mod route;
mod session;
mod wire;

use std::io;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use tokio::runtime::Builder;
use tokio::sync::OnceCell;
use tokio::time::timeout;

use self::entry::{Entry, VERSIONS};
use self::ring::{Home, Ring, Said};
use super::socket::Address;
use super::tls::{Tls, TlsMode};
use super::{Driver, ErrorClass, Failure};
use crate::sql::Sql;

pub use self::console::{CqlConsole, IsAwaited};
pub use self::links::RingSession;
pub use self::session::{CqlSession, Texts};
pub use super::access::Access;

/// The driver for Cassandra and what speaks its protocol.
#[derive(Clone)]
pub struct Cql {
    entry: Arc<Entry>,
    address: Address,
    is_token_aware: bool,
    /// Learnt once for all users of a load.
    ring: Arc<OnceCell<Arc<Ring>>>,
}

impl Cql {
    /// Checks the settings and reads the certificates; connects nothing yet. Every connection prepares `statements`, which
    /// [`crate::sql::SqlCommand::Prepared`] names by their index. Settings are `consistency` ("QUORUM"), `protocol`
    /// ("5": the newest version to speak) and `token_aware` ("yes": a request goes to a node that has its row).
    ///
    /// # Errors
    /// A text naming the setting that is unknown or has no such value, or the file without a usable certificate.
    pub fn new(access: Access, statements: Arc<[String]>) -> Result<Self, String> {
        let (mut level, mut version) = (encode::consistency("QUORUM"), VERSIONS.first().copied());
        let mut is_token_aware = Some(true);
        for (name, value) in &access.settings {
            match name.as_str() {
                "consistency" => level = encode::consistency(value),
                "protocol" => version = VERSIONS.into_iter().find(|known| known.to_string() == *value),
                "token_aware" => is_token_aware = yes_or_no(value),
                _ => return Err(format!("settings: no setting can be named {name:?}")),
            }
            if level.is_none() || version.is_none() || is_token_aware.is_none() {
                return Err(format!("settings: {name} cannot be {value:?}"));
            }
        }
        if access.tls == TlsMode::Prefer {
            return Err("tls: such servers cannot be asked whether they encrypt: use disable or require".to_owned());
        }
        let tls = Tls::new(access.tls, &access.tls_files)?;
        let address = Address::tcp(&access.host, access.port);
        let (consistency, version) = (level.unwrap_or_default(), version.unwrap_or_default());
        let entry = Arc::new(Entry { access, tls, statements, consistency, version });
        Ok(Self { entry, address, is_token_aware: is_token_aware.unwrap_or_default(), ring: Arc::default() })
    }

    /// A connection for a few questions, for a thread that may wait.
    ///
    /// # Errors
    /// The server does not let us in, or not within `limit`.
    pub fn console(&self, limit: Duration) -> Result<CqlConsole, Failure> {
        self.console_while(limit, Box::new(|| true))
    }

    /// The same for a thread that may be called away: while it waits, now and later, `is_awaited` says whether it still does.
    ///
    /// # Errors
    /// As `console`, or nobody waits any more.
    pub fn console_while(&self, limit: Duration, is_awaited: IsAwaited) -> Result<CqlConsole, Failure> {
        CqlConsole::open(self.entry.open(&self.address), limit, is_awaited)
    }

    /// The nodes of the ring as a load would use them now: each with what keeps it from that, which is empty for most. For a
    /// thread that may wait.
    ///
    /// # Errors
    /// The node of the url does not let us in, or not within `limit`.
    pub fn nodes(&self, limit: Duration) -> Result<Vec<(String, String)>, Failure> {
        let system = |error: io::Error| Failure::without_code(ErrorClass::Other, error.to_string());
        let runtime = Builder::new_current_thread().enable_all().build().map_err(system)?;
        let looking = async { timeout(limit, self.look()).await };
        runtime.block_on(looking).unwrap_or_else(|_| {
            let words = format!("no answer within {} s", limit.as_secs_f64());
            Err(Failure::without_code(ErrorClass::Connect, words))
        })
    }

    async fn look(&self) -> Result<Vec<(String, String)>, Failure> {
        let mut home = self.entry.open(&self.address).await?;
        let ring = self.learn(&mut home).await?;
        let others = ring.nodes.iter().skip(1).map(|node| self.entry.open_soon(&node.address));
        let entered = std::iter::once(Ok(home)).chain(join_all(others).await);
        let used = ring.nodes.iter().zip(entered).map(|(node, entered)| {
            (node.address.to_string(), entered.err().map(|failure| failure.to_string()).unwrap_or_default())
        });
        Ok(used.chain(ring.left_out.iter().cloned()).collect())
    }

    /// What the node of a connection knows of its ring.
    async fn learn(&self, session: &mut CqlSession) -> Result<Arc<Ring>, Failure> {
        let said = if self.is_token_aware { Said::ask(session).await? } else { Said::default() };
        let (address, port, ip) = (self.address.clone(), self.entry.access.port, session.peer());
        Ok(Arc::new(Ring::of(&said, &Home { address, port, ip })))
    }
}

impl Driver for Cql {
    type Protocol = Sql;
    type Session = RingSession;

    async fn connect(&self) -> Result<RingSession, Failure> {
        if let Some(ring) = self.ring.get().filter(|ring| ring.has_choice()) {
            return RingSession::open(&self.entry, ring, None).await;
        }
        let mut home = self.entry.open(&self.address).await?;
        let ring = self.ring.get_or_try_init(|| self.learn(&mut home)).await?;
        if ring.has_choice() {
            RingSession::open(&self.entry, ring, Some(home)).await
        } else {
            Ok(RingSession::alone(home))
        }
    }
}

fn yes_or_no(text: &str) -> Option<bool> {
    match text {
        "yes" => Some(true),
        "no" => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(access: Access) -> String {
        Cql::new(access, Arc::new([])).err().expect("refused")
    }

    #[test]
    fn settings_that_are_none_are_refused() {
        let with = |name: &str, value: &str| Access {
            settings: vec![(name.to_owned(), value.to_owned())],
            ..Access::default()
        };
        assert_eq!(refusal(with("consistency", "MOST")), "settings: consistency cannot be \"MOST\"");
        assert_eq!(refusal(with("protocol", "3")), "settings: protocol cannot be \"3\"");
        assert_eq!(refusal(with("token_aware", "1")), "settings: token_aware cannot be \"1\"");
        assert_eq!(refusal(with("timeout", "3")), "settings: no setting can be named \"timeout\"");
        let access = Access { tls: TlsMode::Prefer, ..Access::default() };
        assert_eq!(refusal(access), "tls: such servers cannot be asked whether they encrypt: use disable or require");
    }
}
