//! How a node is entered: a stream, plain or encrypted, the newest version that both speak, a password, and the statements prepared.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;

use super::encode::{self, Form, opcode};
use super::failure::{ServerError, lost};
use super::fields::Fields;
use super::session::CqlSession;
use super::wire::Wire;
use crate::driver::access::Access;
use crate::driver::channel::Channel;
use crate::driver::socket::Address;
use crate::driver::tls::Tls;
use crate::driver::{ErrorClass, Failure, refused, unprepared};

pub(super) const VERSIONS: [u8; 2] = [5, 4];
/// So long one of several nodes may take to let a user in: it keeps the others waiting.
const PATIENCE: Duration = Duration::from_secs(5);

/// The same for all nodes of a ring, whatever their addresses.
pub(super) struct Entry {
    pub(super) access: Access,
    pub(super) tls: Option<Tls>,
    pub(super) statements: Arc<[String]>,
    pub(super) consistency: u16,
    /// The newest version to speak.
    pub(super) version: u8,
}

impl Entry {
    /// A connection to one node, ready for requests.
    pub(super) async fn open(&self, address: &Address) -> Result<CqlSession, Failure> {
        let wire = self.enter(address).await.map_err(refused)?;
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

    /// The same of one of several nodes.
    pub(super) async fn open_soon(&self, address: &Address) -> Result<CqlSession, Failure> {
        let late = |_| {
            let words = format!("cannot connect to {address}: no answer within {} s", PATIENCE.as_secs_f64());
            Err(Failure::without_code(ErrorClass::Connect, words))
        };
        timeout(PATIENCE, self.open(address)).await.unwrap_or_else(late)
    }

    async fn channel(&self, address: &Address) -> Result<Channel, Failure> {
        let cannot = |error: io::Error| Failure::lost(&format!("cannot connect to {address}"), &error);
        Channel::open(address, self.tls.as_ref()).await.map_err(cannot)
    }

    /// A connection that the server has let in, in the newest version that both speak.
    async fn enter(&self, address: &Address) -> Result<Wire<Channel>, Failure> {
        for version in VERSIONS.into_iter().filter(|version| *version <= self.version) {
            let mut wire = Wire::new(self.channel(address).await?, version);
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
                        return Err(Failure::without_code(ErrorClass::Permission, words));
                    };
                    wire.is_framed = wire.version >= 5;
                    encode::plain(&self.access.user, password, wire.begin(opcode::AUTH_RESPONSE, 0));
                }
                other => return Err(Failure::protocol(format!("an answer of kind {other} to a greeting"))),
            }
        }
    }
}
