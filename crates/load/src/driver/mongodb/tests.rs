//! The driver against a server of our own that speaks the protocol: it keeps documents in order of their keys, and knows one user.

use std::collections::BTreeMap;
use std::future::Future;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use ring::{digest, hmac, pbkdf2};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, UnixListener};

use super::bson::{Document, Value, Writer};
use super::{Mongodb, MongodbSession};
use crate::driver::{Access, Driver, ErrorClass, Failure, Session, TlsMode};
use crate::pairs::{Command, PairsAnswer, PairsRequest};

type Kept = BTreeMap<String, BTreeMap<String, Vec<u8>>>;
type Records = Arc<Mutex<Kept>>;

const SALT: &[u8] = b"salted";
const SERVER_NONCE: &str = "server";

/// What the server does apart from serving.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
enum Manner {
    #[default]
    Plain,
    Secondary,
    AsksForLogin,
    ClosesInAnswer,
    AnswersOthers,
    IsBusy,
}

fn block<T>(test: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    tokio::task::LocalSet::new().block_on(&runtime, test)
}

async fn served(manner: Manner) -> Access {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address: SocketAddr = listener.local_addr().expect("an address");
    let records = Records::default();
    tokio::task::spawn_local(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::task::spawn_local(serve(stream, Arc::clone(&records), manner));
        }
    });
    let (host, database) = ("127.0.0.1".to_owned(), "bench".to_owned());
    Access { host, port: address.port(), database, ..Access::default() }
}

async fn serve(mut stream: impl AsyncRead + AsyncWrite + Unpin, records: Records, manner: Manner) {
    let (mut scram, mut is_known) = (String::new(), manner != Manner::AsksForLogin);
    loop {
        let Ok(length) = stream.read_u32_le().await else { return };
        let mut message = vec![0; length as usize - 4];
        if stream.read_exact(&mut message).await.is_err() {
            return;
        }
        let asked = u32::from_le_bytes(*message.first_chunk().expect("a header"));
        let (command, _) = Document::split(&message[17..]).expect("a document");
        let mut out = Writer::default();
        let header = [0, 7, if manner == Manner::AnswersOthers { asked + 1 } else { asked }, 2013, 0_u32];
        header.iter().for_each(|word| out.bytes.extend_from_slice(&word.to_le_bytes()));
        out.bytes.push(0);
        out.begin();
        let (name, _) = command.elements().next().flatten().expect("a command");
        match name {
            "hello" => out.flag("isWritablePrimary", manner != Manner::Secondary),
            "saslStart" | "saslContinue" => is_known |= challenge(command, &mut scram, &mut out),
            _ if !is_known => refuse(13, "command requires authentication", &mut out),
            _ if manner == Manner::IsBusy => refuse(112, "WriteConflict", &mut out),
            _ => answer(name, command, &records, &mut out),
        }
        out.int("ok", 1);
        out.close();
        let length = out.bytes.len();
        out.bytes[..4].copy_from_slice(&(length as u32).to_le_bytes());
        let cut = if manner == Manner::ClosesInAnswer && name != "hello" { length / 2 } else { length };
        if stream.write_all(&out.bytes[..cut]).await.is_err() || cut < length {
            return;
        }
    }
}

/// The first "ok" of a document counts.
fn refuse(code: i32, words: &str, out: &mut Writer) {
    out.int("ok", 0);
    out.int("code", code);
    out.text("errmsg", words);
}

/// The server's side of the conversation; whether the user is known by it.
fn challenge(command: Document<'_>, first: &mut String, out: &mut Writer) -> bool {
    let Some(Value::Bytes(payload)) = command.get("payload") else { panic!("a payload") };
    let said = std::str::from_utf8(payload).expect("a text");
    out.int("conversationId", 5);
    if let Some(bare) = said.strip_prefix("n,,") {
        assert!(bare.starts_with("n=me,r="), "{bare}");
        let nonce = bare.split_once("r=").expect("a nonce").1;
        let told = format!("r={nonce}{SERVER_NONCE},s=c2FsdGVk,i=4096");
        *first = format!("{bare},{told}");
        out.binary("payload", told.as_bytes());
        return false;
    }
    let (without, proof) = said.split_once(",p=").expect("a proof");
    let mut salted = [0; 32];
    let rounds = std::num::NonZeroU32::new(4096).expect("a number");
    pbkdf2::derive(pbkdf2::PBKDF2_HMAC_SHA256, rounds, SALT, b"horse", &mut salted);
    let sign = |key: &[u8], text: &[u8]| hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), text);
    let client = sign(&salted, b"Client Key");
    let stored = digest::digest(&digest::SHA256, client.as_ref());
    let text = format!("{first},{without}");
    let signature = sign(stored.as_ref(), text.as_bytes());
    let wanted: Vec<u8> = client.as_ref().iter().zip(signature.as_ref()).map(|(a, b)| a ^ b).collect();
    if super::auth::decode(proof) != Some(wanted) {
        refuse(18, "Authentication failed.", out);
        return false;
    }
    let server = sign(sign(&salted, b"Server Key").as_ref(), text.as_bytes());
    out.binary("payload", format!("v={}", super::auth::encode(server.as_ref())).as_bytes());
    out.flag("done", true);
    true
}

fn answer(name: &str, command: Document<'_>, records: &Records, out: &mut Writer) {
    assert_eq!(command.get(name).and_then(Value::text), Some("usertable"));
    assert_eq!(command.get("$db").and_then(Value::text), Some("bench"));
    let mut records = records.lock().expect("no panic");
    match name {
        "find" => find(command, &records, out),
        "insert" => insert(command, &mut records, out),
        "update" => update(command, &mut records, out),
        _ => refuse(59, "no such command", out),
    }
}

fn find(command: Document<'_>, records: &Kept, out: &mut Writer) {
    let id = command.get("filter").and_then(Value::document).and_then(|filter| filter.get("_id"));
    let limit = command.get("limit").and_then(Value::number).expect("a limit") as usize;
    let (from, is_scan) = match id.expect("a key") {
        Value::Text(key) => (key.to_owned(), false),
        Value::Document(range) => (range.get("$gte").and_then(Value::text).expect("a key").to_owned(), true),
        other => panic!("{other:?}"),
    };
    let wanted = command.get("projection").and_then(Value::document);
    out.document("cursor");
    out.array("firstBatch");
    let found = records.range(from.clone()..).filter(|(key, _)| is_scan || **key == from).take(limit);
    for (index, (key, fields)) in found.enumerate() {
        out.document(&index.to_string());
        out.text("_id", key);
        for (name, value) in fields.iter().filter(|(name, _)| wanted.is_none_or(|w| w.get(name).is_some())) {
            out.binary(name, value);
        }
        out.close();
    }
    out.close();
    out.close();
}

fn insert(command: Document<'_>, records: &mut Kept, out: &mut Writer) {
    let documents = command.get("documents").and_then(Value::document).expect("documents");
    let mut n = 0;
    for (_, document) in documents.elements().flatten() {
        let document = document.document().expect("a document");
        let key = document.get("_id").and_then(Value::text).expect("a key").to_owned();
        if records.contains_key(&key) {
            out.array("writeErrors");
            out.document("0");
            out.int("code", 11_000);
            out.text("errmsg", "E11000 duplicate key error");
            out.close();
            out.close();
            break;
        }
        records.insert(key, fields_of(document));
        n += 1;
    }
    out.int("n", n);
}

fn update(command: Document<'_>, records: &mut Kept, out: &mut Writer) {
    let update = command.get("updates").and_then(Value::document).and_then(|updates| updates.get("0"));
    let update = update.and_then(Value::document).expect("an update");
    let key = update.get("q").and_then(Value::document).and_then(|q| q.get("_id")).and_then(Value::text);
    let set = update.get("u").and_then(Value::document).and_then(|u| u.get("$set")).and_then(Value::document);
    let record = records.get_mut(key.expect("a key"));
    out.int("n", i32::from(record.is_some()));
    if let Some(record) = record {
        record.extend(fields_of(set.expect("fields")));
    }
}

fn fields_of(document: Document<'_>) -> BTreeMap<String, Vec<u8>> {
    let plain = |(name, value): (&str, Value<'_>)| match value {
        Value::Bytes(bytes) => Some((name.to_owned(), bytes.to_vec())),
        _ => None,
    };
    document.elements().flatten().filter_map(plain).collect()
}

async fn session(manner: Manner) -> MongodbSession {
    let access = served(manner).await;
    Mongodb::new(access, "usertable").expect("legal").connect().await.expect("a connection")
}

fn keyed(command: Command, key: &str) -> PairsRequest {
    let mut request = PairsRequest::default();
    request.begin(command, 2);
    request.push_key(|text| text.push_str(key));
    request.rows = Some((1, 1));
    request
}

fn with_values(mut request: PairsRequest, values: &[&str]) -> PairsRequest {
    values.iter().for_each(|value| request.push_value(|text| text.push_str(value)));
    request
}

async fn run(session: &mut MongodbSession, request: &PairsRequest) -> Result<u64, Failure> {
    session.run(request, &mut PairsAnswer).await
}

async fn filled() -> MongodbSession {
    let mut session = session(Manner::Plain).await;
    for key in ["b", "a", "c"] {
        let insert = with_values(keyed(Command::Insert, key), &["12345", "67890"]);
        assert_eq!(run(&mut session, &insert).await, Ok(1));
    }
    session
}

#[test]
fn records_are_written_and_read() {
    block(async {
        let mut session = filled().await;
        let mut get = keyed(Command::Get, "a");
        get.field_bytes = Some(5);
        assert_eq!(run(&mut session, &get).await, Ok(1));
        get.field = Some(1);
        assert_eq!(run(&mut session, &get).await, Ok(1));
        let mut update = with_values(keyed(Command::Update, "a"), &["xyz"]);
        update.field = Some(1);
        assert_eq!(run(&mut session, &update).await, Ok(1));
        let wrong = run(&mut session, &get).await.expect_err("another length");
        assert_eq!((wrong.class, wrong.message.as_str()), (ErrorClass::Validation, "a field of 3 bytes instead of 5"));
        assert!(!session.is_lost());
    });
}

#[test]
fn a_scan_goes_on_in_the_order_of_keys() {
    block(async {
        let mut session = filled().await;
        let mut scan = keyed(Command::Scan, "aa");
        (scan.limit, scan.rows) = (10, Some((1, 10)));
        assert_eq!(run(&mut session, &scan).await, Ok(2));
        scan.limit = 1;
        assert_eq!(run(&mut session, &scan).await, Ok(1));
    });
}

#[test]
fn what_is_not_there_and_what_is_there_already_are_told() {
    block(async {
        let mut session = filled().await;
        let missing = run(&mut session, &keyed(Command::Get, "x")).await.expect_err("no record");
        assert_eq!(missing.message, "0 records instead of 1");
        let twice = with_values(keyed(Command::Insert, "a"), &["1", "2"]);
        let twice = run(&mut session, &twice).await.expect_err("it is there");
        assert_eq!((twice.class, twice.code.as_deref()), (ErrorClass::Constraint, Some("11000")));
        let mut update = with_values(keyed(Command::Update, "x"), &["1"]);
        update.field = Some(0);
        assert_eq!(run(&mut session, &update).await.expect_err("no record").class, ErrorClass::Validation);
    });
}

#[test]
fn a_conflict_may_be_tried_again() {
    block(async {
        let mut session = session(Manner::IsBusy).await;
        let failure = run(&mut session, &keyed(Command::Get, "a")).await.expect_err("a conflict");
        assert!(failure.class.is_retryable());
        assert_eq!(failure.to_string(), "112 WriteConflict");
        assert!(!session.is_lost());
    });
}

#[test]
fn users_are_let_in_by_their_password() {
    block(async {
        let access = served(Manner::AsksForLogin).await;
        let entered = |user: &str, password: &str| {
            let (user, password) = (user.to_owned(), Some(password.to_owned()));
            Mongodb::new(Access { user, password, ..access.clone() }, "usertable").expect("legal")
        };
        let mut session = entered("me", "horse").connect().await.expect("the right password");
        let insert = with_values(keyed(Command::Insert, "k"), &["1", "2"]);
        assert_eq!(run(&mut session, &insert).await, Ok(1));
        let refused = entered("me", "donkey").connect().await.err().expect("the wrong password");
        assert_eq!(refused.class, ErrorClass::Permission);
        assert_eq!(refused.to_string(), "18 cannot log in: Authentication failed.");
        assert!(!refused.to_string().contains("donkey"));
        // As RFC 4013 prepares it: a soft hyphen is nothing, and a wide letter is a letter.
        entered("me", "hor\u{ad}s\u{ff45}").connect().await.expect("the same password");
        let refused = entered("me", "horse\u{7}").connect().await.err().expect("no password of this mechanism");
        assert_eq!(refused.class, ErrorClass::Permission);
        assert!(refused.to_string().contains("SCRAM-SHA-256 does not allow"), "{refused}");
        let mut stranger = entered("", "").connect().await.expect("a connection");
        let failure = run(&mut stranger, &keyed(Command::Get, "k")).await.expect_err("no user");
        assert_eq!(failure.class, ErrorClass::Permission);
    });
}

#[test]
fn a_secondary_is_no_place_for_a_load() {
    block(async {
        let access = served(Manner::Secondary).await;
        let refused = Mongodb::new(access, "usertable").expect("legal").connect().await.err().expect("a secondary");
        assert_eq!(refused.class, ErrorClass::ReadOnly);
    });
}

#[test]
fn a_unix_socket_is_never_encrypted() {
    block(async {
        let path = std::env::temp_dir().join(format!("trimtab-mongodb-{}.sock", std::process::id()));
        let listener = UnixListener::bind(&path).expect("a socket of our own");
        tokio::task::spawn_local(async move {
            let (stream, _) = listener.accept().await.expect("a client");
            serve(stream, Records::default(), Manner::Plain).await;
        });
        let host = path.to_str().expect("text").to_owned();
        let access = Access { host, tls: TlsMode::Require, ..Access::default() };
        let connected = Mongodb::new(access, "usertable").expect("legal").connect().await;
        std::fs::remove_file(&path).expect("it is there");
        assert_eq!(connected.err(), None);
    });
}

#[test]
fn a_connection_that_breaks_or_errs_is_lost() {
    block(async {
        let mut session = session(Manner::ClosesInAnswer).await;
        let failure = run(&mut session, &keyed(Command::Get, "a")).await.expect_err("half an answer");
        assert_eq!(failure.class, ErrorClass::Connect);
        assert!(session.is_lost());
        let access = served(Manner::AnswersOthers).await;
        let refused = Mongodb::new(access, "usertable").expect("legal").connect().await.err().expect("not our answer");
        assert_eq!(refused.class, ErrorClass::Protocol);
    });
}

#[test]
fn a_request_that_was_cut_off_takes_its_connection_along() {
    block(async {
        let mut session = session(Manner::Plain).await;
        let request = keyed(Command::Get, "a");
        {
            let mut answer = PairsAnswer;
            let mut running = std::pin::pin!(session.run(&request, &mut answer));
            let once = std::future::poll_fn(|cx| std::task::Poll::Ready(running.as_mut().poll(cx).is_pending()));
            assert!(once.await, "nothing can have come yet");
        }
        assert!(session.is_lost());
    });
}

#[test]
fn settings_that_are_not_known_are_refused() {
    let settings = vec![("retryWrites".to_owned(), "true".to_owned())];
    let refused = Mongodb::new(Access { settings, ..Access::default() }, "usertable").err().expect("unknown");
    assert_eq!(refused, "settings: retryWrites is not known; there is authSource");
}
