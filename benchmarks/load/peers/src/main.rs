//! One run of the load engine: prepared reads of one row by key, in a closed loop on one thread, with the driver that is asked
//! for. Arguments: own-postgresql, tokio-postgres, own-mysql, mysql_async, own-cql or scylla; then host (a Unix socket's folder or
//! file, or an address), port, user, password (`-` for none), database, connections, seconds, and the highest key. Prints the
//! operations, the seconds and the CPU seconds of the thread as JSON.

mod peers;

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use peers::{MysqlAsync, Scylla, TokioPostgres};
use trimtab_load::driver::{Driver, cql, mysql, postgresql};
use trimtab_load::engine::{Limits, Load, Plan, Share};
use trimtab_load::model::{Model, Think};
use trimtab_load::random::Random;
use trimtab_load::source::{Source, Sources, Step};
use trimtab_load::sql::{Expect, Sql, SqlCommand, SqlRequest};

/// What all drivers are asked; the placeholder is the server's own.
fn statement(placeholder: &str) -> String {
    format!("SELECT * FROM wide WHERE number = {placeholder}")
}

/// Where the server is.
struct Place {
    host: String,
    port: u16,
    user: String,
    password: Option<String>,
    database: String,
}

/// Users who read rows by random keys from 1 to `last`.
struct Reads {
    last: i64,
}

struct Read {
    random: Random,
    last: i64,
    is_sent: bool,
}

impl Sources<Sql> for Reads {
    fn labels(&self) -> Vec<String> {
        vec!["read".to_owned()]
    }

    fn source(&self, user: u32, seed: u64) -> Box<dyn Source<Sql>> {
        Box::new(Read { random: Random::of_choices(seed, user), last: self.last, is_sent: false })
    }
}

impl Source<Sql> for Read {
    fn begin(&mut self) -> Option<u32> {
        self.is_sent = false;
        Some(0)
    }

    fn step(&mut self, request: &mut SqlRequest) -> Step {
        if std::mem::replace(&mut self.is_sent, true) {
            return Step::End;
        }
        request.command = SqlCommand::Prepared(0);
        request.params.clear();
        request.params.push_int(self.random.between(1, self.last));
        request.expect = Expect { rows: Some((1, 1)), column_bytes: None };
        Step::Request
    }

    fn rewind(&mut self) {
        self.is_sent = false;
    }
}

fn measure<D: Driver<Protocol = Sql>>(driver: &D, n_users: u32, seconds: u64, last: i64) -> Result<(), Box<dyn Error>> {
    let limit = Duration::from_secs(60);
    let limits = Limits {
        duration: Duration::from_secs(seconds),
        operation_timeout: limit,
        connect_timeout: limit,
        cancel_grace: Duration::from_secs(2),
    };
    let model = Model::Closed(Think::default());
    let plan = Plan { model, n_users, limits, seed: 1, keeps_rows: false, max_tries: 1 };
    let load = Load::launch(driver, Arc::new(Reads { last }), &plan, Share::whole(1, n_users))?;
    while !load.wait_connected(Duration::from_secs(1))? {}
    while load.next_frame(2 * limit).is_some() {}
    let log = load.stop()?;
    if let Some(error) = log.errors.first() {
        return Err(error.clone().into());
    }
    let n_ok: u64 = log.seconds.iter().map(|second| second.n_ok).sum();
    println!("{{\"ok\": {n_ok}, \"wall_s\": {}, \"cpu_s\": {}}}", log.duration_s, log.client_cpu_s);
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [kind, host, port, user, password, database, users, seconds, last] = &arguments[..] else {
        return Err("arguments: DRIVER HOST PORT USER PASSWORD DATABASE CONNECTIONS SECONDS LAST-KEY".into());
    };
    let place = Place {
        host: host.clone(),
        port: port.parse()?,
        user: user.clone(),
        password: (password != "-").then(|| password.clone()),
        database: database.clone(),
    };
    let (users, seconds, last) = (users.parse()?, seconds.parse()?, last.parse()?);
    let Place { host, port, user, password, database } = &place;
    let (host, port, user, password, database) = (host.clone(), *port, user.clone(), password.clone(), database.clone());
    match kind.as_str() {
        "own-postgresql" => {
            let access = postgresql::Access { host, port, user, password, database, ..Default::default() };
            measure(&postgresql::Postgres::new(access, Arc::from([statement("$1")]))?, users, seconds, last)
        }
        "own-mysql" => {
            let access = mysql::Access { host, port, user, password, database, ..Default::default() };
            measure(&mysql::Mysql::new(access, Arc::from([statement("?")]))?, users, seconds, last)
        }
        "tokio-postgres" => measure(&TokioPostgres::new(&place, statement("$1")), users, seconds, last),
        "own-cql" => {
            let access = cql::Access { host, port, user, password, database, ..Default::default() };
            measure(&cql::Cql::new(access, Arc::from([statement("?")]))?, users, seconds, last)
        }
        "scylla" => measure(&Scylla::new(&place, statement("?"), users), users, seconds, last),
        "mysql_async" => measure(&MysqlAsync::new(&place, statement("?")), users, seconds, last),
        _ => Err(format!("{kind} is no driver").into()),
    }
}
