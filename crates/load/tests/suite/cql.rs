//! A node within the test, which speaks version 4 only: clients that begin with 5 are told so. Real nodes are for the tests in
//! Python, which start one.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use trimtab_load::driver::cql::{Access, Cql, RingSession};
use trimtab_load::driver::{Driver, ErrorClass, Session};
use trimtab_load::sql::{Expect, SqlAnswer, SqlCommand, SqlRequest};

use super::Subject;

pub(super) struct CqlSubject(Access);

const STATEMENTS: [&str; 3] = ["quick ?", "slow", "forgotten"];
const PASSWORD: &str = "horse";

fn driver(access: &Access) -> Cql {
    Cql::new(access.clone(), Arc::from(STATEMENTS.map(str::to_owned))).expect("legal access")
}

/// A thread for each connection.
fn serve() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            std::thread::spawn(move || Node { stream, n_forgotten: AtomicU32::new(0) }.answer());
        }
    });
    port
}

struct Node {
    stream: TcpStream,
    n_forgotten: AtomicU32,
}

impl Node {
    /// Whoever asks may leave at any moment.
    fn answer(&self) -> Option<()> {
        loop {
            let mut head = [0; 9];
            (&self.stream).read_exact(&mut head).ok()?;
            let mut body = vec![0; u32::from_be_bytes(head[5..].try_into().ok()?) as usize];
            (&self.stream).read_exact(&mut body).ok()?;
            let (stream, opcode) = ([head[2], head[3]], head[4]);
            if head[0] != 4 {
                self.say(stream, 0, &error(0x000a, "Invalid or unsupported protocol version"))?;
                continue;
            }
            let text = String::from_utf8_lossy(&body).into_owned();
            match opcode {
                0x01 => self.say(stream, 3, b"\0\x05Plain")?,
                0x0f if text.ends_with(&format!("\0me\0{PASSWORD}")) => self.say(stream, 0x10, b"\xff\xff\xff\xff")?,
                0x0f => self.say(stream, 0, &error(0x0100, "Provided username me and/or password are incorrect"))?,
                0x09 => self.say(stream, 8, &prepared(&text[4..]))?,
                0x0a if text.contains("slow") => {}
                0x0a if text.contains("forgotten") && self.n_forgotten.fetch_add(1, Ordering::SeqCst) == 0 => {
                    self.say(stream, 0, &error(0x2500, "Prepared query was not found"))?;
                }
                0x0a => self.say(stream, 8, &rows(1))?,
                _ if text.contains("nothing") => self.say(stream, 0, &error(0x2200, "table nothing does not exist"))?,
                _ if text.contains("two") => self.say(stream, 8, &rows(2))?,
                _ => self.say(stream, 8, &[0, 0, 0, 1])?,
            }
            if text.contains("hang up") {
                return None;
            }
        }
    }

    fn say(&self, stream: [u8; 2], opcode: u8, body: &[u8]) -> Option<()> {
        let mut bytes = vec![0x84, 0, stream[0], stream[1], opcode];
        bytes.extend((body.len() as u32).to_be_bytes());
        bytes.extend(body);
        (&self.stream).write_all(&bytes).ok()
    }
}

fn error(code: i32, words: &str) -> Vec<u8> {
    [&code.to_be_bytes()[..], &(words.len() as u16).to_be_bytes(), words.as_bytes()].concat()
}

/// So many rows of one column of 100 bytes.
fn rows(n: u32) -> Vec<u8> {
    let mut body = [2, 4, 1, n].map(u32::to_be_bytes).concat();
    for _ in 0..n {
        body.extend(100_u32.to_be_bytes());
        body.extend([b'x'; 100]);
    }
    body
}

/// A statement whose name is its text, and whose parameters are whole numbers.
fn prepared(text: &str) -> Vec<u8> {
    let n_params = text.matches('?').count() as u32;
    let mut body = 4_u32.to_be_bytes().to_vec();
    body.extend((text.len() as u16).to_be_bytes());
    body.extend(text.as_bytes());
    body.extend([1, n_params, 0].map(u32::to_be_bytes).concat());
    body.extend(b"\0\x01k\0\x01t");
    for _ in 0..n_params {
        body.extend(b"\0\x01p\0\x09");
    }
    body.extend([4, 0].map(u32::to_be_bytes).concat());
    body
}

impl Subject for CqlSubject {
    type Driver = Cql;
    const REOPENS: bool = false;

    fn find() -> Option<Self> {
        Some(Self(Access {
            host: "127.0.0.1".to_owned(),
            port: serve(),
            user: "me".to_owned(),
            password: Some(PASSWORD.to_owned()),
            ..Access::default()
        }))
    }

    fn driver(&self) -> Cql {
        driver(&self.0)
    }

    fn nowhere(&self) -> Cql {
        driver(&Access { port: 1, ..self.0.clone() })
    }

    fn quick(&self, request: &mut SqlRequest) {
        request.command = SqlCommand::Prepared(0);
        request.params.push_int(100);
        request.expect = Expect { rows: Some((1, 1)), column_bytes: Some(100) };
    }

    fn slow(&self, request: &mut SqlRequest) {
        request.command = SqlCommand::Prepared(1);
    }

    fn wrong(&self, request: &mut SqlRequest) -> ErrorClass {
        request.command = SqlCommand::Text("nothing".into());
        ErrorClass::Statement
    }

    fn unexpected(&self, request: &mut SqlRequest) {
        request.command = SqlCommand::Text("two".into());
        request.expect.rows = Some((3, 4));
    }

    async fn hang_up(&self, session: &mut RingSession) {
        let (mut request, mut answer) = (SqlRequest::default(), SqlAnswer::default());
        request.command = SqlCommand::Text("hang up".into());
        session.run(&request, &mut answer).await.expect("its last answer");
    }
}

async fn forgets(subject: CqlSubject) {
    let mut session = subject.driver().connect().await.expect("a node that lets us in");
    let (mut request, mut answer) = (SqlRequest::default(), SqlAnswer::default());
    request.command = SqlCommand::Prepared(2);
    request.expect.rows = Some((1, 1));
    assert_eq!(session.run(&request, &mut answer).await, Ok(1));
    assert_eq!((session.version(), session.n_nodes()), (Some(4), 1));
}

#[test]
fn a_statement_that_the_node_has_forgotten_is_prepared_again() {
    crate::run::<CqlSubject, _>(forgets);
}

async fn begins(subject: CqlSubject) {
    let mut session = subject.driver().connect().await.expect("a node that lets us in");
    let failure = session.run(&SqlRequest::default(), &mut SqlAnswer::default()).await.expect_err("refused");
    assert_eq!((failure.class, failure.message.as_str()), (ErrorClass::Statement, "such servers have no transactions"));
}

#[test]
fn a_transaction_is_refused() {
    crate::run::<CqlSubject, _>(begins);
}

async fn enters(subject: CqlSubject) {
    for (password, words) in [
        (None, "the server asks for a password (Plain), and none is given"),
        (Some("donkey"), "0x0100 Provided username me and/or password are incorrect"),
    ] {
        let access = Access { password: password.map(str::to_owned), ..subject.0.clone() };
        let failure = driver(&access).connect().await.err().expect("refused");
        assert_eq!((failure.class, failure.to_string()), (ErrorClass::Permission, words.to_owned()));
    }
}

#[test]
fn a_wrong_password_is_told() {
    crate::run::<CqlSubject, _>(enters);
}

#[test]
fn a_console_asks_without_a_runtime_of_the_caller() {
    let subject = CqlSubject::find().expect("a node");
    let limit = std::time::Duration::from_secs(60);
    let mut console = driver(&subject.0).console(limit).map_err(|failure| failure.message).expect("opened");
    assert_eq!(console.rows("two", limit).map(|rows| rows.len()), Ok(2));
    assert_eq!(console.rows("nothing", limit).expect_err("refused").class, ErrorClass::Statement);
    assert_eq!(console.copy("two", "quick ?", limit), Ok(2));
    let brief = std::time::Duration::from_millis(20);
    assert_eq!(console.copy("two", "slow", brief).expect_err("no answer").class, ErrorClass::Timeout);
    console.close();
}

#[test]
fn a_console_waits_no_longer_than_whoever_asks() {
    let subject = CqlSubject::find().expect("a node");
    let limit = std::time::Duration::from_secs(60);
    let is_awaited = Arc::new(AtomicBool::new(true));
    let asked = Arc::clone(&is_awaited);
    let console = driver(&subject.0).console_while(limit, Box::new(move || asked.load(Ordering::SeqCst)));
    let mut console = console.map_err(|failure| failure.message).expect("opened");
    is_awaited.store(false, Ordering::SeqCst);
    let failure = console.copy("two", "slow", limit).expect_err("nobody waits");
    assert_eq!(failure.message, "nobody waits for the answer any more");
}
