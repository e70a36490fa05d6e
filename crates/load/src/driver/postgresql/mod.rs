//! PostgreSQL, spoken directly: one write and one read per step on the worker's own thread, frames read in place.
//!
//! Statements are prepared once per connection; nothing of an answer is decoded but what the request asks for.

mod auth;
mod cancel;
mod encode;
mod failure;
mod reply;
mod session;
mod stream;
mod wire;

use std::sync::Arc;

use self::stream::Door;
use self::wire::Wire;
use super::access::check_setting;
use super::socket::Address;
use super::tls::Tls;
use super::{Driver, Failure, refused, unprepared};

pub use self::cancel::PostgresCanceller;
pub use self::session::PostgresSession;
pub use super::access::Access;
pub use super::tls::TlsMode;

use crate::sql::Sql;

/// The PostgreSQL driver.
#[derive(Clone)]
pub struct Postgres {
    access: Arc<Access>,
    door: Arc<Door>,
    /// One text that makes all settings; empty without any.
    settings: Arc<str>,
    statements: Arc<[String]>,
}

impl Postgres {
    /// Checks the settings' names and reads the certificates; connects nothing yet. Every connection prepares
    /// `statements`, which [`crate::sql::SqlCommand::Prepared`] names by their index.
    ///
    /// # Errors
    /// A text naming the setting whose name or value cannot be sent, or the file without a usable certificate.
    pub fn new(access: Access, statements: Arc<[String]>) -> Result<Self, String> {
        let settings = access.settings.iter().map(|(name, value)| set_statement(name, value));
        let settings: String = settings.collect::<Result<_, _>>()?;
        let tls = Tls::new(access.tls, &access.tls_files)?;
        let door = Arc::new(Door { address: Address::within(&access.host, access.port), tls });
        Ok(Self { access: Arc::new(access), door, settings: settings.into(), statements })
    }
}

impl Driver for Postgres {
    type Protocol = Sql;
    type Session = PostgresSession;

    async fn connect(&self) -> Result<PostgresSession, Failure> {
        let stream = self.door.open().await?;
        let end_point = stream.end_point();
        let mut wire = Wire::new(stream);
        let key = auth::enter(&mut wire, &self.access, end_point).await.map_err(refused)?;
        let mut session = PostgresSession::new(wire, PostgresCanceller::new(Arc::clone(&self.door), key));
        if !self.settings.is_empty() {
            session.execute(&self.settings).await.map_err(refused)?;
        }
        for statement in self.statements.iter() {
            session.prepare(statement).await.map_err(unprepared)?;
        }
        Ok(session)
    }
}

/// `set_config` and not SET, because it takes lists (`search_path`) as the configuration file writes them.
fn set_statement(name: &str, value: &str) -> Result<String, String> {
    check_setting(name, value)?;
    let value = value.replace('\\', r"\\").replace('\'', "''");
    Ok(format!("SELECT pg_catalog.set_config('{name}', E'{value}', false);"))
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;
    use crate::driver::ErrorClass;

    /// What becomes of a connection whose server says `code` against the only statement.
    async fn unprepared_with(code: &str) -> ErrorClass {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let access = Access { host: "127.0.0.1".to_owned(), port, ..Access::default() };
        let driver = Postgres::new(access, Arc::new(["SELECT 1".to_owned()])).expect("sound");
        let serving = async {
            let (mut stream, _) = listener.accept().await.expect("a client");
            let mut asked = [0; 1024];
            assert!(stream.read(&mut asked).await.expect("a greeting") > 0);
            stream.write_all(b"R\0\0\0\x08\0\0\0\0Z\0\0\0\x05I").await.expect("room");
            assert!(stream.read(&mut asked).await.expect("a statement") > 0);
            let error = format!("E\0\0\0\x17SERROR\0C{code}\0Mno\0\0Z\0\0\0\x05I");
            stream.write_all(error.as_bytes()).await.expect("room");
        };
        let (connected, ()) = tokio::join!(driver.connect(), serving);
        connected.err().expect("refused").class
    }

    #[tokio::test]
    async fn a_server_that_cannot_prepare_now_does_not_make_the_statement_a_wrong_one() {
        for (code, class) in [
            ("42P01", ErrorClass::Statement),
            ("42501", ErrorClass::Statement),
            ("XX000", ErrorClass::Statement),
            ("53200", ErrorClass::Resource),
            ("55P03", ErrorClass::Timeout),
        ] {
            assert_eq!(unprepared_with(code).await, class, "{code}");
        }
    }

    #[test]
    fn settings_are_quoted() {
        assert_eq!(
            set_statement("search_path", r"a'; DROP TABLE b; --\").expect("a legal value"),
            r"SELECT pg_catalog.set_config('search_path', E'a''; DROP TABLE b; --\\', false);"
        );
        assert!(set_statement("auto_explain.log_analyze", "on").is_ok());
    }

    #[test]
    fn names_that_are_no_settings_are_refused() {
        for name in ["", "a b", "x'", "1x", "a.", "work_mem=1"] {
            let text = set_statement(name, "1").expect_err("an illegal name");
            assert!(text.contains("no setting can be named"), "{text}");
        }
    }

    #[test]
    fn the_password_is_not_shown() {
        let access = Access { user: "me".to_owned(), password: Some("secret".to_owned()), ..Access::default() };
        assert_eq!(format!("{access:?}"), "Access(me@:0/, tls Disable)");
    }
}
