//! Servers whose answers are damaged on the way, in whatever place: a driver fails the request, and never panics or hangs.

use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::time::timeout;
use trimtab_load::driver::http::{self, HttpDriver};
use trimtab_load::driver::{Access, Driver, Session, cql, mongodb, mysql, postgresql};
use trimtab_load::http::HttpRequest;
use trimtab_load::pairs::PairsRequest;
use trimtab_load::protocol::Protocol;
use trimtab_load::random::Random;
use trimtab_load::sql::{Expect, SqlCommand, SqlRequest};

type Request<D> = <<D as Driver>::Protocol as Protocol>::Request;
type Answer<D> = <<D as Driver>::Protocol as Protocol>::Answer;

/// So many times each conversation is damaged.
const ROUNDS: u64 = 150;

/// All that a server says to one connection, with a place or two changed, cut or doubled.
fn damaged(sound: &[u8], random: &mut Random) -> Vec<u8> {
    let mut said = sound.to_vec();
    let place = |random: &mut Random, n: usize| random.below(n as u64) as usize;
    for _ in 0..=random.below(2) {
        let at = place(random, said.len());
        match random.below(5) {
            0 => said.truncate(at + 1),
            1 => said[at] = [0, 1, 0x7f, 0x80, 0xff][place(random, 5)],
            2 => said[at] ^= 1 << random.below(8),
            3 => _ = said.remove(at),
            _ => {
                let end = at + place(random, said.len() - at);
                let part = said[at..end].to_vec();
                said.splice(at..at, part);
            }
        }
        if said.is_empty() {
            break;
        }
    }
    said
}

/// Runs `request` on a connection of its own to servers that say `sound`, first as it is; `waits`: for a request.
async fn survives<D: Driver>(sound: &[u8], waits: bool, request: Request<D>, driver: impl FnOnce(u16) -> D)
where
    Answer<D>: Default,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let driver = driver(listener.local_addr().expect("an address").port());
    for seed in 0..ROUNDS {
        let mut random = Random::new(7, seed);
        let said = if seed == 0 { sound.to_vec() } else { damaged(sound, &mut random) };
        let serving = async {
            loop {
                let (mut stream, _) = listener.accept().await.expect("a client");
                if waits {
                    _ = stream.read(&mut [0; 1024]).await;
                }
                // Who has heard enough has gone.
                let _ = stream.write_all(&said).await;
                let _ = stream.shutdown().await;
                let _ = stream.read_to_end(&mut Vec::new()).await;
            }
        };
        let asking = async {
            let mut session = driver.connect().await?;
            let found = session.run(&request, &mut Answer::<D>::default()).await;
            session.close().await;
            found
        };
        let both = async {
            tokio::select! {
                found = asking => found,
                () = serving => unreachable!("it serves without end"),
            }
        };
        let found = timeout(Duration::from_secs(5), both).await;
        let found = found.unwrap_or_else(|_| panic!("seed {seed} hangs: {:?}", said.escape_ascii().to_string()));
        assert!(seed > 0 || found == Ok(1), "{found:?}");
    }
}

fn block(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    tokio::task::LocalSet::new().block_on(&runtime, test);
}

fn access(port: u16) -> Access {
    Access { host: "127.0.0.1".to_owned(), port, user: "me".to_owned(), ..Access::default() }
}

/// The only statement, with a row that is looked at in every way.
fn look() -> SqlRequest {
    let mut request = SqlRequest { command: SqlCommand::Prepared(0), wants_row: true, ..SqlRequest::default() };
    request.expect = Expect { rows: Some((1, 1)), column_bytes: Some(2) };
    request.params.push_int(1);
    request
}

fn statement() -> Arc<[String]> {
    Arc::new(["SELECT".to_owned()])
}

#[test]
fn postgresql() {
    let message = |tag: u8, body: &[u8]| [&[tag], &(body.len() as u32 + 4).to_be_bytes()[..], body].concat();
    let sound = [
        message(b'R', &[0; 4]),
        message(b'S', b"a\0b\0"),
        message(b'K', &[0, 0, 0, 5, 0, 0, 0, 6]),
        message(b'Z', b"I"),
        message(b'1', b""),
        message(b't', &[0, 1, 0, 0, 0, 23]),
        message(b'n', b""),
        message(b'Z', b"I"),
        message(b'2', b""),
        message(b'D', b"\0\x02\0\0\0\x02ab\0\0\0\x02cd"),
        message(b'C', b"SELECT 1\0"),
        message(b'Z', b"I"),
    ]
    .concat();
    let driver = |port| postgresql::Postgres::new(access(port), statement()).expect("sound");
    block(survives(&sound, false, look(), driver));
}

#[test]
fn mysql() {
    let packet = |number: u8, payload: &[u8]| [&[payload.len() as u8, 0, 0, number], payload].concat();
    let mut greeting = b"\x0a8.0.36\0\x07\0\0\0abcdefgh\0\xff\xf7\x2d\x02\0\xff\x01\x15".to_vec();
    greeting.extend([0; 10]);
    greeting.extend(b"ijklmnopqrst\0mysql_native_password\0");
    let column = |kind: u8| [b"\x03def\0\0\0\x01c\0\x0c\x2d\0\x04\0\0\0", &[kind, 0, 0, 0, 0, 0][..]].concat();
    let sound = [
        packet(0, &greeting),
        packet(2, b"\0\0\0\x02\0\0\0"),
        packet(1, b"\0\x01\0\0\0\x03\0\x01\0\0\0\0"),
        packet(2, &column(8)),
        packet(3, &column(253)),
        packet(4, &column(11)),
        packet(5, &column(3)),
        packet(1, b"\x03"),
        packet(2, &column(253)),
        packet(3, &column(253)),
        packet(4, &column(3)),
        packet(5, b"\0\0\x02ab\x02cd\x0a\0\0\0"),
        packet(6, b"\xfe\0\0\x02\0\0\0"),
    ]
    .concat();
    let driver = |port| mysql::Mysql::new(access(port), statement()).expect("sound");
    block(survives(&sound, false, look(), driver));
}

#[test]
fn cql() {
    let message = |stream: u8, opcode: u8, body: &[u8]| {
        [&[0x84, 0, 0, stream, opcode], &(body.len() as u32).to_be_bytes()[..], body].concat()
    };
    let words = |words: &[i32]| words.iter().flat_map(|word| word.to_be_bytes()).collect::<Vec<u8>>();
    let named = b"\0\x02ks\0\x01t";
    let prepared = [&words(&[4])[..], b"\0\x02id", &words(&[1, 1, 1]), b"\0\0", named, b"\0\x01k\0\x09"].concat();
    let described = [&words(&[1, 2])[..], named, b"\0\x01a\0\x0d\0\x01b\0\x20\0\x13"].concat();
    let rows = [&words(&[2])[..], &described, &words(&[1, 2]), b"ab", &words(&[2]), b"cd"].concat();
    let sound =
        [message(0, 2, b""), message(1, 8, &[&prepared[..], &described].concat()), message(2, 8, &rows)].concat();
    let driver = |port| {
        let settings =
            [("protocol", "4"), ("token_aware", "no")].map(|(name, value)| (name.to_owned(), value.to_owned()));
        let access = Access { settings: settings.into(), ..access(port) };
        cql::Cql::new(access, statement()).expect("sound")
    };
    block(survives(&sound, false, look(), driver));
}

#[test]
fn mongodb() {
    let text = |name: &str, value: &str| {
        [b"\x02", name.as_bytes(), b"\0", &(value.len() as u32 + 1).to_le_bytes(), value.as_bytes(), b"\0"].concat()
    };
    let document = |elements: &[u8]| [&(elements.len() as u32 + 5).to_le_bytes()[..], elements, b"\0"].concat();
    let within =
        |kind: u8, name: &str, elements: &[u8]| [&[kind], name.as_bytes(), b"\0", &document(elements)].concat();
    let ok = b"\x01ok\0\0\0\0\0\0\0\xf0\x3f";
    let answer = |asked: u32, elements: &[u8]| {
        let body = document(&[elements, ok].concat());
        let words = [body.len() as u32 + 21, 9, asked, 2013, 0].map(u32::to_le_bytes).concat();
        [&words[..], b"\0", &body].concat()
    };
    let field = b"\x05field0\0\x02\0\0\0\0ab";
    let record = within(3, "0", &[&text("_id", "k")[..], field].concat());
    let cursor = within(3, "cursor", &[within(4, "firstBatch", &record), text("ns", "a.b")].concat());
    let sound = [answer(1, b"\x08isWritablePrimary\0\x01"), answer(2, &cursor)].concat();
    let mut request = PairsRequest::default();
    request.push_key(|key| key.push('k'));
    (request.n_fields, request.limit, request.rows, request.field_bytes) = (1, 1, Some((1, 1)), Some(2));
    let driver = |port| {
        let access = Access { user: String::new(), ..access(port) };
        mongodb::Mongodb::new(access, "c").expect("sound")
    };
    block(survives(&sound, false, request, driver));
}

#[test]
fn http() {
    let head = "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nSet-Cookie: a=b; Max-Age=5\r\n";
    let bodies = [
        "Content-Length: 5\r\n\r\nhello",
        "Transfer-Encoding: chunked\r\n\r\n3;x=y\r\nhel\r\n2\r\nlo\r\n0\r\nt: u\r\n\r\n",
        "Connection: close\r\n\r\nhello",
    ];
    for body in bodies {
        let driver = |port| {
            let access = http::Access { host: "127.0.0.1".to_owned(), port, ..http::Access::default() };
            HttpDriver::new(&access).expect("sound")
        };
        let request = HttpRequest { keeps_body: true, ..HttpRequest::default() };
        block(survives(format!("{head}{body}").as_bytes(), true, request, driver));
    }
}
