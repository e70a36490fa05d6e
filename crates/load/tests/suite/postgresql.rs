//! `TRIMTAB_TEST_POSTGRES`: HOST:PORT or /SOCKET-DIRECTORY:PORT, where the superuser `postgres` needs no password.

use std::sync::Arc;

use trimtab_load::driver::postgresql::{Access, Postgres, PostgresSession};
use trimtab_load::driver::{Driver, ErrorClass, Session};
use trimtab_load::sql::{Expect, SqlAnswer, SqlCommand, SqlRequest};

use super::Subject;

pub(super) struct PostgresSubject(Access);

fn driver(access: &Access) -> Postgres {
    let statements = Arc::from(["SELECT repeat('x', $1), NULL".to_owned()]);
    Postgres::new(access.clone(), statements).expect("legal access")
}

impl Subject for PostgresSubject {
    type Driver = Postgres;
    const REOPENS: bool = false;

    fn find() -> Option<Self> {
        let Ok(address) = std::env::var("TRIMTAB_TEST_POSTGRES") else {
            eprintln!("skipped: TRIMTAB_TEST_POSTGRES names no server");
            return None;
        };
        let (host, port) = address.rsplit_once(':').expect("HOST:PORT");
        let (host, port) = (host.to_owned(), port.parse().expect("a port"));
        let (user, database) = ("postgres".to_owned(), "postgres".to_owned());
        Some(Self(Access { host, port, user, database, ..Access::default() }))
    }

    fn driver(&self) -> Postgres {
        driver(&self.0)
    }

    fn nowhere(&self) -> Postgres {
        driver(&Access { host: "127.0.0.1".to_owned(), port: 1, ..self.0.clone() })
    }

    fn quick(&self, request: &mut SqlRequest) {
        request.command = SqlCommand::Prepared(0);
        request.params.push_int(100);
        request.expect.rows = Some((1, 1));
        request.wants_row = true;
    }

    fn slow(&self, request: &mut SqlRequest) {
        request.command = SqlCommand::Text("SELECT pg_sleep(60)".into());
    }

    fn wrong(&self, request: &mut SqlRequest) -> ErrorClass {
        request.command = SqlCommand::Text("BEGIN; SELECT 1 FROM nowhere".into());
        ErrorClass::Statement
    }

    fn unexpected(&self, request: &mut SqlRequest) {
        // What a failed transaction left open is gone first.
        request.command = SqlCommand::Text("ROLLBACK; SELECT 'ab'".into());
        request.expect = Expect { rows: None, column_bytes: Some(3) };
    }

    async fn hang_up(&self, session: &mut PostgresSession) {
        let (mut request, mut answer) = (SqlRequest::default(), SqlAnswer::default());
        request.command = SqlCommand::Text("SELECT pg_backend_pid()".into());
        request.wants_row = true;
        session.run(&request, &mut answer).await.expect("a row");
        let process = answer.columns().next().flatten().expect("a number").to_owned();
        request.command = SqlCommand::Text(format!("SELECT pg_terminate_backend({process}, 5000)").into());
        let mut other = self.driver().connect().await.expect("a connection");
        other.run(&request, &mut answer).await.expect("a superuser");
    }
}
