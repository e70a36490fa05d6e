//! Closed loop of prepared single-row reads: rate and client CPU per operation, to be put beside pgbench's.
//!
//! Arguments: host (or socket directory), port, user, database, connections, seconds. The table `usertable` has a
//! `bigint` key 1 to 10,000 and ten columns of 100 bytes.

use std::cell::Cell;
use std::error::Error;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::task::LocalSet;
use trimtab_load::driver::postgresql::{Access, Postgres};
use trimtab_load::driver::{Driver, Failure, Session};
use trimtab_load::sql::{Expect, SqlCommand, SqlRequest};

const N_ROWS: u64 = 10_000;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [host, port, user, database, connections, seconds] = arguments.as_slice() else {
        return Err("arguments: host port user database connections seconds".into());
    };
    let access = Access {
        host: host.clone(),
        port: port.parse()?,
        user: user.clone(),
        database: database.clone(),
        application_name: "trimtab".to_owned(),
        ..Access::default()
    };
    let driver = Postgres::new(access, Arc::from(["SELECT * FROM usertable WHERE key = $1".to_owned()]))?;
    let (n_connections, seconds): (u64, f64) = (connections.parse()?, seconds.parse()?);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let (n_done, taken_s, cpu_s) = LocalSet::new().block_on(&runtime, measure(driver, n_connections, seconds))?;
    println!("{:.0} op/s  {:.2} us CPU/op", n_done as f64 / taken_s, cpu_s / n_done as f64 * 1e6);
    Ok(())
}

async fn measure(driver: Postgres, n_connections: u64, seconds: f64) -> Result<(u64, f64, f64), Failure> {
    let mut sessions = Vec::new();
    for _ in 0..n_connections {
        sessions.push(driver.connect().await?);
    }
    let n_done = Rc::new(Cell::new(0));
    let (start, cpu_before_s) = (Instant::now(), cpu_s());
    let end = start + Duration::from_secs_f64(seconds);
    let users = (1..).zip(sessions).map(|(seed, session)| {
        let n_done = Rc::clone(&n_done);
        tokio::task::spawn_local(read_until(session, seed, end, n_done))
    });
    for user in users.collect::<Vec<_>>() {
        user.await.expect("a user does not panic")?;
    }
    Ok((n_done.get(), start.elapsed().as_secs_f64(), cpu_s() - cpu_before_s))
}

async fn read_until(
    mut session: impl Session<Request = SqlRequest>,
    seed: u64,
    end: Instant,
    n_done: Rc<Cell<u64>>,
) -> Result<(), Failure> {
    let mut request = SqlRequest { command: SqlCommand::Prepared(0), ..SqlRequest::default() };
    request.expect = Expect { rows: Some((1, 1)), column_bytes: None };
    let mut state = seed;
    while Instant::now() < end {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        request.params.clear();
        request.params.push_int(((state >> 33) % N_ROWS).cast_signed() + 1);
        session.run(&request).await?;
        n_done.set(n_done.get() + 1);
    }
    session.close().await;
    Ok(())
}

fn cpu_s() -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid, exclusively borrowed timespec for the whole call.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &raw mut time) };
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}
