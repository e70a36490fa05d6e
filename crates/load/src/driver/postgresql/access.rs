//! How a server is reached and entered.

use std::fmt;

use crate::driver::tls::{TlsFiles, TlsMode};

/// How to reach and enter a PostgreSQL server.
#[derive(Clone, Default)]
pub struct Access {
    /// Host name, address, or the directory of the Unix socket when it starts with "/".
    pub host: String,
    /// TCP port; names the socket's file too.
    pub port: u16,
    /// Role.
    pub user: String,
    /// Database.
    pub database: String,
    /// Password, for servers that ask for one.
    pub password: Option<String>,
    /// Shown in `pg_stat_activity`.
    pub application_name: String,
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
