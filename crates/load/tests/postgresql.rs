//! The PostgreSQL driver against a real server, which `TRIMTAB_TEST_POSTGRES` names: HOST:PORT or /SOCKET-DIRECTORY:PORT,
//! where the superuser `postgres` may enter without a password and others over TCP on 127.0.0.1 with SCRAM only.
//! `TRIMTAB_TEST_POSTGRES_TLS` (HOST:PORT) and `TRIMTAB_TEST_POSTGRES_ROOT` (its certificate) name one with TLS.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;
use trimtab_load::driver::postgresql::{Access, Postgres, PostgresSession, TlsMode};
use trimtab_load::driver::{Canceller, Driver, ErrorClass, Failure, Session, TlsFiles};
use trimtab_load::sql::{Expect, Params, SqlAnswer, SqlCommand, SqlRequest};

/// The server that the variable names; `None` says why the test is skipped.
fn server(variable: &str) -> Option<Access> {
    let Ok(address) = std::env::var(variable) else {
        eprintln!("skipped: {variable} names no server");
        return None;
    };
    let (host, port) = address.rsplit_once(':').expect("HOST:PORT");
    Some(Access {
        host: host.to_owned(),
        port: port.parse().expect("a port"),
        user: "postgres".to_owned(),
        database: "postgres".to_owned(),
        application_name: "trimtab-test".to_owned(),
        ..Access::default()
    })
}

/// A session on the plain server, with these statements prepared.
async fn session(statements: &[&str]) -> Option<PostgresSession> {
    Some(connect(server("TRIMTAB_TEST_POSTGRES")?, statements).await.expect("a connection"))
}

async fn connect(access: Access, statements: &[&str]) -> Result<PostgresSession, Failure> {
    let statements = statements.iter().map(|&text| text.to_owned()).collect();
    Postgres::new(access, statements).expect("legal access").connect().await
}

fn text(text: &str) -> SqlRequest {
    SqlRequest { command: SqlCommand::Text(Arc::from(text)), ..SqlRequest::default() }
}

fn prepared(index: u32, fill: impl FnOnce(&mut Params)) -> SqlRequest {
    let mut request = SqlRequest { command: SqlCommand::Prepared(index), wants_row: true, ..SqlRequest::default() };
    fill(&mut request.params);
    request
}

/// What came back for one request.
struct Answer {
    rows: u64,
    first_row: Option<Vec<Option<String>>>,
}

async fn ask(session: &mut PostgresSession, request: &SqlRequest) -> Result<Answer, Failure> {
    let mut answer = SqlAnswer::default();
    let rows = session.run(request, &mut answer).await?;
    let first_row = answer.has_row().then(|| answer.columns().map(|column| column.map(str::to_owned)).collect());
    Ok(Answer { rows, first_row })
}

async fn run(session: &mut PostgresSession, sql: &str) -> Result<u64, Failure> {
    ask(session, &text(sql)).await.map(|answer| answer.rows)
}

/// The first row's first column.
async fn value(session: &mut PostgresSession, sql: &str) -> String {
    let answer = ask(session, &SqlRequest { wants_row: true, ..text(sql) }).await.expect("a row");
    column(&answer, 0)
}

fn column(answer: &Answer, index: usize) -> String {
    answer.first_row.as_ref().expect("a row")[index].clone().unwrap_or_else(|| "NULL".to_owned())
}

#[tokio::test]
async fn parameters_of_every_type_arrive() {
    let select =
        "SELECT $1::int2, $2::int4, $3::int8, $4::float4, $5::float8, $6::numeric, $7::text, $8::bool, $9::date";
    let Some(mut session) = session(&[select]).await else { return };
    let request = prepared(0, |params| {
        params.push_int(-32_768);
        params.push_int(2_147_483_647);
        params.push_int(i64::MIN);
        params.push_float(0.25);
        params.push_float(1e-300);
        params.push_int(12);
        params.push_int(34);
        params.push_text("yes");
        params.push_null();
    });
    let row = ask(&mut session, &request).await.expect("a row").first_row.expect("a row");
    let row: Vec<_> = row.iter().map(|column| column.as_deref().unwrap_or("NULL")).collect();
    let expected = ["-32768", "2147483647", "-9223372036854775808", "0.25", "1e-300", "12", "34", "t", "NULL"];
    assert_eq!(row, expected);
    let request = prepared(0, |params| {
        params.push_int(32_768);
        (1..9).for_each(|_| params.push_null());
    });
    let failure = ask(&mut session, &request).await.err().expect("too large");
    assert_eq!((failure.class, failure.code.as_deref()), (ErrorClass::Statement, Some("22003")));
    assert!(!session.is_lost());
}

#[tokio::test]
async fn rows_are_counted_and_checked() {
    let statements =
        ["INSERT INTO t SELECT n, 'abc' FROM generate_series(1, $1) n", "SELECT v, v FROM t WHERE k <= $1"];
    let create = "CREATE TABLE t (k int, v text)";
    let Some(mut session) = session(&[]).await else { return };
    // The driver prepares what must exist, so the table is made before the statements are.
    run(&mut session, "DROP SCHEMA IF EXISTS counted CASCADE; CREATE SCHEMA counted; SET search_path = counted")
        .await
        .expect("a schema");
    run(&mut session, create).await.expect("a table");
    let settings = vec![("search_path".to_owned(), "counted, public".to_owned())];
    let access = server("TRIMTAB_TEST_POSTGRES").expect("a server");
    let mut session = connect(Access { settings, ..access }, &statements).await.expect("a connection");
    let answer = ask(&mut session, &prepared(0, |params| params.push_int(10))).await.expect("rows");
    assert_eq!((answer.rows, answer.first_row), (10, None));
    let mut request = prepared(1, |params| params.push_int(4));
    request.expect = Expect { rows: Some((4, 4)), column_bytes: Some(3) };
    assert_eq!(ask(&mut session, &request).await.map(|answer| answer.rows), Ok(4));
    request.expect.column_bytes = Some(4);
    let failure = ask(&mut session, &request).await.err().expect("three bytes");
    assert_eq!(failure.to_string(), "column 1 of row 1 is 3 bytes instead of 4 bytes");
    request.expect = Expect { rows: Some((5, 9)), column_bytes: None };
    let failure = ask(&mut session, &request).await.err().expect("four rows");
    assert_eq!((failure.class, failure.message.as_str()), (ErrorClass::Validation, "4 rows instead of 5 to 9"));
    let all = "UPDATE t SET v = 'x' WHERE k < 3; DELETE FROM t WHERE k = 1; SELECT 1; COPY t TO STDOUT";
    assert_eq!(run(&mut session, all).await, Ok(2 + 1 + 1 + 9));
    run(&mut session, "DROP SCHEMA counted CASCADE").await.expect("no schema");
}

#[tokio::test]
async fn a_failed_transaction_is_rolled_back() {
    let Some(mut session) = session(&["SELECT 1 / $1::int"]).await else { return };
    let step = |command| SqlRequest { command, ..SqlRequest::default() };
    ask(&mut session, &step(SqlCommand::Begin)).await.expect("a transaction");
    let failure = ask(&mut session, &prepared(0, |params| params.push_int(0))).await.err().expect("a division by zero");
    assert_eq!(failure.to_string(), "22012 division by zero");
    let failure = ask(&mut session, &step(SqlCommand::Commit)).await.err().expect("no commit");
    assert_eq!(failure.message, "COMMIT rolled back: the transaction had failed");
    ask(&mut session, &step(SqlCommand::Begin)).await.expect("a transaction");
    let in_transaction = "SELECT pg_current_xact_id_if_assigned() IS NOT NULL";
    run(&mut session, "CREATE TEMP TABLE gone ()").await.expect("a table");
    assert_eq!(value(&mut session, in_transaction).await, "t");
    session.reset().await.expect("an open connection");
    assert_eq!(value(&mut session, in_transaction).await, "f");
    assert_eq!(value(&mut session, "SELECT to_regclass('pg_temp.gone') IS NULL").await, "t");
    session.close().await;
}

#[tokio::test]
async fn errors_have_their_classes() {
    let Some(mut session) = session(&[]).await else { return };
    let cases = [
        ("SELEC", ErrorClass::Statement, "42601"),
        ("SELECT * FROM nowhere", ErrorClass::Statement, "42P01"),
        ("CREATE TEMP TABLE c (k int PRIMARY KEY); INSERT INTO c VALUES (1), (1)", ErrorClass::Constraint, "23505"),
        ("BEGIN READ ONLY; CREATE TABLE r ()", ErrorClass::ReadOnly, "25006"),
        ("SET statement_timeout = '20ms'; SELECT pg_sleep(9)", ErrorClass::Timeout, "57014"),
        ("SET ROLE pg_monitor; CREATE ROLE other", ErrorClass::Permission, "42501"),
        ("DO $$ BEGIN RAISE EXCEPTION USING ERRCODE = '40001'; END $$", ErrorClass::Serialization, "40001"),
        ("DO $$ BEGIN RAISE EXCEPTION USING ERRCODE = '53100'; END $$", ErrorClass::Resource, "53100"),
        ("DO $$ BEGIN RAISE EXCEPTION 'mine'; END $$", ErrorClass::Other, "P0001"),
    ];
    for (sql, class, code) in cases {
        let failure = run(&mut session, sql).await.expect_err(sql);
        assert_eq!((failure.class, failure.code.as_deref()), (class, Some(code)), "{sql}");
        session.reset().await.expect("an open connection");
        run(&mut session, "RESET ROLE; RESET ALL").await.expect("an idle connection");
    }
}

#[tokio::test]
async fn a_statement_that_cannot_be_prepared_is_named() {
    let Some(access) = server("TRIMTAB_TEST_POSTGRES") else { return };
    let failure = connect(access.clone(), &["SELECT 1", "SELECT missing"]).await.err().expect("no such column");
    assert_eq!(failure.class, ErrorClass::Statement);
    assert_eq!(failure.to_string(), "42703 statement 2: column \"missing\" does not exist");
    let failure = connect(access, &["SELECT '\0'"]).await.err().expect("NUL");
    assert_eq!(failure.to_string(), "statement 1: it holds a NUL character");
}

#[tokio::test]
async fn requests_that_cannot_be_sent_leave_the_connection_alone() {
    let Some(mut session) = session(&["SELECT $1::int"]).await else { return };
    let failure = ask(&mut session, &prepared(0, |_| {})).await.err().expect("a parameter is missing");
    assert_eq!(failure.message, "statement 1 takes 1 parameters, and 0 came");
    let failure = ask(&mut session, &prepared(1, |_| {})).await.err().expect("one statement only");
    assert_eq!(failure.message, "statement 2 was asked for, and 1 are prepared");
    assert_eq!(column(&ask(&mut session, &prepared(0, |params| params.push_int(5))).await.expect("a row"), 0), "5");
}

#[tokio::test]
async fn a_copy_that_waits_for_data_loses_the_connection() {
    let Some(mut session) = session(&[]).await else { return };
    let failure = run(&mut session, "CREATE TEMP TABLE c (k int); COPY c FROM STDIN").await.expect_err("no data");
    assert_eq!(failure.message, "the statement waits for COPY data, which cannot be sent");
    assert!(session.is_lost());
    let failure = run(&mut session, "SELECT 1").await.expect_err("a lost connection");
    assert_eq!((failure.class, failure.message.as_str()), (ErrorClass::Connect, "the connection is lost"));
    assert!(session.reset().await.is_err());
}

#[tokio::test]
async fn long_answers_and_long_requests_pass() {
    let Some(mut session) = session(&["SELECT length($1::text)"]).await else { return };
    assert_eq!(run(&mut session, "SELECT n, 'some text' FROM generate_series(1, 300000) n").await, Ok(300_000));
    assert_eq!(run(&mut session, "SELECT repeat('x', 30000000) FROM generate_series(1, 2)").await, Ok(2));
    let mut request = text("SELECT repeat('x', 3000000) FROM generate_series(1, 2)");
    request.expect.column_bytes = Some(3_000_000);
    assert_eq!(ask(&mut session, &request).await.map(|answer| answer.rows), Ok(2));
    // More than a socket takes at once.
    let long = "y".repeat(20_000_000);
    let answer = ask(&mut session, &prepared(0, |params| params.push_text(&long))).await.expect("a row");
    assert_eq!(column(&answer, 0), "20000000");
    assert_eq!(value(&mut session, "SELECT 'still here'").await, "still here");
}

#[tokio::test]
async fn what_the_server_says_besides_is_skipped() {
    let Some(mut session) = session(&[]).await else { return };
    let sql =
        "LISTEN news; NOTIFY news, 'all'; SET timezone = 'UTC'; DO $$ BEGIN RAISE NOTICE 'hear'; END $$; SELECT 1; ;";
    assert_eq!(run(&mut session, sql).await, Ok(1));
    assert_eq!(run(&mut session, "").await, Ok(0));
    assert_eq!(value(&mut session, "SHOW application_name").await, "trimtab-test");
}

async fn cancel_and_go_on(session: &mut PostgresSession) {
    let canceller = session.canceller().expect("PostgreSQL cancels");
    let cancelling = async {
        sleep(Duration::from_millis(100)).await;
        canceller.cancel().await
    };
    let (result, cancelled) = tokio::join!(run(session, "SELECT pg_sleep(60)"), cancelling);
    cancelled.expect("a server that takes the request");
    assert_eq!(result.expect_err("cancelled").code.as_deref(), Some("57014"));
    assert!(!session.is_lost());
    for _ in 0..20 {
        canceller.cancel().await.expect("a server that takes the request");
        assert_eq!(run(session, "SELECT 1 FROM pg_sleep(0.001)").await, Ok(1));
    }
}

#[tokio::test]
async fn a_backend_that_is_ended_says_why() {
    let Some(mut session) = session(&[]).await else { return };
    let failure = run(&mut session, "SELECT pg_terminate_backend(pg_backend_pid())").await.expect_err("the end");
    assert_eq!((failure.class, failure.code.as_deref()), (ErrorClass::Connect, Some("57P01")));
    assert!(session.is_lost());
    // The same while it is idle: the words wait in the socket.
    let mut victim = connect(server("TRIMTAB_TEST_POSTGRES").expect("a server"), &[]).await.expect("a connection");
    let mut other = connect(server("TRIMTAB_TEST_POSTGRES").expect("a server"), &[]).await.expect("a connection");
    let process = value(&mut victim, "SELECT pg_backend_pid()").await;
    run(&mut other, &format!("SELECT pg_terminate_backend({process}, 5000)")).await.expect("a superuser");
    let failure = run(&mut victim, "SELECT 1").await.expect_err("the end");
    assert_eq!(failure.to_string(), "57P01 terminating connection due to administrator command");
}

#[tokio::test]
async fn passwords_are_checked_and_never_shown() {
    let Some(mut session) = session(&[]).await else { return };
    let create = "DROP ROLE IF EXISTS guarded; CREATE ROLE guarded LOGIN CONNECTION LIMIT 1 PASSWORD 'correct horse'";
    run(&mut session, create).await.expect("a role");
    let with = |password: Option<&str>| {
        let access = server("TRIMTAB_TEST_POSTGRES").expect("a server");
        let password = password.map(str::to_owned);
        connect(Access { host: "127.0.0.1".to_owned(), user: "guarded".to_owned(), password, ..access }, &[])
    };
    let mut guarded = with(Some("correct horse")).await.expect("the right password");
    assert_eq!(value(&mut guarded, "SELECT current_user").await, "guarded");
    let failure = with(Some("correct horse")).await.err().expect("one connection only");
    assert_eq!((failure.class, failure.code.as_deref()), (ErrorClass::Resource, Some("53300")));
    let failure = with(Some("battery staple")).await.err().expect("the wrong password");
    assert_eq!(failure.to_string(), "28P01 password authentication failed for user \"guarded\"");
    let failure = with(None).await.err().expect("no password");
    assert_eq!(failure.to_string(), "the server asks for a password, and none is given");
    assert_eq!(failure.class, ErrorClass::Permission);
    guarded.close().await;
    sleep(Duration::from_millis(100)).await;
    run(&mut session, "DROP ROLE guarded").await.expect("no role");
}

#[tokio::test]
async fn what_cannot_be_reached_is_named() {
    let Some(access) = server("TRIMTAB_TEST_POSTGRES") else { return };
    let nowhere = Access { host: "/nonexistent".to_owned(), port: 1, ..access.clone() };
    let failure = connect(nowhere, &[]).await.err().expect("no socket");
    assert_eq!(failure.class, ErrorClass::Connect);
    assert!(failure.message.starts_with("cannot connect to /nonexistent/.s.PGSQL.1: No such file"), "{failure}");
    let failure =
        connect(Access { database: "nowhere".to_owned(), ..access.clone() }, &[]).await.err().expect("no database");
    assert_eq!(failure.to_string(), "3D000 database \"nowhere\" does not exist");
    let settings = vec![("work_mem".to_owned(), "blue".to_owned())];
    let failure = connect(Access { settings, ..access }, &[]).await.err().expect("no such value");
    assert!(failure.to_string().starts_with("22023 invalid value for parameter \"work_mem\": \"blue\""), "{failure}");
}

#[tokio::test]
async fn tls_is_used_as_asked() {
    let Some(access) = server("TRIMTAB_TEST_POSTGRES_TLS") else { return };
    let root = std::env::var("TRIMTAB_TEST_POSTGRES_ROOT").ok().map(PathBuf::from);
    let with = |tls, roots| {
        let tls_files = TlsFiles { roots, ..TlsFiles::default() };
        connect(Access { tls, tls_files, ..access.clone() }, &[])
    };
    for (mode, root, expected) in [
        (TlsMode::Disable, None, "f"),
        (TlsMode::Prefer, None, "t"),
        (TlsMode::Require, None, "t"),
        (TlsMode::VerifyCa, root.clone(), "t"),
        (TlsMode::VerifyFull, root, "t"),
    ] {
        let mut session = with(mode, root).await.expect("a connection");
        let is_encrypted = "SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()";
        assert_eq!(value(&mut session, is_encrypted).await, expected, "{mode:?}");
        cancel_and_go_on(&mut session).await;
        assert_eq!(run(&mut session, "SELECT repeat('x', 3000000) FROM generate_series(1, 9)").await, Ok(9));
        session.close().await;
    }
    let failure = with(TlsMode::VerifyFull, None).await.err().expect("an unknown authority");
    assert_eq!(failure.class, ErrorClass::Connect);
    assert!(failure.message.contains("invalid peer certificate"), "{failure}");
}

#[tokio::test]
async fn under_tls_scram_binds_the_channel() {
    let Some(access) = server("TRIMTAB_TEST_POSTGRES_TLS") else { return };
    let access = Access { tls: TlsMode::Require, ..access };
    let mut session = connect(access.clone(), &[]).await.expect("a connection");
    let create = "DROP ROLE IF EXISTS bound; CREATE ROLE bound LOGIN PASSWORD 'correct horse'";
    run(&mut session, create).await.expect("a role");
    let password = Some("correct horse".to_owned());
    let mut bound =
        connect(Access { user: "bound".to_owned(), password, ..access }, &[]).await.expect("the right password");
    assert_eq!(value(&mut bound, "SELECT current_user").await, "bound");
    bound.close().await;
    run(&mut session, "DROP ROLE bound").await.expect("no role");
}

#[tokio::test]
async fn a_server_without_tls_is_refused_where_tls_is_required() {
    let Some(access) = server("TRIMTAB_TEST_POSTGRES") else { return };
    let mut session = connect(access.clone(), &[]).await.expect("a connection");
    if value(&mut session, "SHOW ssl").await == "on" {
        eprintln!("skipped: the server has TLS");
        return;
    }
    let over_tcp = |tls| Access { host: "127.0.0.1".to_owned(), tls, ..access.clone() };
    let failure = connect(over_tcp(TlsMode::Require), &[]).await.err().expect("no TLS");
    assert!(failure.message.ends_with("the server does not offer TLS, which is required"), "{failure}");
    // Without TLS "prefer" goes on, to the question for the password.
    let user = "nobody".to_owned();
    let failure = connect(Access { user, ..over_tcp(TlsMode::Prefer) }, &[]).await.err().expect("no password");
    assert_eq!(failure.class, ErrorClass::Permission);
    // A Unix socket needs none.
    if access.host.starts_with('/') {
        connect(Access { tls: TlsMode::Require, ..access }, &[]).await.expect("a connection");
    }
}
