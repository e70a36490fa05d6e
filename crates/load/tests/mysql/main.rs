//! The MySQL driver against a server, which `TRIMTAB_TEST_MYSQL` names: "socket=/path port=3306 user=u password=p
//! database=d"; its user must be allowed to create tables and procedures there. Skipped, with the reason, without it.

use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::task::LocalSet;
use tokio::time::timeout;
use trimtab_load::driver::mysql::{Access, Mysql, MysqlSession};
use trimtab_load::driver::{Driver, ErrorClass, Failure, Session, TlsMode};
use trimtab_load::source::{Sources, SqlSources, Step};
use trimtab_load::sql::{Expect, Sql, SqlAnswer, SqlCommand, SqlRequest};
use trimtab_load::ycsb::rows::{Rows, YcsbLoadSources};
use trimtab_load::ycsb::sql::{Dialect, YcsbSources};
use trimtab_load::ycsb::{Proportions, Schema, Workload};

mod cancel;

/// Access over the Unix socket, and over TCP.
fn accesses() -> Option<(Access, Access)> {
    let Ok(text) = std::env::var("TRIMTAB_TEST_MYSQL") else {
        eprintln!("skipped: TRIMTAB_TEST_MYSQL names no server");
        return None;
    };
    let field = |name: &str| {
        let parts = text.split(' ').filter_map(|part| part.split_once('='));
        parts.into_iter().find(|(key, _)| *key == name).map(|(_, value)| value.to_owned())
    };
    let socket = Access {
        host: field("socket").expect("socket="),
        user: field("user").expect("user="),
        database: field("database").expect("database="),
        password: field("password"),
        ..Access::default()
    };
    let port = field("port").expect("port=").parse().expect("a port");
    let tcp = Access { host: "127.0.0.1".to_owned(), port, ..socket.clone() };
    Some((socket, tcp))
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    LocalSet::new().block_on(&runtime, async { timeout(Duration::from_secs(30), future).await.expect("in time") })
}

/// Runs `test` with an access over the socket, where there is a server.
fn with_server<F: Future<Output = ()>>(test: impl FnOnce(Access) -> F) {
    if let Some((access, _)) = accesses() {
        block_on(test(access));
    }
}

async fn connect(access: &Access, statements: &[&str]) -> MysqlSession {
    try_connect(access, statements).await.expect("connected")
}

async fn try_connect(access: &Access, statements: &[&str]) -> Result<MysqlSession, Failure> {
    let statements: Vec<String> = statements.iter().map(|text| (*text).to_owned()).collect();
    Mysql::new(access.clone(), statements.into()).expect("sound").connect().await
}

fn text(text: &str) -> SqlRequest {
    SqlRequest { command: SqlCommand::Text(Arc::from(text)), ..SqlRequest::default() }
}

fn prepared(index: u32) -> SqlRequest {
    SqlRequest { command: SqlCommand::Prepared(index), ..SqlRequest::default() }
}

/// What came back for one request.
#[derive(Debug, PartialEq)]
struct Answer {
    rows: u64,
    first_row: Option<Vec<Option<String>>>,
}

async fn ask(session: &mut MysqlSession, request: &SqlRequest) -> Result<Answer, Failure> {
    let mut answer = SqlAnswer::default();
    let rows = session.run(request, &mut answer).await?;
    let first_row = answer.has_row().then(|| answer.columns().map(|column| column.map(str::to_owned)).collect());
    Ok(Answer { rows, first_row })
}

async fn run(session: &mut MysqlSession, statement: &str) -> Result<Answer, Failure> {
    ask(session, &text(statement)).await
}

async fn row(session: &mut MysqlSession, statement: &str) -> Vec<Option<String>> {
    let request = SqlRequest { wants_row: true, ..text(statement) };
    ask(session, &request).await.expect("an answer").first_row.expect("a row")
}

fn some(texts: &[&str]) -> Vec<Option<String>> {
    texts.iter().map(|text| Some((*text).to_owned())).collect()
}

#[test]
fn texts_run_one_or_several_statements() {
    with_server(|access| async move {
        let mut session = connect(&access, &[]).await;
        assert_eq!(run(&mut session, "SELECT 1 UNION ALL SELECT 2").await.expect("rows").rows, 2);
        assert_eq!(row(&mut session, "SELECT 1, NULL, 'x', 2.5").await[..2], [Some("1".to_owned()), None]);
        let setup = "DROP TABLE IF EXISTS t_text; CREATE TABLE t_text (a INT PRIMARY KEY, b TEXT); \
                     INSERT INTO t_text VALUES (1, 'x'), (2, 'y'), (3, 'z'); UPDATE t_text SET b = 'x'; SELECT * FROM t_text";
        assert_eq!(run(&mut session, setup).await.expect("all run").rows, 3 + 3 + 3);
        // Rows that had the value already count too.
        assert_eq!(run(&mut session, "UPDATE t_text SET b = 'x'").await.expect("all run").rows, 3);
        let failure = run(&mut session, "SELECT 1; SELECT nothing").await.expect_err("no such column");
        assert_eq!((failure.class, failure.code.as_deref()), (ErrorClass::Statement, Some("1054")));
        assert_eq!(run(&mut session, "DROP TABLE t_text").await.expect("still connected").rows, 0);
        assert!(!session.is_lost());
        session.close().await;
    });
}

#[test]
fn prepared_statements_take_all_types() {
    with_server(|access| async move {
        let statements = [
            "SELECT ?, ?, ?, ?",
            "SELECT a FROM (SELECT 1 a UNION SELECT 2 UNION SELECT 3) t LIMIT ?",
            "SELECT CAST('2024-02-03 04:05:06.5' AS DATETIME(6)), CAST('-26:03:04' AS TIME), CAST(-7 AS SIGNED), CAST(7 AS \
             UNSIGNED), CAST(1.5 AS DECIMAL(5, 2)), CAST(0.25 AS DOUBLE), CAST('2024-02-03' AS DATE)",
            "SELECT CAST('2024-02-03' AS DATETIME), CAST('2024-02-03' AS DATETIME(3)), CAST('0:0:0' AS TIME(2))",
        ];
        let mut session = connect(&access, &statements).await;
        let mut request = SqlRequest { wants_row: true, ..prepared(0) };
        for _ in 0..3 {
            request.params.clear();
            request.params.push_int(-5);
            request.params.push_null();
            request.params.push_text("grün");
            request.params.push_float(0.5);
            let answer = ask(&mut session, &request).await.expect("a row");
            let mut expected = some(&["-5", "grün", "0.5"]);
            expected.insert(1, None);
            assert_eq!(answer, Answer { rows: 1, first_row: Some(expected) });
        }
        let mut request = prepared(1);
        request.params.push_int(2);
        assert_eq!(ask(&mut session, &request).await.expect("rows").rows, 2);
        let failure = ask(&mut session, &prepared(1)).await.expect_err("no parameter");
        assert_eq!(failure.message, "statement 2 takes 1 parameters, and 0 came");
        let failure = ask(&mut session, &prepared(9)).await.expect_err("no statement");
        assert_eq!(failure.message, "statement 10 was asked for, and 4 are prepared");
        let request = SqlRequest { wants_row: true, ..prepared(2) };
        let found = ask(&mut session, &request).await.expect("a row").first_row.expect("a row");
        let expected = some(&["2024-02-03 04:05:06.500000", "-26:03:04", "-7", "7", "1.50", "0.25", "2024-02-03"]);
        assert_eq!(found, expected);
        let request = SqlRequest { wants_row: true, ..prepared(3) };
        let found = ask(&mut session, &request).await.expect("a row").first_row.expect("a row");
        assert_eq!(found, some(&["2024-02-03 00:00:00", "2024-02-03 00:00:00.000", "00:00:00.00"]));
    });
}

#[test]
fn what_cannot_be_prepared_is_named() {
    with_server(|access| async move {
        let result = try_connect(&access, &["SELECT 1", "SELEC 2"]).await;
        let failure = result.err().expect("refused");
        assert_eq!(failure.class, ErrorClass::Statement);
        assert!(failure.message.starts_with("statement 2: You have an error in your SQL syntax"), "{failure}");
    });
}

#[test]
fn answers_are_validated() {
    with_server(|access| async move {
        let mut session = connect(&access, &["SELECT 'ab', 'cd'", "SELECT 'ab', 123"]).await;
        let expecting = |index, rows, column_bytes| SqlRequest {
            expect: Expect { rows: Some(rows), column_bytes: Some(column_bytes) },
            ..prepared(index)
        };
        assert_eq!(ask(&mut session, &expecting(0, (1, 1), 2)).await.expect("valid").rows, 1);
        let failure = ask(&mut session, &expecting(0, (2, 3), 2)).await.expect_err("too few");
        assert_eq!((failure.class, &*failure.message), (ErrorClass::Validation, "1 rows instead of 2 to 3"));
        let failure = ask(&mut session, &expecting(0, (1, 1), 3)).await.expect_err("too short");
        assert_eq!(failure.message, "column 1 of row 1 is 2 bytes instead of 3 bytes");
        let failure = ask(&mut session, &expecting(1, (1, 1), 2)).await.expect_err("too long");
        assert_eq!(failure.message, "column 2 of row 1 is 3 bytes instead of 2 bytes");
        assert_eq!(ask(&mut session, &expecting(0, (1, 1), 2)).await.expect("still in step").rows, 1);
    });
}

#[test]
fn a_prepared_statement_follows_its_table_and_its_parameters() {
    with_server(|access| async move {
        let mut other = connect(&access, &[]).await;
        let setup = "CREATE OR REPLACE TABLE t_follow (a INT, b INT); INSERT INTO t_follow VALUES (7, 8); \
                     CREATE OR REPLACE PROCEDURE p_follow() BEGIN SELECT a FROM t_follow; SELECT 'x', b FROM t_follow; END";
        run(&mut other, setup).await.expect("created");
        let statements = ["SELECT a, b FROM t_follow WHERE b = ?", "CALL p_follow()", "SELECT ?"];
        let mut session = connect(&access, &statements).await;
        // The server may describe columns only once: what it says then must hold until it says something else.
        let changes = [
            ("DO 1", ["7", "8"]),
            ("ALTER TABLE t_follow MODIFY a VARCHAR(9)", ["7", "8"]),
            ("UPDATE t_follow SET a = 'more'", ["more", "8"]),
            ("ALTER TABLE t_follow ADD c INT FIRST, MODIFY b BIGINT UNSIGNED", ["more", "8"]),
        ];
        for (change, expected) in changes {
            run(&mut other, change).await.expect("changed");
            let mut request = SqlRequest { wants_row: true, ..prepared(0) };
            request.params.push_int(8);
            let call = SqlRequest { wants_row: true, ..prepared(1) };
            for _ in 0..2 {
                let found = ask(&mut session, &request).await.expect("a row").first_row;
                assert_eq!(found, Some(some(&expected)), "{change}");
                let answer = ask(&mut session, &call).await.expect("two results");
                assert_eq!(answer, Answer { rows: 2, first_row: Some(some(&expected[..1])) }, "{change}");
            }
        }
        for value in ["a", "b"] {
            let mut request = SqlRequest { wants_row: true, ..prepared(2) };
            for expected in [some(&["1"]), vec![None], some(&["2"]), some(&[value])] {
                request.params.clear();
                match expected[0].as_deref().map(|text| text.parse().map_err(|_| text)) {
                    None => request.params.push_null(),
                    Some(Ok(number)) => request.params.push_int(number),
                    Some(Err(text)) => request.params.push_text(text),
                }
                assert_eq!(ask(&mut session, &request).await.expect("a row").first_row, Some(expected));
            }
        }
        run(&mut other, "DROP PROCEDURE p_follow; DROP TABLE t_follow").await.expect("dropped");
    });
}

#[test]
fn long_rows_and_requests_pass() {
    with_server(|access| async move {
        let mut session = connect(&access, &["SELECT REPEAT('x', ?)", "SELECT LENGTH(?)"]).await;
        for length in [10, 100_000, 3_000_000] {
            let mut request = prepared(0);
            request.params.push_int(length);
            assert_eq!(ask(&mut session, &request).await.expect("a row").rows, 1);
            request.expect.column_bytes = Some(length as u32);
            assert_eq!(ask(&mut session, &request).await.expect("a row").rows, 1);
            let mut request = SqlRequest { wants_row: true, ..prepared(1) };
            request.params.push_text(&"y".repeat(length as usize));
            let found = ask(&mut session, &request).await.expect("a row").first_row;
            assert_eq!(found, Some(some(&[&length.to_string()])));
        }
        // More than the server takes: it says so and hangs up.
        let mut request = prepared(1);
        request.params.push_text(&"y".repeat(20_000_000));
        let failure = ask(&mut session, &request).await.expect_err("too long");
        assert!(matches!(failure.class, ErrorClass::Protocol | ErrorClass::Connect), "{failure:?}");
        assert!(session.is_lost());
    });
}

#[test]
fn transactions_are_rolled_back_by_a_reset() {
    with_server(|access| async move {
        let mut other = connect(&access, &[]).await;
        let setup = "CREATE OR REPLACE TABLE t_reset (a INT PRIMARY KEY) ENGINE InnoDB";
        run(&mut other, setup).await.expect("created");
        let mut session = connect(&access, &["INSERT INTO t_reset VALUES (?)"]).await;
        let step = async |session: &mut MysqlSession, command| {
            ask(session, &SqlRequest { command, ..SqlRequest::default() }).await.expect("done");
        };
        let mut insert = prepared(0);
        for (number, end) in [(1, SqlCommand::Commit), (2, SqlCommand::Rollback)] {
            insert.params.clear();
            insert.params.push_int(number);
            step(&mut session, SqlCommand::Begin).await;
            assert_eq!(ask(&mut session, &insert).await.expect("inserted").rows, 1);
            step(&mut session, end).await;
            assert_eq!(row(&mut other, "SELECT COUNT(*) FROM t_reset").await, some(&["1"]));
        }
        step(&mut session, SqlCommand::Begin).await;
        ask(&mut session, &insert).await.expect("inserted");
        let failure = ask(&mut session, &insert).await.expect_err("twice the same key");
        assert_eq!((failure.class, failure.code.as_deref()), (ErrorClass::Constraint, Some("1062")));
        session.reset().await.expect("rolled back");
        ask(&mut session, &insert).await.expect("the key is free again, and no transaction is open");
        assert_eq!(row(&mut other, "SELECT COUNT(*) FROM t_reset").await, some(&["2"]));
        // The transaction begins within a text of which a later statement fails.
        let twice = "BEGIN; INSERT INTO t_reset VALUES (9); INSERT INTO t_reset VALUES (9)";
        run(&mut session, twice).await.expect_err("twice the same key");
        session.reset().await.expect("rolled back");
        run(&mut session, "INSERT INTO t_reset VALUES (9)").await.expect("inserted, and no transaction is open");
        assert_eq!(row(&mut other, "SELECT COUNT(*) FROM t_reset").await, some(&["3"]));
        run(&mut other, "DROP TABLE t_reset").await.expect("dropped");
    });
}

#[test]
fn deadlocks_can_be_retried_and_lock_waits_are_timeouts() {
    with_server(|access| async move {
        let mut one = connect(&access, &[]).await;
        let mut settings = access.clone();
        settings.settings = vec![("innodb_lock_wait_timeout".to_owned(), "1".to_owned())];
        let mut two = connect(&settings, &[]).await;
        let setup = "CREATE OR REPLACE TABLE t_lock (a INT PRIMARY KEY, b INT) ENGINE InnoDB; \
                     INSERT INTO t_lock VALUES (1, 0), (2, 0)";
        run(&mut one, setup).await.expect("created");
        let lock = |a: u32| format!("UPDATE t_lock SET b = b + 1 WHERE a = {a}");
        run(&mut one, &format!("BEGIN; {}", lock(1))).await.expect("locked");
        let failure = run(&mut two, &lock(1)).await.expect_err("locked by the other");
        assert_eq!((failure.class, failure.code.as_deref()), (ErrorClass::Timeout, Some("1205")));
        run(&mut two, &format!("SET innodb_lock_wait_timeout = 20; BEGIN; {}", lock(2))).await.expect("locked");
        let (text_1, text_2) = (lock(1), lock(2));
        let (a, b) = tokio::join!(run(&mut one, &text_2), run(&mut two, &text_1));
        let failure = a.and(b).expect_err("one of them is the victim");
        assert_eq!((failure.class, failure.code.as_deref()), (ErrorClass::Serialization, Some("1213")));
        assert!(failure.class.is_retryable());
        for session in [&mut one, &mut two] {
            session.reset().await.expect("rolled back");
        }
        run(&mut one, "DROP TABLE t_lock").await.expect("dropped");
    });
}

#[test]
fn who_is_not_let_in_is_told_why() {
    let Some((socket, tcp)) = accesses() else { return };
    block_on(async {
        for access in [socket, tcp] {
            let wrong = Access { password: Some("wrong".to_owned()), ..access.clone() };
            let failure = try_connect(&wrong, &[]).await.err().expect("refused");
            assert_eq!((failure.class, failure.code.as_deref()), (ErrorClass::Permission, Some("1045")));
            assert!(!failure.message.contains("wrong"), "{failure}");
            let unknown = Access { database: "no_such_database".to_owned(), ..access.clone() };
            let failure = try_connect(&unknown, &[]).await.err().expect("refused");
            assert!(matches!(failure.code.as_deref(), Some("1044" | "1049")), "{failure}");
            let no_setting = Access { settings: vec![("no_such".to_owned(), "1".to_owned())], ..access };
            let failure = try_connect(&no_setting, &[]).await.err().expect("refused");
            // Whatever keeps a connection from being made; a wrong statement would be one of the workload's.
            assert_eq!((failure.class, failure.code.as_deref()), (ErrorClass::Connect, Some("1193")));
        }
    });
}

#[test]
fn settings_and_encryption_hold_over_tcp() {
    let Some((_, tcp)) = accesses() else { return };
    block_on(async {
        let settings = vec![("sort_buffer_size".to_owned(), "262144".to_owned())];
        let mut session = connect(&Access { settings, ..tcp.clone() }, &[]).await;
        assert_eq!(row(&mut session, "SELECT @@sort_buffer_size").await, some(&["262144"]));
        let offers = row(&mut session, "SELECT @@have_ssl").await == some(&["YES"]);
        let mut session = connect(&Access { tls: TlsMode::Prefer, ..tcp.clone() }, &["SELECT 1"]).await;
        assert_eq!(ask(&mut session, &prepared(0)).await.expect("a row").rows, 1);
        match (try_connect(&Access { tls: TlsMode::Require, ..tcp }, &[]).await, offers) {
            (Ok(mut session), true) => {
                let found = row(&mut session, "SHOW STATUS LIKE 'Ssl_cipher'").await;
                assert!(found[1].as_ref().is_some_and(|cipher| !cipher.is_empty()));
                assert_eq!(run(&mut session, "SELECT REPEAT('x', 100000)").await.expect("a row").rows, 1);
            }
            (Err(failure), false) => assert!(failure.message.contains("does not offer TLS"), "{failure}"),
            (result, _) => panic!("{:?} though offers={offers}", result.err()),
        }
    });
}

#[test]
fn who_does_not_speak_the_protocol_is_refused() {
    block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let access = Access { host: "127.0.0.1".to_owned(), port, ..Access::default() };
        let answer = |bytes: &'static [u8]| {
            let listener = &listener;
            async move {
                let (mut stream, _) = listener.accept().await.expect("a client");
                tokio::io::AsyncWriteExt::write_all(&mut stream, bytes).await.expect("written");
            }
        };
        for bytes in [&b"HTTP/1.1 400 Bad Request\r\n"[..], b"\x02\0\0\0\x09x"] {
            let (result, ()) = tokio::join!(try_connect(&access, &[]), answer(bytes));
            let failure = result.err().expect("refused");
            assert_eq!(failure.class, ErrorClass::Protocol);
            assert!(failure.message.ends_with("does not speak MySQL's protocol"), "{failure}");
        }
        let (result, ()) = tokio::join!(try_connect(&access, &[]), answer(b"\x02\0\0"));
        let failure = result.err().expect("refused");
        let expected = format!("cannot connect to 127.0.0.1:{port}: the server closed the connection");
        assert_eq!((failure.class, failure.message), (ErrorClass::Connect, expected));
        drop(listener);
        let failure = try_connect(&access, &[]).await.err().expect("refused");
        assert_eq!(failure.class, ErrorClass::Connect);
    });
}

/// Runs a user to its end, or for `n` operations.
async fn drive(session: &mut MysqlSession, sources: &dyn Sources<Sql>, user: u32, n: u32) {
    let mut source = sources.source(user, 5 + u64::from(user));
    let (mut request, mut answer) = (SqlRequest::default(), SqlAnswer::default());
    for _ in 0..n {
        if source.begin().is_none() {
            return;
        }
        while source.step(&mut request) == Step::Request {
            session.run(&request, &mut answer).await.unwrap_or_else(|failure| panic!("{failure}: {request:?}"));
            source.answer(&answer);
        }
        source.end(true);
    }
}

async fn load_all(access: &Access, load: &YcsbLoadSources) {
    for user in 0..2 {
        let driver = Mysql::new(access.clone(), load.statements().into()).expect("sound");
        drive(&mut driver.connect().await.expect("connected"), load, user, u32::MAX).await;
    }
}

#[test]
fn ycsb_loads_its_table_and_runs_every_operation() {
    with_server(|access| async move {
        let mut setup = connect(&access, &[]).await;
        let fields: Vec<String> = (0..10).map(|field| format!("field{field} TEXT")).collect();
        let create =
            format!("CREATE OR REPLACE TABLE t_ycsb (ycsb_key VARCHAR(255) PRIMARY KEY, {})", fields.join(", "));
        run(&mut setup, &create).await.expect("created");
        let rows = Rows { schema: Schema::default(), start: 0, n_records: 1_003, batch_rows: 50, content_seed: 1 };
        let load = YcsbLoadSources::new(rows, 2, Dialect::Mysql, "t_ycsb").expect("sound");
        load_all(&access, &load).await;
        assert_eq!(
            row(&mut setup, "SELECT COUNT(*), SUM(LENGTH(field9)) FROM t_ycsb").await,
            some(&["1003", "100300"])
        );
        let proportions = Proportions { read: 0.2, update: 0.2, insert: 0.2, scan: 0.2, read_modify_write: 0.2 };
        for (letter, is_whole) in [('a', true), ('d', false)] {
            let workload = Workload {
                proportions,
                writes_all_fields: !is_whole,
                reads_all_fields: is_whole,
                start: if is_whole { 0 } else { 500 },
                n_records: if is_whole { 1_003 } else { 503 },
                ..Workload::core(letter, 1).expect("a core workload")
            };
            let ycsb = YcsbSources::new(workload, Dialect::Mysql, "t_ycsb").expect("sound");
            let driver = Mysql::new(access.clone(), ycsb.statements().into()).expect("sound");
            drive(&mut driver.connect().await.expect("connected"), &ycsb, 0, 500).await;
            assert!(ycsb.inserted().end > 1_050);
            let numbers = ycsb.inserted();
            let keys = row(&mut setup, "SELECT COUNT(*) FROM t_ycsb").await[0].clone().expect("a count");
            assert_eq!(keys, numbers.end.to_string());
            run(&mut setup, "TRUNCATE t_ycsb").await.expect("emptied");
            load_all(&access, &load).await;
        }
        run(&mut setup, "DROP TABLE t_ycsb").await.expect("dropped");
    });
}
