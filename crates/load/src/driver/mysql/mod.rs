//! MySQL and MariaDB, spoken directly: one write and one read per step on the worker's own thread, packets read in place.
//!
//! Statements are prepared once per connection; nothing of an answer is decoded but what the request asks for. Kept to what
//! both servers speak.

mod auth;
mod cancel;
mod door;
mod ed25519;
mod encode;
mod failure;
mod fields;
mod link;
mod reply;
mod row;
mod rsa;
mod session;
mod wire;

use std::sync::Arc;

use self::cancel::Killer;
use self::door::Door;
use self::link::Link;
use super::socket::Address;
use super::tls::Tls;
use super::{Driver, Failure, refused, unprepared};
use crate::sql::Sql;

pub use self::cancel::MysqlCanceller;
pub use self::session::MysqlSession;
pub use super::access::Access;

/// The MySQL and MariaDB driver.
#[derive(Clone)]
pub struct Mysql {
    access: Arc<Access>,
    door: Arc<Door>,
    killer: Arc<Killer>,
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
        let tls = Tls::new(access.tls, &access.tls_files)?;
        let address = Address::new(&access.host, access.port);
        let (access, door) = (Arc::new(access), Arc::new(Door { address, tls }));
        let killer = Arc::new(Killer::new(Arc::clone(&access), Arc::clone(&door)));
        Ok(Self { access, door, killer, settings, statements })
    }
}

impl Driver for Mysql {
    type Protocol = Sql;
    type Session = MysqlSession;

    fn for_worker(&self) -> Self {
        let killer = Killer::new(Arc::clone(&self.access), Arc::clone(&self.door));
        Self { killer: Arc::new(killer), ..self.clone() }
    }

    async fn connect(&self) -> Result<MysqlSession, Failure> {
        let link = Link::open(&self.door, &self.access).await.map_err(refused)?;
        let canceller = MysqlCanceller { killer: Arc::clone(&self.killer), thread: link.thread };
        let mut session = MysqlSession::new(link, canceller);
        for setting in self.settings.iter() {
            session.execute(setting).await.map_err(refused)?;
        }
        for statement in self.statements.iter() {
            session.prepare(statement).await.map_err(unprepared)?;
        }
        Ok(session)
    }

    async fn attend(&self) {
        self.killer.open().await;
    }

    async fn leave(&self) {
        self.killer.close().await;
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
        assert_eq!(driver.door.address, Address::Unix("/run/db.sock".into()));
    }
}
