//! Cassandra's protocol, versions 4 and 5, spoken directly: one write and one read per step on the worker's own thread.
//!
//! A user's connection is to one node, whichever owns the rows. Statements are prepared once per connection, and again when the
//! server has forgotten them. The protocol cancels nothing: an answer that nobody waits for any more is skipped when it comes.

mod checksum;
mod console;
mod copy;
mod encode;
mod failure;
mod fields;
mod kind;
mod reply;
mod session;
mod wire;

use std::io;
use std::sync::Arc;
use std::time::Duration;

use self::encode::{Form, opcode};
use self::failure::{ServerError, lost};
use self::fields::Fields;
use self::wire::Wire;
use super::channel::Channel;
use super::socket::Address;
use super::tls::{Tls, TlsMode};
use super::{Driver, Failure, refused, unprepared};
use crate::sql::Sql;

pub use self::console::CqlConsole;
pub use self::session::{CqlSession, Texts};
pub use super::access::Access;

const VERSIONS: [u8; 2] = [5, 4];

/// The driver for Cassandra and what speaks its protocol.
#[derive(Clone)]
pub struct Cql {
    access: Arc<Access>,
    address: Address,
    tls: Option<Arc<Tls>>,
    statements: Arc<[String]>,
    consistency: u16,
    /// The newest version to speak.
    version: u8,
}

impl Cql {
    /// Checks the settings and reads the certificates; connects nothing yet. Every connection prepares `statements`, which
    /// [`crate::sql::SqlCommand::Prepared`] names by their index. Settings are `consistency` ("QUORUM") and `protocol`
    /// ("5": the newest version to speak).
    ///
    /// # Errors
    /// A text naming the setting that is unknown or has no such value, or the file without a usable certificate.
    pub fn new(access: Access, statements: Arc<[String]>) -> Result<Self, String> {
        let (mut level, mut version) = (encode::consistency("QUORUM"), VERSIONS.first().copied());
        for (name, value) in &access.settings {
            match name.as_str() {
                "consistency" => level = encode::consistency(value),
                "protocol" => version = VERSIONS.into_iter().find(|known| known.to_string() == *value),
                _ => return Err(format!("settings: no setting can be named {name:?}")),
            }
            if level.is_none() || version.is_none() {
                return Err(format!("settings: {name} cannot be {value:?}"));
            }
        }
        if access.tls == TlsMode::Prefer {
            return Err("tls: such servers cannot be asked whether they encrypt: use disable or require".to_owned());
        }
        let tls = Tls::new(access.tls, &access.tls_files)?.map(Arc::new);
        let address = Address::Tcp(access.host.clone(), access.port);
        let (consistency, version) = (level.unwrap_or_default(), version.unwrap_or_default());
        Ok(Self { access: Arc::new(access), address, tls, statements, consistency, version })
    }

    /// A connection for a few questions, for a thread that may wait.
    ///
    /// # Errors
    /// The server does not let us in, or not within `limit`.
    pub fn console(&self, limit: Duration) -> Result<CqlConsole, Failure> {
        CqlConsole::open(self.connect(), limit)
    }

    async fn channel(&self) -> Result<Channel, Failure> {
        let cannot = |error: io::Error| Failure::lost(&format!("cannot connect to {}", self.address), &error);
        let socket = self.address.open().await.map_err(cannot)?;
        Ok(match &self.tls {
            None => Channel::Plain(socket),
            Some(tls) => Channel::Tls(Box::new(tls.wrap(&self.access.host, socket).await.map_err(cannot)?)),
        })
    }

    /// A connection that the server has let in, in the newest version that both speak.
    async fn enter(&self) -> Result<Wire<Channel>, Failure> {
        for version in VERSIONS.into_iter().filter(|version| *version <= self.version) {
            let mut wire = Wire::new(self.channel().await?, version);
            if self.start(&mut wire).await? {
                return Ok(wire);
            }
        }
        Err(Failure::protocol("the server speaks none of the protocol's versions 4 and 5"))
    }

    /// Says hello; `false` where the server does not speak this version.
    async fn start(&self, wire: &mut Wire<Channel>) -> Result<bool, Failure> {
        let lost = |error: io::Error| lost("opening the connection", &error);
        encode::startup(wire.begin(opcode::STARTUP, 0));
        loop {
            wire.finish();
            wire.send().await.map_err(lost)?;
            let message = wire.next().await.map_err(lost)?;
            let body = wire.body(&message).map_err(lost)?;
            match message.opcode {
                opcode::ERROR => {
                    let error = ServerError::read(body);
                    let is_version = error.is_fatal() && message.version != wire.version;
                    return if is_version { Ok(false) } else { Err(error.failure) };
                }
                opcode::READY | opcode::AUTH_SUCCESS => {
                    wire.is_framed = wire.version >= 5;
                    return Ok(true);
                }
                opcode::AUTHENTICATE => {
                    let name = Fields(body).text().unwrap_or_default().to_owned();
                    let Some(password) = &self.access.password else {
                        let words = format!("the server asks for a password ({name}), and none is given");
                        return Err(Failure::without_code(super::ErrorClass::Permission, words));
                    };
                    wire.is_framed = wire.version >= 5;
                    encode::plain(&self.access.user, password, wire.begin(opcode::AUTH_RESPONSE, 0));
                }
                other => return Err(Failure::protocol(format!("an answer of kind {other} to a greeting"))),
            }
        }
    }
}

impl Driver for Cql {
    type Protocol = Sql;
    type Session = CqlSession;

    async fn connect(&self) -> Result<CqlSession, Failure> {
        let wire = self.enter().await.map_err(refused)?;
        let form = Form { version: wire.version, consistency: self.consistency };
        let mut session = CqlSession::new(wire, form, Arc::clone(&self.statements));
        if !self.access.database.is_empty() {
            let name = self.access.database.replace('"', "\"\"");
            session.execute(&format!("USE \"{name}\"")).await.map_err(refused)?;
        }
        for index in 0..self.statements.len() {
            session.prepare(index).await.map_err(unprepared)?;
        }
        Ok(session)
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
        assert_eq!(refusal(with("timeout", "3")), "settings: no setting can be named \"timeout\"");
        let access = Access { tls: TlsMode::Prefer, ..Access::default() };
        assert_eq!(refusal(access), "tls: such servers cannot be asked whether they encrypt: use disable or require");
    }
}
