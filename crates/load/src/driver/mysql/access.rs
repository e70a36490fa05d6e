//! How a server is reached and entered.

use std::fmt;

use crate::driver::socket::Address;
use crate::driver::tls::{Tls, TlsFiles, TlsMode};

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
    /// Whom to trust, and what to show.
    pub tls_files: TlsFiles,
}

impl fmt::Debug for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { host, port, user, database, tls, .. } = self;
        write!(f, "Access({user}@{host}:{port}/{database}, tls {tls:?})")
    }
}

/// A server's address and how its connections are encrypted.
pub(super) struct Door {
    pub(super) address: Address,
    /// `None`: never encrypted.
    pub(super) tls: Option<Tls>,
}

impl Door {
    /// Whether the connection does not leave the machine's kernel.
    pub(super) fn is_local(&self) -> bool {
        matches!(self.address, Address::Unix(_))
    }

    pub(super) fn host(&self) -> &str {
        match &self.address {
            Address::Unix(_) => "",
            Address::Tcp(host, _) => host,
        }
    }
}
