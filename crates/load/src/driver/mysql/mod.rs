//! MySQL and MariaDB, spoken directly: one write and one read per step on the worker's own thread, packets read in place.
//!
//! Statements are prepared once per connection; nothing of an answer is decoded but what the request asks for. Kept to what
//! both servers speak; tried with MariaDB.

mod auth;
mod cancel;
mod encode;
mod failure;
mod fields;
mod reply;
mod row;
mod session;
mod wire;

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use self::auth::{Greeting, capability};
use super::socket::Address;
use super::tls::{Tls, TlsMode};
use super::{Driver, ErrorClass, Failure, refused, unprepared};
use crate::sql::SqlRequest;

pub use self::cancel::MysqlCanceller;
pub use self::session::MysqlSession;

/// How to reach and enter a MySQL or MariaDB server.
#[derive(Clone, Default)]
pub struct Access {
    /// Host name, address, or the file of the Unix socket when it starts with "/".
    pub host: String,
    /// TCP port.
    pub port: u16,
    /// User.
    pub user: String,
    /// Database; none is chosen when it is empty.
    pub database: String,
    /// Password, for users that have one.
    pub password: Option<String>,
    /// Session settings as (name, value), set on every connection.
    pub settings: Vec<(String, String)>,
    /// Whether connections over TCP are encrypted.
    pub tls: TlsMode,
    /// A PEM file of the authorities to trust with [`TlsMode::VerifyFull`]; the system's without it.
    pub root_certificates: Option<PathBuf>,
}

impl fmt::Debug for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { host, port, user, database, tls, .. } = self;
        write!(f, "Access({user}@{host}:{port}/{database}, tls {tls:?})")
    }
}

/// A server's address and how its connections are encrypted.
struct Door {
    address: Address,
    /// `None`: never encrypted.
    tls: Option<Tls>,
}

impl Door {
    /// Whether the connection does not leave the machine's kernel.
    fn is_local(&self) -> bool {
        matches!(self.address, Address::Unix(_))
    }

    fn host(&self) -> &str {
        match &self.address {
            Address::Unix(_) => "",
            Address::Tcp(host, _) => host,
        }
    }

    fn wants_tls(&self, greeting: &Greeting, context: &str) -> Result<bool, Failure> {
        let Some(tls) = self.tls.as_ref().filter(|_| !self.is_local()) else { return Ok(false) };
        let is_offered = greeting.capabilities & capability::SSL != 0;
        if tls.is_required && !is_offered {
            let message = format!("{context}: the server does not offer TLS, which is required");
            return Err(Failure::without_code(ErrorClass::Connect, message));
        }
        Ok(is_offered)
    }
}

/// The MySQL and MariaDB driver.
#[derive(Clone)]
pub struct Mysql {
    access: Arc<Access>,
    door: Arc<Door>,
    settings: Arc<[String]>,
    statements: Arc<[String]>,
}

impl Mysql {
    /// Checks the settings' names and reads the certificates; connects nothing yet. Every connection prepares
    /// `statements`, which [`crate::sql::SqlCommand::Prepared`] names by their index.
    ///
    /// # Errors
    /// A text naming the setting whose name or value cannot be sent, the name that holds a NUL character, or the file
    /// without a usable certificate.
    pub fn new(access: Access, statements: Arc<[String]>) -> Result<Self, String> {
        for (what, name) in [("user", &access.user), ("database", &access.database)] {
            if name.contains('\0') {
                return Err(format!("{what}: the name holds a NUL character"));
            }
        }
        let settings = access.settings.iter().map(|(name, value)| encode::set_statement(name, value));
        let settings = settings.collect::<Result<_, _>>()?;
        let tls = Tls::new(access.tls, access.root_certificates.as_deref())?;
        let address = if access.host.starts_with('/') {
            Address::Unix(PathBuf::from(&access.host))
        } else {
            Address::Tcp(access.host.clone(), access.port)
        };
        Ok(Self { access: Arc::new(access), door: Arc::new(Door { address, tls }), settings, statements })
    }
}

impl Driver for Mysql {
    type Request = SqlRequest;
    type Session = MysqlSession;

    async fn connect(&self) -> Result<MysqlSession, Failure> {
        let entered = auth::enter(&self.door, &self.access).await.map_err(refused)?;
        let (access, door) = (Arc::clone(&self.access), Arc::clone(&self.door));
        let canceller = MysqlCanceller { access, door, thread: entered.thread };
        let mut session = MysqlSession::new(entered, canceller);
        for setting in self.settings.iter() {
            session.execute(setting).await.map_err(refused)?;
        }
        for statement in self.statements.iter() {
            session.prepare(statement).await.map_err(unprepared)?;
        }
        Ok(session)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_cannot_be_sent_are_refused() {
        let refused = |access| Mysql::new(access, Arc::new([])).err().expect("refused");
        let access = Access { user: "a\0b".to_owned(), ..Access::default() };
        assert_eq!(refused(access), "user: the name holds a NUL character");
        let access = Access { settings: vec![("a b".to_owned(), "1".to_owned())], ..Access::default() };
        assert_eq!(refused(access), "settings: no setting can be named \"a b\"");
    }

    #[test]
    fn a_password_is_not_shown() {
        let access = Access { password: Some("secret".to_owned()), user: "me".to_owned(), ..Access::default() };
        assert_eq!(format!("{access:?}"), "Access(me@:0/, tls Disable)");
    }

    #[test]
    fn a_host_with_a_slash_is_a_socket() {
        let access = Access { host: "/run/db.sock".to_owned(), ..Access::default() };
        let driver = Mysql::new(access, Arc::new([])).expect("sound");
        assert_eq!(driver.door.address, Address::Unix(PathBuf::from("/run/db.sock")));
    }
}
