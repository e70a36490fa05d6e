//! The crates that others use, behind the engine's trait: as little around them as that needs.

use std::num::NonZeroUsize;
use std::sync::Arc;

use futures_util::{StreamExt, pin_mut};
use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Opts, OptsBuilder, Row, Statement};
use scylla::client::PoolSize;
use scylla::client::session_builder::SessionBuilder;
use scylla::statement::Consistency;
use scylla::statement::prepared::PreparedStatement;
use tokio::sync::OnceCell;
use tokio::task::JoinHandle;
use tokio_postgres::{Client, Config, NoTls};
use trimtab_load::driver::{Driver, ErrorClass, Failure, Session, Uncancellable};
use trimtab_load::sql::{Param, Sql, SqlAnswer, SqlRequest};

use crate::Place;

fn failure(error: &dyn std::error::Error) -> Failure {
    Failure::without_code(ErrorClass::Other, error.to_string())
}

fn key(request: &SqlRequest) -> i64 {
    match request.params.iter().next() {
        Some(Param::Int(key)) => key,
        _ => 0,
    }
}

/// As the own drivers do it.
fn judged(n_rows: u64, request: &SqlRequest) -> Result<u64, Failure> {
    match request.expect.rows {
        Some((low, high)) if !(low..=high).contains(&n_rows) => {
            Err(Failure::without_code(ErrorClass::Validation, format!("{n_rows} rows")))
        }
        _ => Ok(n_rows),
    }
}

#[derive(Clone)]
pub(crate) struct TokioPostgres {
    config: Config,
    statement: Arc<str>,
}

impl TokioPostgres {
    pub(crate) fn new(place: &Place, statement: String) -> Self {
        let mut config = Config::new();
        config.host(&place.host).port(place.port).user(&place.user).dbname(&place.database);
        if let Some(password) = &place.password {
            config.password(password);
        }
        Self { config, statement: statement.into() }
    }
}

pub(crate) struct PostgresSession {
    client: Client,
    statement: tokio_postgres::Statement,
    connection: JoinHandle<()>,
}

impl Driver for TokioPostgres {
    type Protocol = Sql;
    type Session = PostgresSession;

    async fn connect(&self) -> Result<PostgresSession, Failure> {
        let (client, connection) = self.config.connect(NoTls).await.map_err(|error| failure(&error))?;
        let connection = tokio::task::spawn_local(async move {
            // What goes wrong shows in the client's requests.
            let _ = connection.await;
        });
        let statement = client.prepare(&self.statement).await.map_err(|error| failure(&error))?;
        Ok(PostgresSession { client, statement, connection })
    }
}

impl Session for PostgresSession {
    type Protocol = Sql;
    type Canceller = Uncancellable;

    async fn run(&mut self, request: &SqlRequest, _: &mut SqlAnswer) -> Result<u64, Failure> {
        let rows = self.client.query_raw(&self.statement, [key(request)]).await.map_err(|error| failure(&error))?;
        pin_mut!(rows);
        let mut n_rows = 0;
        while let Some(row) = rows.next().await {
            row.map_err(|error| failure(&error))?;
            n_rows += 1;
        }
        judged(n_rows, request)
    }

    async fn reset(&mut self) -> Result<(), Failure> {
        Ok(())
    }

    fn canceller(&self) -> Option<Uncancellable> {
        None
    }

    fn is_lost(&self) -> bool {
        self.client.is_closed()
    }

    async fn close(self) {
        drop(self.client);
        let _ = self.connection.await;
    }
}

#[derive(Clone)]
pub(crate) struct MysqlAsync {
    options: Opts,
    statement: Arc<str>,
}

impl MysqlAsync {
    pub(crate) fn new(place: &Place, statement: String) -> Self {
        let options = OptsBuilder::default()
            .user(Some(&place.user))
            .pass(place.password.as_deref())
            .db_name(Some(&place.database))
            .prefer_socket(false);
        let options = match place.host.starts_with('/') {
            true => options.socket(Some(&place.host)),
            false => options.ip_or_hostname(&place.host).tcp_port(place.port),
        };
        Self { options: options.into(), statement: statement.into() }
    }
}

pub(crate) struct MysqlSession {
    connection: Conn,
    statement: Statement,
    is_lost: bool,
}

impl Driver for MysqlAsync {
    type Protocol = Sql;
    type Session = MysqlSession;

    async fn connect(&self) -> Result<MysqlSession, Failure> {
        let mut connection = Conn::new(self.options.clone()).await.map_err(|error| failure(&error))?;
        let statement = connection.prep(&*self.statement).await.map_err(|error| failure(&error))?;
        Ok(MysqlSession { connection, statement, is_lost: false })
    }
}

impl Session for MysqlSession {
    type Protocol = Sql;
    type Canceller = Uncancellable;

    async fn run(&mut self, request: &SqlRequest, _: &mut SqlAnswer) -> Result<u64, Failure> {
        self.is_lost = true;
        let result = self.connection.exec_iter(&self.statement, (key(request),)).await;
        let mut n_rows = 0;
        let count = |_: Row| n_rows += 1;
        result.map_err(|error| failure(&error))?.for_each_and_drop(count).await.map_err(|error| failure(&error))?;
        self.is_lost = false;
        judged(n_rows, request)
    }

    async fn reset(&mut self) -> Result<(), Failure> {
        Ok(())
    }

    fn canceller(&self) -> Option<Uncancellable> {
        None
    }

    fn is_lost(&self) -> bool {
        self.is_lost
    }

    async fn close(self) {
        let _ = self.connection.disconnect().await;
    }
}

/// One session of as many connections as there are users, who share it: so the crate wants to be used.
#[derive(Clone)]
pub(crate) struct Scylla {
    builder: SessionBuilder,
    statement: Arc<str>,
    shared: Arc<OnceCell<ScyllaSession>>,
}

#[derive(Clone)]
pub(crate) struct ScyllaSession {
    session: Arc<scylla::client::session::Session>,
    statement: PreparedStatement,
}

impl Scylla {
    pub(crate) fn new(place: &Place, statement: String, n_users: u32) -> Self {
        let connections = NonZeroUsize::new(n_users as usize).unwrap_or(NonZeroUsize::MIN);
        let mut builder = SessionBuilder::new()
            .known_node(format!("{}:{}", place.host, place.port))
            .use_keyspace(&place.database, true)
            .pool_size(PoolSize::PerHost(connections));
        if let Some(password) = &place.password {
            builder = builder.user(&place.user, password);
        }
        Self { builder, statement: statement.into(), shared: Arc::default() }
    }

    async fn open(&self) -> Result<ScyllaSession, Failure> {
        let session = self.builder.build().await.map_err(|error| failure(&error))?;
        let mut statement = session.prepare(&*self.statement).await.map_err(|error| failure(&error))?;
        // As the own driver asks.
        statement.set_consistency(Consistency::Quorum);
        statement.set_is_idempotent(true);
        Ok(ScyllaSession { session: Arc::new(session), statement })
    }
}

impl Driver for Scylla {
    type Protocol = Sql;
    type Session = ScyllaSession;

    async fn connect(&self) -> Result<ScyllaSession, Failure> {
        self.shared.get_or_try_init(|| self.open()).await.cloned()
    }
}

impl Session for ScyllaSession {
    type Protocol = Sql;
    type Canceller = Uncancellable;

    async fn run(&mut self, request: &SqlRequest, _: &mut SqlAnswer) -> Result<u64, Failure> {
        let asked = self.session.execute_unpaged(&self.statement, (key(request),));
        let result = asked.await.map_err(|error| failure(&error))?.into_rows_result().map_err(|error| failure(&error))?;
        judged(result.rows_num() as u64, request)
    }

    async fn reset(&mut self) -> Result<(), Failure> {
        Ok(())
    }

    fn canceller(&self) -> Option<Uncancellable> {
        None
    }

    fn is_lost(&self) -> bool {
        false
    }

    async fn close(self) {}
}
