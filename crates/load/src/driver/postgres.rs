//! PostgreSQL over its simple-query protocol: text in, rows counted, nothing decoded.

use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::Arc;

use bytes::BytesMut;
use futures_util::StreamExt;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio::task::JoinHandle;
use tokio_postgres::config::SslMode;
use tokio_postgres::error::Severity;
use tokio_postgres::types::{Format, IsNull, ToSql, Type, to_sql_checked};
use tokio_postgres::{CancelToken, Client, NoTls, SimpleQueryMessage, Statement};

use super::{Answer, Canceller, Driver, ErrorClass, Failure, Session};
use crate::sql::{Param, SqlCommand, SqlRequest};

/// How to reach and enter a PostgreSQL server.
#[derive(Clone, Debug)]
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
}

/// The PostgreSQL driver.
#[derive(Clone, Debug)]
pub struct Postgres {
    config: Arc<tokio_postgres::Config>,
    address: Arc<Address>,
    settings: Arc<[String]>,
    statements: Arc<[String]>,
}

impl Postgres {
    /// Checks the settings' names; connects nothing yet. `statements` are prepared on every connection.
    ///
    /// # Errors
    /// A text naming the setting whose name or value cannot be sent.
    pub fn new(access: &Access, statements: Vec<String>) -> Result<Self, String> {
        let settings =
            access.settings.iter().map(|(name, value)| set_statement(name, value)).collect::<Result<_, _>>()?;
        let mut config = tokio_postgres::Config::new();
        config
            .host(&access.host)
            .port(access.port)
            .user(&access.user)
            .dbname(&access.database)
            .application_name(&access.application_name)
            .ssl_mode(SslMode::Disable);
        if let Some(password) = &access.password {
            config.password(password);
        }
        let address = Arc::new(Address::new(&access.host, access.port));
        Ok(Self { config: Arc::new(config), address, settings, statements: statements.into() })
    }
}

impl Driver for Postgres {
    type Request = SqlRequest;
    type Session = PostgresSession;

    async fn connect(&self) -> Result<PostgresSession, Failure> {
        let (client, connection) = self.config.connect(NoTls).await.map_err(|error| describe(&error))?;
        let task = tokio::task::spawn_local(async move {
            // Its error reaches whoever waits for an answer; there is nobody else to tell.
            let _ = connection.await;
        });
        let token = client.cancel_token();
        let address = Arc::clone(&self.address);
        let prepared = Vec::with_capacity(self.statements.len());
        let mut session =
            PostgresSession { client, connection: task, token, address, prepared, is_begun: false, has_fatal: false };
        for statement in self.settings.iter() {
            session.execute(statement).await?;
        }
        for (i, text) in self.statements.iter().enumerate() {
            let unprepared = |error| {
                let Failure { code, message, .. } = describe(&error);
                Failure { class: ErrorClass::Statement, code, message: format!("{message} (statement {i})") }
            };
            session.prepared.push(session.client.prepare(text).await.map_err(unprepared)?);
        }
        Ok(session)
    }
}

/// One connection to a PostgreSQL server.
pub struct PostgresSession {
    client: Client,
    connection: JoinHandle<()>,
    token: CancelToken,
    address: Arc<Address>,
    prepared: Vec<Statement>,
    is_begun: bool,
    has_fatal: bool,
}

impl PostgresSession {
    async fn execute(&mut self, statement: &str) -> Result<u64, Failure> {
        let result = count_rows(&self.client, statement).await;
        self.judge(result)
    }

    async fn execute_prepared(&mut self, number: u32, request: &SqlRequest) -> Result<u64, Failure> {
        let texts: Vec<ParamText> = request.params.iter().map(ParamText::new).collect();
        let params: Vec<&(dyn ToSql + Sync)> = texts.iter().map(|text| text as _).collect();
        let result = self.client.execute(&self.prepared[number as usize], &params).await;
        self.judge(result)
    }

    fn judge(&mut self, result: Result<u64, tokio_postgres::Error>) -> Result<u64, Failure> {
        result.map_err(|error| {
            self.has_fatal |= is_fatal(&error);
            describe(&error)
        })
    }
}

/// A parameter in the text form, which the server reads for every type.
#[derive(Debug)]
struct ParamText(Option<String>);

impl ParamText {
    fn new(param: Param<'_>) -> Self {
        Self(match param {
            Param::Null => None,
            Param::Int(value) => Some(value.to_string()),
            Param::Float(value) => Some(value.to_string()),
            Param::Text(text) => Some(text.to_owned()),
        })
    }
}

impl ToSql for ParamText {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn std::error::Error + Sync + Send>> {
        let Some(text) = &self.0 else { return Ok(IsNull::Yes) };
        out.extend_from_slice(text.as_bytes());
        Ok(IsNull::No)
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    fn encode_format(&self, _: &Type) -> Format {
        Format::Text
    }

    to_sql_checked!();
}

impl Session for PostgresSession {
    type Request = SqlRequest;
    type Canceller = PostgresCanceller;

    async fn run(&mut self, request: &SqlRequest) -> Result<Answer, Failure> {
        let rows = match &request.command {
            SqlCommand::Begin => {
                self.is_begun = true;
                self.execute("BEGIN").await?
            }
            SqlCommand::Commit => {
                let rows = self.execute("COMMIT").await?;
                self.is_begun = false;
                rows
            }
            SqlCommand::Rollback => {
                let rows = self.execute("ROLLBACK").await?;
                self.is_begun = false;
                rows
            }
            SqlCommand::Prepared(number) => self.execute_prepared(*number, request).await?,
            SqlCommand::Text(text) => self.execute(text).await?,
        };
        Ok(Answer { rows, first_row: None })
    }

    async fn reset(&mut self) -> Result<(), Failure> {
        if std::mem::take(&mut self.is_begun) {
            self.execute("ROLLBACK").await?;
        }
        Ok(())
    }

    fn canceller(&self) -> PostgresCanceller {
        PostgresCanceller { token: self.token.clone(), address: Arc::clone(&self.address) }
    }

    fn is_lost(&self) -> bool {
        self.has_fatal || self.client.is_closed()
    }

    async fn close(self) {
        // The connection's task sends Terminate once its client is gone.
        drop(self.client);
        let _ = self.connection.await;
    }
}

/// Cancels what one connection runs, over a connection of its own as the protocol wants it.
pub struct PostgresCanceller {
    token: CancelToken,
    address: Arc<Address>,
}

impl Canceller for PostgresCanceller {
    async fn cancel(&self) -> Result<(), Failure> {
        match &*self.address {
            Address::Unix(path) => send_cancel(&self.token, UnixStream::connect(path).await).await,
            Address::Tcp(host, port) => {
                send_cancel(&self.token, TcpStream::connect((host.as_str(), *port)).await).await
            }
        }
    }
}

#[derive(Debug)]
enum Address {
    Unix(PathBuf),
    Tcp(String, u16),
}

impl Address {
    fn new(host: &str, port: u16) -> Self {
        if host.starts_with('/') {
            Self::Unix(Path::new(host).join(format!(".s.PGSQL.{port}")))
        } else {
            Self::Tcp(host.to_owned(), port)
        }
    }
}

async fn send_cancel<S>(token: &CancelToken, stream: std::io::Result<S>) -> Result<(), Failure>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let io_failure = |error: std::io::Error| Failure::without_code(ErrorClass::Connect, error.to_string());
    let mut stream = stream.map_err(io_failure)?;
    token.cancel_query_raw(&mut stream, NoTls).await.map_err(|error| describe(&error))?;
    // The server closes the connection after it has signalled the backend; until then the signal could still come late
    // and hit the next operation.
    let mut rest = [0_u8; 1];
    stream.read(&mut rest).await.map(|_| ()).map_err(io_failure)
}

async fn count_rows(client: &Client, statement: &str) -> Result<u64, tokio_postgres::Error> {
    let mut messages = pin!(client.simple_query_raw(statement).await?);
    let mut rows = 0;
    while let Some(message) = messages.next().await {
        if let SimpleQueryMessage::CommandComplete(n_rows) = message? {
            rows += n_rows;
        }
    }
    Ok(rows)
}

/// Whether the connection is of no use after this error: the server ended it, or spoke of something else than an error of
/// the statement (a COPY that waits for data, a broken message, a closed socket).
fn is_fatal(error: &tokio_postgres::Error) -> bool {
    let Some(db) = error.as_db_error() else { return true };
    matches!(db.parsed_severity(), Some(Severity::Fatal | Severity::Panic))
}

/// The server's code and words, or the whole chain of causes: the outermost text alone says only "db error".
fn describe(error: &tokio_postgres::Error) -> Failure {
    if let Some(db) = error.as_db_error() {
        return Failure {
            class: ErrorClass::Other,
            code: Some(db.code().code().to_owned()),
            message: db.message().to_owned(),
        };
    }
    let mut message = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        message = format!("{message}: {cause}");
        source = cause.source();
    }
    Failure::without_code(ErrorClass::Connect, message)
}

/// `set_config` and not SET, because it takes lists (`search_path`) as the configuration file writes them.
fn set_statement(name: &str, value: &str) -> Result<String, String> {
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
    let value = value.replace('\\', r"\\").replace('\'', "''");
    Ok(format!("SELECT pg_catalog.set_config('{name}', E'{value}', false)"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_quoted() {
        assert_eq!(
            set_statement("search_path", r"a'; DROP TABLE b; --\").expect("a legal value"),
            r"SELECT pg_catalog.set_config('search_path', E'a''; DROP TABLE b; --\\', false)"
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
    fn a_host_with_a_slash_is_a_socket_directory() {
        let Address::Unix(path) = Address::new("/run/db", 5433) else { panic!("no socket") };
        assert_eq!(path, Path::new("/run/db/.s.PGSQL.5433"));
        assert!(matches!(Address::new("::1", 5432), Address::Tcp(host, 5432) if host == "::1"));
    }
}
