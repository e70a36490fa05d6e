//! The driver against a server that says what a test wants, byte for byte.

use std::io::{self, Read, Write};
use std::net::TcpListener;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Context, Poll};
use std::thread::JoinHandle;

use tokio::io::{AsyncRead, AsyncReadExt, ReadBuf};

use super::*;
use crate::driver::inbox::Inbox;
use crate::driver::{ErrorClass, Session, TlsMode};
use crate::http::{HttpAnswer, HttpRequest, Method};

/// What the server does on one connection: for each request that it reads whole, an answer; then it closes.
type Script = Vec<Vec<u8>>;

struct Server {
    port: u16,
    /// Heads of the requests, one after the other.
    heard: JoinHandle<Vec<String>>,
    n_accepted: Arc<AtomicU32>,
}

/// Serves one script for each connection, in order, and takes no more.
fn serve(scripts: Vec<Script>) -> Server {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let n_accepted = Arc::new(AtomicU32::new(0));
    let counter = Arc::clone(&n_accepted);
    let heard = std::thread::spawn(move || {
        let mut heard = Vec::new();
        for script in scripts {
            let (mut stream, _) = listener.accept().expect("a client");
            counter.fetch_add(1, Ordering::SeqCst);
            for answer in script {
                let Some(request) = read_head(&mut stream) else { break };
                heard.push(request);
                // A client that has seen enough closes.
                let _ = stream.write_all(&answer);
            }
        }
        heard
    });
    Server { port, heard, n_accepted }
}

fn read_head(stream: &mut std::net::TcpStream) -> Option<String> {
    let (mut bytes, mut byte) = (Vec::new(), [0]);
    while !bytes.ends_with(b"\r\n\r\n") {
        if stream.read(&mut byte).ok()? == 0 {
            return None;
        }
        bytes.push(byte[0]);
    }
    let head = String::from_utf8(bytes).expect("text");
    let length = head.lines().find_map(|line| line.strip_prefix("Content-Length: "));
    let mut body = vec![0; length.map_or(0, |length| length.parse().expect("a number"))];
    stream.read_exact(&mut body).ok()?;
    Some(head + std::str::from_utf8(&body).expect("text"))
}

fn access(port: u16) -> Access {
    Access { host: "127.0.0.1".to_owned(), port, ..Access::default() }
}

async fn session(server: &Server) -> HttpSession {
    HttpDriver::new(&access(server.port)).expect("legal access").connect().await.expect("a server")
}

fn page(body: &str) -> Vec<u8> {
    format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len()).into_bytes()
}

fn kept() -> HttpRequest {
    HttpRequest { keeps_body: true, ..HttpRequest::default() }
}

/// The outcome of one answer.
async fn outcome(answer: &[u8], request: &HttpRequest) -> (Result<u64, Failure>, HttpAnswer, HttpSession) {
    // One that is closed before a byte came is asked for again.
    let server = serve(vec![vec![answer.to_vec()]; 2]);
    let mut session = session(&server).await;
    let mut answer = HttpAnswer::default();
    let result = session.run(request, &mut answer).await;
    (result, answer, session)
}

async fn body(answer: &[u8]) -> String {
    let (result, answer, _) = outcome(answer, &kept()).await;
    assert_eq!(result, Ok(1));
    assert_eq!(answer.n_bytes, answer.body.len() as u64);
    String::from_utf8(answer.body).expect("text")
}

#[tokio::test]
async fn bodies_end_where_they_say() {
    let cases: [(&[u8], &str); 9] = [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", "hello"),
        (b"HTTP/1.1 200 OK\r\ncontent-length:5 , 5\r\n\r\nhello, no", "hello"),
        (b"HTTP/1.1 200 OK\nContent-Length: 5\n\nhello", "hello"),
        (b"HTTP/1.0 200\r\n\r\nuntil the end", "until the end"),
        (b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nuntil the end", "until the end"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n5\r\nhello\r\nA ; x=\"y\"\r\n0123456789\r\n0\r\n\r\n", "hello0123456789"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\nhi\n000\r\nExpires: never\r\nX: y\r\n\r\n", "hi"),
        (b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi", "hi"),
        (b"HTTP/1.1 204 No Content\r\nContent-Length: 7\r\n\r\n", ""),
    ];
    for (answer, expected) in cases {
        assert_eq!(body(answer).await, expected, "{}", String::from_utf8_lossy(answer));
    }
    let request = HttpRequest { method: Method::Head, ..kept() };
    let (result, answer, _) = outcome(b"HTTP/1.1 200 OK\r\nContent-Length: 7000\r\n\r\n", &request).await;
    assert_eq!((result, answer.n_bytes), (Ok(1), 0));
}

#[tokio::test]
async fn long_bodies_are_skipped_and_the_connection_stays() {
    let long = "x".repeat(1_000_000);
    let chunk = format!("{:x}\r\n{long}\r\n", long.len()).repeat(3);
    let chunked = format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{chunk}0\r\n\r\n").into_bytes();
    let server = serve(vec![vec![page(&long), chunked, page("end")]]);
    let mut session = session(&server).await;
    let mut answer = HttpAnswer::default();
    for n_bytes in [1_000_000, 3_000_000, 3] {
        assert_eq!(session.run(&HttpRequest::default(), &mut answer).await, Ok(1));
        assert_eq!((answer.n_bytes, answer.body.len()), (n_bytes, 0));
    }
    assert_eq!(server.n_accepted.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn requests_are_sent_as_they_are() {
    let server = serve(vec![vec![page("a"), page("b")]]);
    let headers = [("Host", "Shop.example:81"), ("accept", "text/html"), ("X-Key", "a b")];
    let headers = headers.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
    let driver = HttpDriver::new(&Access { headers, ..access(server.port) }).expect("legal access");
    assert_eq!(*driver.origin(), Origin { is_encrypted: false, host: "shop.example".to_owned(), port: 81 });
    let mut session = driver.connect().await.expect("a server");
    let mut request = HttpRequest {
        target: "/a?b=c".to_owned(),
        cookies: "x=1; y=2".to_owned(),
        headers: "Accept-Language: de\r\n".to_owned(),
        body: b"not sent".to_vec(),
        ..HttpRequest::default()
    };
    let mut answer = HttpAnswer::default();
    assert_eq!(session.run(&request, &mut answer).await, Ok(1));
    request.method = Method::Post;
    request.body = b"q=1".to_vec();
    assert_eq!(session.run(&request, &mut answer).await, Ok(1));
    session.close().await;
    let own = concat!(
        "Host: Shop.example:81\r\nUser-Agent: trimtab/",
        env!("CARGO_PKG_VERSION"),
        "\r\naccept: text/html\r\n"
    );
    let rest = "X-Key: a b\r\nAccept-Language: de\r\nCookie: x=1; y=2\r\n";
    let expected = [
        format!("GET /a?b=c HTTP/1.1\r\n{own}{rest}\r\n"),
        format!("POST /a?b=c HTTP/1.1\r\n{own}{rest}Content-Length: 3\r\n\r\nq=1"),
    ];
    assert_eq!(server.heard.join().expect("no panic"), expected);
}

#[tokio::test]
async fn a_connection_that_was_closed_in_good_order_is_opened_anew() {
    let closing = b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nConnection: Keep-Alive, Close\r\n\r\na".to_vec();
    // The server closes: as it said; without a word, after an answer; and with words that nobody asked for.
    let unasked = [page("c"), b"HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\n\r\n".to_vec()].concat();
    let server = serve(vec![vec![closing], vec![page("b")], vec![unasked], vec![page("d"), page("e")]]);
    let mut session = session(&server).await;
    let mut answer = HttpAnswer::default();
    for (n_connections, expected) in [(1, "a"), (2, "b"), (3, "c"), (4, "d"), (4, "e")] {
        assert_eq!(session.run(&kept(), &mut answer).await, Ok(1), "{expected}");
        assert_eq!(answer.body, expected.as_bytes());
        assert_eq!(server.n_accepted.load(Ordering::SeqCst), n_connections);
    }
    assert!(!session.is_lost());
}

#[tokio::test]
async fn a_fresh_request_has_a_connection_of_its_own() {
    let server = serve(vec![vec![], vec![page("a")], vec![page("b")]]);
    let mut session = session(&server).await;
    let request = HttpRequest { is_fresh: true, ..HttpRequest::default() };
    for _ in 0..2 {
        assert_eq!(session.run(&request, &mut HttpAnswer::default()).await, Ok(1));
    }
    assert_eq!(server.n_accepted.load(Ordering::SeqCst), 3);
}

#[tokio::test]
async fn a_connection_is_closed_behind_the_last_request() {
    // Also by a server that would go on: it accepts no other one meanwhile.
    let server = serve(vec![vec![page("a"), page("b"), page("no")], vec![page("c")]]);
    let mut session = session(&server).await;
    let mut answer = HttpAnswer::default();
    for (is_last, expected) in [(false, "a"), (true, "b"), (false, "c")] {
        let request = HttpRequest { is_last, ..kept() };
        assert_eq!(session.run(&request, &mut answer).await, Ok(1));
        assert_eq!(answer.body, expected.as_bytes());
    }
    assert!(!session.is_lost());
    session.close().await;
    let heard = server.heard.join().expect("no panic");
    assert_eq!(
        heard.iter().map(|head| head.contains("\r\nConnection: close\r\n")).collect::<Vec<_>>(),
        [false, true, false]
    );
}

#[tokio::test]
async fn a_request_that_may_have_been_done_is_not_repeated() {
    let server = serve(vec![vec![page("a"), Vec::new()]]);
    let mut session = session(&server).await;
    let mut answer = HttpAnswer::default();
    assert_eq!(session.run(&HttpRequest::default(), &mut answer).await, Ok(1));
    let request = HttpRequest { method: Method::Post, ..HttpRequest::default() };
    let failure = session.run(&request, &mut answer).await.expect_err("no answer");
    assert_eq!(
        (failure.class, failure.message.as_str()),
        (ErrorClass::Connect, "no answer: the server closed the connection")
    );
    assert!(session.is_lost());
}

#[tokio::test]
async fn what_is_dropped_takes_its_connection_along() {
    let server = serve(vec![
        vec![page("a"), b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\npart".to_vec(), page("x")],
        vec![page("b")],
    ]);
    let mut session = session(&server).await;
    let mut answer = HttpAnswer::default();
    assert_eq!(session.run(&kept(), &mut answer).await, Ok(1));
    let limit = std::time::Duration::from_millis(50);
    assert!(tokio::time::timeout(limit, session.run(&kept(), &mut answer)).await.is_err());
    assert!(!session.is_lost() && session.canceller().is_none());
    assert_eq!(session.run(&kept(), &mut answer).await, Ok(1));
    assert_eq!(answer.body, b"b");
}

#[tokio::test]
async fn what_comes_with_a_page_is_told() {
    let text = "HTTP/1.1 302 Found\r\nLocation:  /next?a=b \r\nSet-Cookie: a=1; Path=/\r\nset-cookie: b=2\r\nContent-Length: 0\r\n\r\n";
    let (result, answer, _) = outcome(text.as_bytes(), &HttpRequest::default()).await;
    assert_eq!(result, Ok(1));
    assert!(answer.is_redirect());
    assert_eq!((answer.location.as_str(), answer.cookies.as_str()), ("/next?a=b", "a=1; Path=/\nb=2\n"));
}

#[tokio::test]
async fn header_lines_that_go_on_in_the_next_one_are_read() {
    let text =
        "HTTP/1.1 302 Found\r\nLocation:\r\n /next\r\nSet-Cookie: a=1;\r\n\tPath=/\r\nContent-Length:\r\n 2\r\n\r\nok";
    let (result, answer, session) = outcome(text.as_bytes(), &HttpRequest::default()).await;
    assert_eq!((result, session.is_lost()), (Ok(1), false));
    assert_eq!((answer.location.as_str(), answer.cookies.as_str()), ("/next", "a=1;  \tPath=/\n"));
}

#[tokio::test]
async fn a_redirect_whose_address_is_no_unicode_is_one() {
    let text = b"HTTP/1.1 302 Found\r\nLocation: /caf\xe9?k=\xc3\xa9\r\nContent-Length: 0\r\n\r\n";
    let (result, answer, _) = outcome(text, &HttpRequest::default()).await;
    assert_eq!((result, answer.is_redirect()), (Ok(1), true));
    assert_eq!(answer.location, "/caf%E9?k=\u{e9}");
}

#[tokio::test]
async fn statuses_have_their_classes() {
    let request = HttpRequest { target: "/a/b?password=x".to_owned(), ..HttpRequest::default() };
    let cases = [(404, ErrorClass::Http4xx), (503, ErrorClass::Http5xx), (600, ErrorClass::Validation)];
    for (status, class) in cases {
        let text = format!("HTTP/1.1 {status} Sorry\r\nContent-Length: 0\r\n\r\n");
        let (result, _, session) = outcome(text.as_bytes(), &request).await;
        let failure = result.expect_err("a failure");
        assert_eq!((failure.class, failure.to_string()), (class, format!("{status} for GET /a/b")));
        assert!(!session.is_lost());
    }
    let wanted = HttpRequest { status: (404, 404), ..HttpRequest::default() };
    let missing = b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n";
    assert_eq!(outcome(missing, &wanted).await.0, Ok(1));
    let (result, ..) = outcome(&page(""), &wanted).await;
    assert_eq!(result.expect_err("200").class, ErrorClass::Validation);
}

/// Each answer ends as a failure with these words, and only a connection that was lost is lost.
async fn fail(cases: &[(&str, &str)]) {
    for (answer, expected) in cases {
        let (result, _, session) = outcome(answer.as_bytes(), &kept()).await;
        let failure = result.expect_err("an error");
        assert_eq!(failure.message, *expected, "{answer:.80}");
        assert_eq!(session.is_lost(), failure.class == ErrorClass::Connect);
    }
}

#[tokio::test]
async fn heads_that_are_none_are_errors() {
    let cases = [
        ("SSH-2.0-OpenSSH_9.2\r\n\r\n", "invalid HTTP version"),
        ("HTTP/1.1 2x0 OK\r\n\r\n", "invalid response status"),
        ("HTTP/1.1 101 Switching\r\n\r\n", "status 101 was not asked for"),
        ("\r\n\r\n", "the head ends too early"),
        ("HTTP/1.1 200 OK\r\nbad header\r\n\r\n", "invalid header name"),
        ("HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", "Content-Length is no number"),
        ("HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\n", "Content-Length is no number"),
        ("HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", "two different Content-Length"),
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", "a Transfer-Encoding that was not asked for"),
        (&format!("HTTP/1.1 200 OK\r\nX: {}", "y".repeat(200_000)), "its head does not end"),
        (&format!("HTTP/1.1 200 OK\r\n{}\r\n", "X: y\r\n".repeat(1_000)), "too many headers"),
    ];
    for (answer, reason) in cases {
        fail(&[(answer, &format!("an answer that is no HTTP: {reason}"))]).await;
    }
    fail(&[(&"HTTP/1.1 100 Continue\r\n\r\n".repeat(1_000), "announcements without an answer")]).await;
}

#[tokio::test]
async fn bodies_that_do_not_end_as_they_say_are_errors() {
    let chunked = |rest: &str| format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{rest}");
    fail(&[
        (&chunked("zz\r\n"), "a chunk whose length is no number"),
        (&chunked("\r\n"), "a chunk whose length is no number"),
        (&chunked("fffffffffffffffff\r\n"), "a chunk whose length is no number"),
        (&chunked("2\r\nhello\r\n"), "a chunk that is longer than it says"),
        (&chunked(&"1".repeat(100_000)), "a line between chunks that does not end"),
        (&chunked(&format!("0\r\n{}", "X: y\r\n".repeat(1_000))), "too many fields after the last chunk"),
        (&chunked("9\r\ncut"), "the page is cut short: the server closed the connection"),
        ("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\ncut", "the page is cut short: the server closed the connection"),
        ("HTTP/1.1 200", "the connection was lost within an answer: the server closed the connection"),
        ("", "no answer: the server closed the connection"),
    ])
    .await;
}

/// An encrypted connection whose server is gone without a word.
struct Killed;

impl AsyncRead for Killed {
    fn poll_read(self: Pin<&mut Self>, _: &mut Context<'_>, _: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Err(io::Error::new(io::ErrorKind::UnexpectedEof, "no close_notify")))
    }
}

#[tokio::test]
async fn a_page_that_goes_to_the_end_needs_one_that_was_meant() {
    let mut page = Vec::new();
    let mut sink = body::Sink { kept: Some(&mut page), n_bytes: 0 };
    let mut killed = AsyncReadExt::chain(&b"half"[..], Killed);
    let failure = body::read(head::Framing::ToEnd, &mut Inbox::new(), &mut killed, &mut sink).await.expect_err("cut");
    assert_eq!((failure.class, &failure.message[..]), (ErrorClass::Connect, "the page is cut short: no close_notify"));
    let mut closed = &b"whole"[..];
    let ended = body::read(head::Framing::ToEnd, &mut Inbox::new(), &mut closed, &mut sink).await;
    assert_eq!((ended, &page[..]), (Ok(()), &b"halfwhole"[..]));
}

#[tokio::test]
async fn any_bytes_are_an_answer_or_an_error() {
    let whole =
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nSet-Cookie: a=b\r\n\r\n5;x\r\nhello\r\n0\r\nA: b\r\n\r\n";
    let mut random = crate::random::Random::new(1, 1);
    for _ in 0..300 {
        let mut bytes = whole.to_vec();
        for _ in 0..=random.below(3) {
            let place = random.below(bytes.len() as u64) as usize;
            match random.below(3) {
                0 => bytes[place] = random.bits() as u8,
                1 => _ = bytes.remove(place),
                _ => bytes.truncate(place.max(1)),
            }
        }
        // Neither a panic nor a wait for what does not come.
        let limit = std::time::Duration::from_secs(30);
        let ended = tokio::time::timeout(limit, outcome(&bytes, &kept())).await;
        _ = ended.unwrap_or_else(|_| panic!("it hangs on {:?}", String::from_utf8_lossy(&bytes)));
    }
}

#[tokio::test]
async fn requests_that_cannot_be_sent_are_refused() {
    let server = serve(vec![vec![page("a")]]);
    let mut session = session(&server).await;
    let mut answer = HttpAnswer::default();
    for target in ["", "a", "/a b", "/a\r\nX: y", "/ä"] {
        let request = HttpRequest { target: target.to_owned(), ..HttpRequest::default() };
        let failure = session.run(&request, &mut answer).await.expect_err("refused");
        assert_eq!(failure.class, ErrorClass::Statement);
        assert_eq!(failure.message, format!("{target:?} is no path that can be sent: write %XX for other characters"));
    }
    assert_eq!(session.run(&HttpRequest::default(), &mut answer).await, Ok(1));
}

#[test]
fn headers_that_cannot_be_sent_are_refused() {
    let refused = |name: &str, value: &str| {
        let headers = vec![(name.to_owned(), value.to_owned())];
        HttpDriver::new(&Access { headers, ..access(80) }).err().expect("refused")
    };
    assert_eq!(refused("a b", "c"), "headers: no header can be named \"a b\"");
    assert_eq!(refused("X", "a\r\nb"), "headers: the value of X holds a control character");
    assert_eq!(refused("Content-length", "1"), "headers: Content-length is set by the load itself");
    assert_eq!(refused("host", "a\nb"), "headers: the value of Host holds a control character");
    let headers = vec![("Authorization".to_owned(), "secret".to_owned())];
    assert_eq!(format!("{:?}", Access { headers, ..access(80) }), "Access(127.0.0.1:80, tls Disable)");
}

#[tokio::test]
async fn who_cannot_be_reached_is_named() {
    let port = TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("an address").port();
    let failure = HttpDriver::new(&access(port)).expect("legal").connect().await.err().expect("nobody listens");
    assert_eq!(failure.class, ErrorClass::Connect);
    assert!(failure.message.starts_with(&format!("cannot connect to 127.0.0.1:{port}: ")), "{failure}");
    // A server without TLS does not understand the greeting.
    let server = serve(vec![vec![page("a")]]);
    let encrypted = Access { tls: TlsMode::Require, ..access(server.port) };
    let driver = HttpDriver::new(&encrypted).expect("legal");
    let limit = std::time::Duration::from_millis(200);
    assert!(!matches!(tokio::time::timeout(limit, driver.connect()).await, Ok(Ok(_))));
}
