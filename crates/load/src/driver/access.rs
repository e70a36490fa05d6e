//! How a database server is reached and entered.

use std::fmt;

use super::tls::{TlsFiles, TlsMode};

/// How to reach and enter a database server.
#[derive(Clone, Default)]
pub struct Access {
    /// Host name, address, or, when it starts with "/", the Unix socket: PostgreSQL's directory, or MySQL's file.
    pub host: String,
    /// TCP port; names PostgreSQL's socket, too.
    pub port: u16,
    /// User, or role.
    pub user: String,
    /// Database; MySQL chooses none when it is empty.
    pub database: String,
    /// Password, for servers that ask for one.
    pub password: Option<String>,
    /// How PostgreSQL shows the connections (`pg_stat_activity`).
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

/// Whether a session setting can be sent, or what is wrong with it.
pub(super) fn check_setting(name: &str, value: &str) -> Result<(), String> {
    let is_word = |part: &str| {
        part.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
            && part.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
    };
    if !name.split('.').all(is_word) {
        return Err(format!("settings: no setting can be named {name:?}"));
    }
    if value.contains('\0') {
        return Err(format!("settings: the value of {name} holds a NUL character"));
    }
    Ok(())
}
