//! `TRIMTAB_TEST_HTTP`: HOST:PORT of a site with the pages `/quick`, `/slow` (takes a minute) and `/hang-up` (the server closes
//! the connection soon after it, without saying so), and none at `/missing`. Without it a server within the test.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::time::Duration;

use trimtab_load::driver::http::{Access, HttpDriver, HttpSession};
use trimtab_load::driver::{ErrorClass, Session};
use trimtab_load::http::{HttpAnswer, HttpRequest};

use super::Subject;

pub(super) struct HttpSubject(Access);

fn driver(access: &Access) -> HttpDriver {
    HttpDriver::new(access).expect("legal access")
}

/// A server that knows the pages of the module's first lines, a thread for each connection.
fn serve() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            std::thread::spawn(move || answer(&stream));
        }
    });
    port
}

/// Whoever asks may leave at any moment.
fn answer(stream: &std::net::TcpStream) -> Option<()> {
    let mut lines = BufReader::new(stream).lines();
    loop {
        let first = lines.next()?.ok()?;
        while !lines.next()?.ok()?.is_empty() {}
        let path = first.split(' ').nth(1)?;
        if path == "/slow" {
            std::thread::sleep(Duration::from_secs(60));
        }
        let status = if path == "/missing" { "404 Not Found" } else { "200 OK" };
        let mut out = stream;
        let page = format!(
            "HTTP/1.1 {status}\r\nSet-Cookie: a=b\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"
        );
        out.write_all(page.as_bytes()).ok()?;
        if path == "/hang-up" {
            return None;
        }
    }
}

impl Subject for HttpSubject {
    type Driver = HttpDriver;
    const REOPENS: bool = true;

    fn find() -> Option<Self> {
        let (host, port) = match std::env::var("TRIMTAB_TEST_HTTP") {
            Ok(address) => {
                let (host, port) = address.rsplit_once(':').expect("HOST:PORT");
                (host.to_owned(), port.parse().expect("a port"))
            }
            Err(_) => ("127.0.0.1".to_owned(), serve()),
        };
        Some(Self(Access { host, port, ..Access::default() }))
    }

    fn driver(&self) -> HttpDriver {
        driver(&self.0)
    }

    fn nowhere(&self) -> HttpDriver {
        driver(&Access { port: 1, ..self.0.clone() })
    }

    fn quick(&self, request: &mut HttpRequest) {
        request.target.replace_range(.., "/quick");
        request.keeps_body = true;
        request.cookies.push_str("a=b");
    }

    fn slow(&self, request: &mut HttpRequest) {
        request.target.replace_range(.., "/slow");
    }

    fn wrong(&self, request: &mut HttpRequest) -> ErrorClass {
        request.target.replace_range(.., "/missing");
        ErrorClass::Http4xx
    }

    fn unexpected(&self, request: &mut HttpRequest) {
        request.target.replace_range(.., "/quick");
        request.status = (301, 302);
    }

    async fn hang_up(&self, session: &mut HttpSession) {
        let mut request = HttpRequest::default();
        request.target.replace_range(.., "/hang-up");
        session.run(&request, &mut HttpAnswer::default()).await.expect("a page");
    }
}
