//! `TRIMTAB_TEST_MYSQL`: "socket=/path port=3306 user=u password=p database=d".

use std::sync::Arc;

use trimtab_load::driver::mysql::{Access, Mysql, MysqlSession};
use trimtab_load::driver::{Driver, ErrorClass, Session};
use trimtab_load::sql::{Expect, SqlAnswer, SqlCommand, SqlRequest};

use super::Subject;

pub(super) struct MysqlSubject(Access);

fn driver(access: &Access) -> Mysql {
    // A lone SLEEP would answer that it was woken.
    let statements =
        ["SELECT REPEAT('x', ?)".to_owned(), "SELECT SLEEP(60) FROM (SELECT 1 UNION SELECT 2) t".to_owned()];
    Mysql::new(access.clone(), Arc::from(statements)).expect("legal access")
}

impl Subject for MysqlSubject {
    type Driver = Mysql;
    const REOPENS: bool = false;

    fn find() -> Option<Self> {
        let Ok(text) = std::env::var("TRIMTAB_TEST_MYSQL") else {
            eprintln!("skipped: TRIMTAB_TEST_MYSQL names no server");
            return None;
        };
        let field = |name: &str| {
            let mut parts = text.split(' ').filter_map(|part| part.split_once('='));
            parts.find(|(key, _)| *key == name).map(|(_, value)| value.to_owned())
        };
        Some(Self(Access {
            host: field("socket").expect("socket="),
            user: field("user").expect("user="),
            database: field("database").expect("database="),
            password: field("password"),
            ..Access::default()
        }))
    }

    fn driver(&self) -> Mysql {
        driver(&self.0)
    }

    fn nowhere(&self) -> Mysql {
        driver(&Access { host: "127.0.0.1".to_owned(), port: 1, ..self.0.clone() })
    }

    /// Without its row as text, which allocates here: pgbench's scripts, which want rows, run on PostgreSQL only.
    fn quick(&self, request: &mut SqlRequest) {
        request.command = SqlCommand::Prepared(0);
        request.params.push_int(100);
        request.expect = Expect { rows: Some((1, 1)), column_bytes: Some(100) };
    }

    fn slow(&self, request: &mut SqlRequest) {
        request.command = SqlCommand::Prepared(1);
    }

    fn wrong(&self, request: &mut SqlRequest) -> ErrorClass {
        request.command = SqlCommand::Text("SELECT nothing".into());
        ErrorClass::Statement
    }

    fn unexpected(&self, request: &mut SqlRequest) {
        request.command = SqlCommand::Text("SELECT 1 UNION SELECT 2".into());
        request.expect.rows = Some((3, 4));
    }

    async fn hang_up(&self, session: &mut MysqlSession) {
        let (mut request, mut answer) = (SqlRequest::default(), SqlAnswer::default());
        request.command = SqlCommand::Text("SELECT CONNECTION_ID()".into());
        request.wants_row = true;
        session.run(&request, &mut answer).await.expect("a row");
        let number = answer.columns().next().flatten().expect("a number").to_owned();
        request.command = SqlCommand::Text(format!("KILL {number}").into());
        let mut other = self.driver().connect().await.expect("a connection");
        other.run(&request, &mut answer).await.expect("killed");
    }
}
