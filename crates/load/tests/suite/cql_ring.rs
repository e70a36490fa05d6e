//! A ring of three nodes within the test, on three addresses of this machine: each says whose tokens are whose, and counts what it is
//! asked. A real ring is for the tests in Python.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::task::LocalSet;
use tokio::time::{sleep, timeout};
use trimtab_load::driver::cql::{Access, Cql, RingSession};
use trimtab_load::driver::{Driver, ErrorClass, Failure, Session};
use trimtab_load::sql::{SqlAnswer, SqlCommand, SqlRequest};

/// The first has a key, the second has none.
const STATEMENTS: [&str; 2] = ["read ?", "count"];
/// A key of each node, whose token is at or below the node's and above that of the node before.
const KEYS: [&str; 3] = ["123", "user1", "9223372036854775807"];
const TOKENS: [i64; 3] = [-3_074_457_345_618_258_603, 3_074_457_345_618_258_602, i64::MAX];

const TEXT: &[u8] = b"\0\x0d";
const INT: &[u8] = b"\0\x09";
const INET: &[u8] = b"\0\x10";
const TEXTS: &[u8] = b"\0\x22\0\x0d";
const PAIRS: &[u8] = b"\0\x21\0\x0d\0\x0d";

/// What a node is at.
#[derive(Default)]
struct Node {
    port: u16,
    is_dead: AtomicBool,
    /// It takes requests, and answers none.
    is_mute: AtomicBool,
    n_asked: AtomicU32,
    streams: Mutex<Vec<TcpStream>>,
}

impl Node {
    fn die(&self) {
        self.is_dead.store(true, Ordering::SeqCst);
        for stream in self.streams.lock().expect("sound").drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    /// Whoever asks may leave at any moment.
    fn answer(&self, stream: &TcpStream, ring: &Ring) -> Option<()> {
        let mut stream = stream;
        loop {
            let mut head = [0; 9];
            stream.read_exact(&mut head).ok()?;
            let mut body = vec![0; u32::from_be_bytes(head[5..].try_into().ok()?) as usize];
            stream.read_exact(&mut body).ok()?;
            let text = String::from_utf8_lossy(&body).into_owned();
            let (opcode, answer) = match head[4] {
                0x01 => (2, Vec::new()),
                0x09 => (8, prepared(&text[4..])),
                _ if text.contains("system") => (8, ring.tells(&text)),
                _ => {
                    self.n_asked.fetch_add(1, Ordering::SeqCst);
                    if self.is_mute.load(Ordering::SeqCst) {
                        continue;
                    }
                    (8, vec![0, 0, 0, 1])
                }
            };
            let mut bytes = vec![0x84, 0, head[2], head[3], opcode];
            bytes.extend((answer.len() as u32).to_be_bytes());
            bytes.extend(answer);
            stream.write_all(&bytes).ok()?;
        }
    }
}

/// Its nodes; what they tell is told by the first, whom the tests' urls name.
struct Ring(Vec<Node>);

impl Ring {
    fn serve() -> Arc<Self> {
        let listeners: Vec<TcpListener> =
            (1..4).map(|n| TcpListener::bind(format!("127.0.0.{n}:0")).expect("an address")).collect();
        let node = |listener: &TcpListener| Node { port: port_of(listener), ..Node::default() };
        let ring = Arc::new(Self(listeners.iter().map(node).collect()));
        for (number, listener) in listeners.into_iter().enumerate() {
            let ring = Arc::clone(&ring);
            std::thread::spawn(move || {
                for stream in listener.incoming().flatten() {
                    ring.receive(number, stream);
                }
            });
        }
        ring
    }

    fn receive(self: &Arc<Self>, number: usize, stream: TcpStream) {
        let node = &self.0[number];
        if node.is_dead.load(Ordering::SeqCst) {
            return;
        }
        node.streams.lock().expect("sound").push(stream.try_clone().expect("a socket"));
        let ring = Arc::clone(self);
        std::thread::spawn(move || ring.0[number].answer(&stream, &ring));
    }

    fn tells(&self, text: &str) -> Vec<u8> {
        let word = |text: &str| text.as_bytes().to_vec();
        let tokens = |node: usize| list(&[&TOKENS[node].to_string()]);
        if text.contains("system.local") {
            let partitioner = word("org.apache.cassandra.dht.Murmur3Partitioner");
            return rows(&[TEXT, TEXT, TEXT, TEXTS], &[vec![word("dc"), word("rack"), partitioner, tokens(0)]]);
        }
        if text.contains("system.peers_v2") {
            let peer = |node: usize| {
                let port = u32::from(self.0[node].port).to_be_bytes().to_vec();
                vec![word("dc"), word("rack"), tokens(node), vec![127, 0, 0, node as u8 + 1], port]
            };
            return rows(&[TEXT, TEXT, TEXTS, INET, INT], &[peer(1), peer(2)]);
        }
        let mut replication =
            list(&["class", "org.apache.cassandra.locator.SimpleStrategy", "replication_factor", "2"]);
        // Four texts are two pairs.
        replication[3] = 2;
        rows(&[TEXT, PAIRS], &[vec![word("ks"), replication]])
    }

    fn driver(&self, settings: &[(&str, &str)]) -> Cql {
        let settings = settings.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let settings = [("protocol".to_owned(), "4".to_owned())].into_iter().chain(settings).collect();
        let access = Access { host: "127.0.0.1".to_owned(), port: self.0[0].port, settings, ..Access::default() };
        Cql::new(access, Arc::from(STATEMENTS.map(str::to_owned))).expect("legal access")
    }

    async fn session(&self) -> RingSession {
        self.driver(&[]).connect().await.expect("nodes that let us in")
    }

    /// How often each was asked since the last time.
    fn asked(&self) -> [u32; 3] {
        [0, 1, 2].map(|node| self.0[node].n_asked.swap(0, Ordering::SeqCst))
    }
}

fn port_of(listener: &TcpListener) -> u16 {
    listener.local_addr().expect("an address").port()
}

fn put(bytes: &[u8], out: &mut Vec<u8>) {
    out.extend((bytes.len() as u32).to_be_bytes());
    out.extend(bytes);
}

fn list(texts: &[&str]) -> Vec<u8> {
    let mut out = (texts.len() as u32).to_be_bytes().to_vec();
    texts.iter().for_each(|text| put(text.as_bytes(), &mut out));
    out
}

fn rows(kinds: &[&[u8]], rows: &[Vec<Vec<u8>>]) -> Vec<u8> {
    let mut body = [2, 1, kinds.len() as u32].map(u32::to_be_bytes).concat();
    body.extend(b"\0\x01s\0\x01t");
    for kind in kinds {
        body.extend(b"\0\x01c");
        body.extend(*kind);
    }
    body.extend((rows.len() as u32).to_be_bytes());
    rows.iter().flatten().for_each(|value| put(value, &mut body));
    body
}

/// A statement whose name is its text, of a table of keyspace "ks" with a text as its key.
fn prepared(text: &str) -> Vec<u8> {
    let n_params = u32::from(text.contains('?'));
    let mut body = 4_u32.to_be_bytes().to_vec();
    body.extend((text.len() as u16).to_be_bytes());
    body.extend(text.as_bytes());
    body.extend([n_params, n_params, n_params].map(u32::to_be_bytes).concat());
    if n_params > 0 {
        body.extend(b"\0\0\0\x02ks\0\x01t\0\x01k\0\x0d");
    }
    body.extend([4, 0].map(u32::to_be_bytes).concat());
    body
}

fn read(key: &str) -> SqlRequest {
    let mut request = SqlRequest { command: SqlCommand::Prepared(0), ..SqlRequest::default() };
    request.params.push_text(key);
    request
}

async fn ask(session: &mut RingSession, request: &SqlRequest) -> Result<u64, Failure> {
    session.run(request, &mut SqlAnswer::default()).await
}

/// Asks with this key until the node is asked again.
async fn until_asked(ring: &Ring, session: &mut RingSession, key: &str, node: usize) {
    while ring.asked()[node] == 0 {
        sleep(Duration::from_millis(20)).await;
        assert_eq!(ask(session, &read(key)).await, Ok(1));
    }
}

fn block_on(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let limited = async { timeout(Duration::from_secs(120), test).await.expect("in time") };
    LocalSet::new().block_on(&runtime, limited);
}

#[test]
fn each_request_goes_to_the_first_node_of_its_row() {
    block_on(async {
        let ring = Ring::serve();
        let mut session = ring.session().await;
        assert_eq!((session.n_nodes(), session.version()), (3, Some(4)));
        for (node, key) in KEYS.into_iter().enumerate() {
            for _ in 0..=node {
                assert_eq!(ask(&mut session, &read(key)).await, Ok(1));
            }
        }
        assert_eq!(ring.asked(), [1, 2, 3]);
        for command in [SqlCommand::Prepared(1), SqlCommand::Text("anything".into())] {
            assert_eq!(ask(&mut session, &SqlRequest { command, ..SqlRequest::default() }).await, Ok(1));
        }
        assert_eq!(ring.asked(), [2, 0, 0]);
        session.close().await;
    });
}

#[test]
fn it_can_be_turned_off() {
    block_on(async {
        let ring = Ring::serve();
        let mut session = ring.driver(&[("token_aware", "no")]).connect().await.expect("a node that lets us in");
        for key in KEYS {
            assert_eq!(ask(&mut session, &read(key)).await, Ok(1));
        }
        assert_eq!((ring.asked(), session.n_nodes()), ([3, 0, 0], 1));
    });
}

#[test]
fn requests_go_to_the_next_node_while_one_is_gone() {
    block_on(async {
        let ring = Ring::serve();
        let mut session = ring.session().await;
        ring.0[1].die();
        let failure = ask(&mut session, &read(KEYS[1])).await.expect_err("it is gone");
        let name = format!("node 127.0.0.2:{}: ", ring.0[1].port);
        assert_eq!(failure.class, ErrorClass::Connect);
        assert!(failure.message.starts_with(&name), "{failure}");
        assert!(!session.is_lost() && session.reset().await.is_ok());
        ring.asked();
        for _ in 0..5 {
            assert_eq!(ask(&mut session, &read(KEYS[1])).await, Ok(1));
        }
        assert_eq!((ring.asked(), session.n_nodes()), ([0, 0, 5], 2));
        ring.0[1].is_dead.store(false, Ordering::SeqCst);
        until_asked(&ring, &mut session, KEYS[1], 1).await;
        assert_eq!(session.n_nodes(), 3);
    });
}

#[test]
fn a_node_that_says_nothing_is_given_up_after_two_requests() {
    block_on(async {
        let ring = Ring::serve();
        let mut session = ring.session().await;
        ring.0[2].is_mute.store(true, Ordering::SeqCst);
        for _ in 0..2 {
            assert!(timeout(Duration::from_millis(250), ask(&mut session, &read(KEYS[2]))).await.is_err());
        }
        assert_eq!(ask(&mut session, &read(KEYS[2])).await, Ok(1));
        assert_eq!(ring.asked(), [1, 0, 2]);
        ring.0[2].is_mute.store(false, Ordering::SeqCst);
        until_asked(&ring, &mut session, KEYS[2], 2).await;
    });
}

#[test]
fn a_node_that_is_gone_at_the_start_is_asked_when_it_is_back() {
    block_on(async {
        let ring = Ring::serve();
        ring.0[1].die();
        let driver = ring.driver(&[]);
        let seen = std::thread::spawn({
            let driver = driver.clone();
            move || driver.nodes(Duration::from_secs(60)).expect("the first node answers")
        });
        let seen = seen.join().expect("no panic");
        assert_eq!(seen.iter().map(|(_, why)| why.is_empty()).collect::<Vec<_>>(), [true, false, true]);
        assert_eq!(seen[1].0, format!("127.0.0.2:{}", ring.0[1].port));
        let mut session = driver.connect().await.expect("nodes that let us in");
        assert_eq!(ask(&mut session, &read(KEYS[1])).await, Ok(1));
        assert_eq!((ring.asked(), session.n_nodes()), ([0, 0, 1], 2));
        ring.0[1].is_dead.store(false, Ordering::SeqCst);
        until_asked(&ring, &mut session, KEYS[1], 1).await;
    });
}

#[test]
fn a_ring_without_any_node_is_a_lost_connection() {
    block_on(async {
        let ring = Ring::serve();
        let driver = ring.driver(&[]);
        let mut session = driver.connect().await.expect("nodes that let us in");
        ring.0.iter().for_each(Node::die);
        for key in KEYS {
            assert_eq!(ask(&mut session, &read(key)).await.expect_err("gone").class, ErrorClass::Connect);
        }
        assert!(session.is_lost() && session.reset().await.is_err());
        assert_eq!(ask(&mut session, &read(KEYS[0])).await.expect_err("gone").message, "the connection is lost");
        let failure = driver.connect().await.err().expect("nobody answers");
        assert_eq!(failure.class, ErrorClass::Connect);
    });
}

#[test]
fn a_request_over_a_ring_allocates_nothing() {
    block_on(async {
        let ring = Ring::serve();
        let mut session = ring.session().await;
        let (requests, mut answer) = (KEYS.map(read), SqlAnswer::default());
        let mut before = 0;
        for turn in 0..500 {
            if turn == 100 {
                before = crate::N_ALLOCATIONS.get();
            }
            assert_eq!(session.run(&requests[turn % 3], &mut answer).await, Ok(1));
        }
        assert_eq!(crate::N_ALLOCATIONS.get() - before, 0);
    });
}
