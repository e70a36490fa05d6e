//! The name of a server's machine: what it stands for is asked for once, since in a measured path each question to the system costs
//! a thread and, where a name server answers it, its time.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::net::{TcpStream, lookup_host};
use tokio::time::timeout;

/// An address that says nothing for so long is left for the name's next one, which would never be tried otherwise.
const PATIENCE: Duration = Duration::from_secs(3);

/// A host and a port. Copies know what any of them has found.
#[derive(Clone)]
pub(super) struct Name {
    pub(super) host: String,
    port: u16,
    known: Arc<Known>,
}

#[derive(Default)]
struct Known {
    /// The one that let us in first; `None`: to be asked for.
    found: Mutex<Option<Arc<[SocketAddr]>>>,
    /// Held while the system is asked, so that it is asked once.
    asking: tokio::sync::Mutex<()>,
}

impl Name {
    pub(super) fn new(host: &str, port: u16) -> Self {
        Self { host: host.to_owned(), port, known: Arc::default() }
    }

    /// Connects to the first of the name's addresses that lets us in.
    pub(super) async fn connect(&self) -> io::Result<TcpStream> {
        self.connect_by(async || Ok(lookup_host((self.host.as_str(), self.port)).await?.collect())).await
    }

    async fn connect_by(&self, ask: impl AsyncFnOnce() -> io::Result<Vec<SocketAddr>>) -> io::Result<TcpStream> {
        let found = self.known.addresses(ask).await?;
        // Also when nobody waits for the connection any more.
        let mut doubt = Doubt { known: &self.known, addresses: Some(&found) };
        let mut refusal = io::Error::new(io::ErrorKind::NotFound, "the name stands for no address");
        for (place, address) in found.iter().enumerate() {
            let is_last = place + 1 == found.len();
            let connected = if is_last { TcpStream::connect(*address).await } else { connect_soon(*address).await };
            match connected {
                Ok(stream) => {
                    doubt.addresses = None;
                    if place > 0 {
                        self.known.prefer(&found, place);
                    }
                    return Ok(stream);
                }
                Err(error) => refusal = error,
            }
        }
        Err(refusal)
    }
}

async fn connect_soon(address: SocketAddr) -> io::Result<TcpStream> {
    timeout(PATIENCE, TcpStream::connect(address)).await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
}

impl Known {
    async fn addresses(&self, ask: impl AsyncFnOnce() -> io::Result<Vec<SocketAddr>>) -> io::Result<Arc<[SocketAddr]>> {
        if let Some(found) = self.found() {
            return Ok(found);
        }
        let _turn = self.asking.lock().await;
        // Somebody else may have asked meanwhile.
        if let Some(found) = self.found() {
            return Ok(found);
        }
        let found: Arc<[SocketAddr]> = ask().await?.into();
        *self.found.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(&found));
        Ok(found)
    }

    fn found(&self) -> Option<Arc<[SocketAddr]>> {
        self.found.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Puts another in the place of `before`, if nobody did so earlier.
    fn replace(&self, before: &Arc<[SocketAddr]>, after: Option<Arc<[SocketAddr]>>) {
        let mut found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        if found.as_ref().is_some_and(|known| Arc::ptr_eq(known, before)) {
            *found = after;
        }
    }

    /// The address at `place` is asked first from now on: the others have refused us.
    fn prefer(&self, before: &Arc<[SocketAddr]>, place: usize) {
        let mut addresses = before.to_vec();
        addresses[..=place].rotate_right(1);
        self.replace(before, Some(addresses.into()));
    }
}

/// Forgets addresses none of which has let us in.
struct Doubt<'a> {
    known: &'a Known,
    addresses: Option<&'a Arc<[SocketAddr]>>,
}

impl Drop for Doubt<'_> {
    fn drop(&mut self) {
        if let Some(addresses) = self.addresses {
            self.known.replace(addresses, None);
        }
    }
}

impl PartialEq for Name {
    fn eq(&self, other: &Self) -> bool {
        (&self.host, self.port) == (&other.host, other.port)
    }
}

impl Eq for Name {}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Name({self})")
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::time::Duration;

    use tokio::net::TcpListener;
    use tokio::time::{sleep, timeout};

    use super::*;

    /// A port on which nobody listens.
    async fn closed() -> SocketAddr {
        TcpListener::bind("127.0.0.1:0").await.expect("a port").local_addr().expect("an address")
    }

    /// What a name of these addresses is asked, and how often.
    struct System {
        addresses: Vec<SocketAddr>,
        n_asked: Cell<u32>,
    }

    impl System {
        fn new(addresses: &[SocketAddr]) -> Self {
            Self { addresses: addresses.to_vec(), n_asked: Cell::new(0) }
        }

        async fn answer(&self) -> io::Result<Vec<SocketAddr>> {
            self.n_asked.set(self.n_asked.get() + 1);
            sleep(Duration::from_millis(5)).await;
            Ok(self.addresses.clone())
        }
    }

    #[tokio::test]
    async fn a_name_is_asked_for_once_and_again_only_after_a_failure() {
        let server = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let system = System::new(&[server.local_addr().expect("an address")]);
        let name = Name::new("db.example", 1);
        let other = name.clone();
        let (one, two) = tokio::join!(name.connect_by(|| system.answer()), other.connect_by(|| system.answer()));
        assert!(one.is_ok() && two.is_ok());
        for _ in 0..5 {
            name.clone().connect_by(|| system.answer()).await.expect("connected");
        }
        assert_eq!(system.n_asked.get(), 1);
        drop(server);
        name.connect_by(|| system.answer()).await.expect_err("gone");
        assert_eq!(system.n_asked.get(), 1);
        let moved = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let system = System::new(&[moved.local_addr().expect("an address")]);
        name.connect_by(|| system.answer()).await.expect("at its new place");
        other.connect_by(|| system.answer()).await.expect("at its new place");
        assert_eq!(system.n_asked.get(), 1);
    }

    #[tokio::test]
    async fn the_address_that_let_us_in_comes_first() {
        let server = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let (refusing, serving) = (closed().await, server.local_addr().expect("an address"));
        let system = System::new(&[refusing, closed().await, serving]);
        let name = Name::new("localhost", 1);
        name.connect_by(|| system.answer()).await.expect("connected");
        let found = name.known.found().expect("known");
        assert_eq!((found[0], found[1]), (serving, refusing));
        name.connect_by(|| system.answer()).await.expect("connected");
        assert!(Arc::ptr_eq(&found, &name.known.found().expect("known")));
    }

    /// A server whose queue is full, so that who comes now waits, and those that are in it.
    fn full() -> (std::net::TcpListener, Vec<std::net::TcpStream>) {
        let socket = tokio::net::TcpSocket::new_v4().expect("a socket");
        socket.bind("127.0.0.1:0".parse().expect("an address")).expect("a port");
        let server = socket.listen(0).expect("room").into_std().expect("a listener");
        let address = server.local_addr().expect("an address");
        let mut waiting = Vec::new();
        while let Ok(stream) = std::net::TcpStream::connect_timeout(&address, Duration::from_millis(50)) {
            waiting.push(stream);
            assert!(waiting.len() < 10);
        }
        (server, waiting)
    }

    #[tokio::test(start_paused = true)]
    async fn an_address_that_says_nothing_is_left_for_the_next() {
        let (silent, _waiting) = full();
        let server = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let serving = server.local_addr().expect("an address");
        let system = System::new(&[silent.local_addr().expect("an address"), serving]);
        let name = Name::new("db.example", 1);
        let stream = name.connect_by(|| system.answer()).await.expect("connected");
        assert_eq!(stream.peer_addr().expect("open"), serving);
        assert_eq!(name.known.found().expect("known")[0], serving);
    }

    #[tokio::test]
    async fn an_address_that_does_not_answer_is_forgotten_by_who_waits_no_longer() {
        // Its queue is full: who comes now waits.
        let server = tokio::net::TcpSocket::new_v4().expect("a socket");
        server.bind("127.0.0.1:0".parse().expect("an address")).expect("a port");
        let server = server.listen(0).expect("room");
        let system = System::new(&[server.local_addr().expect("an address")]);
        let name = Name::new("db.example", 1);
        let mut waiting = Vec::new();
        while let Ok(stream) = timeout(Duration::from_millis(50), name.connect_by(|| system.answer())).await {
            waiting.push(stream.expect("connected"));
            assert!(name.known.found().is_some() && waiting.len() < 10);
        }
        assert!(name.known.found().is_none());
    }

    #[tokio::test]
    async fn a_name_without_an_address_is_told_and_asked_for_again() {
        let name = Name::new("db.example", 1);
        let error = name.connect_by(async || Ok(Vec::new())).await.expect_err("nothing there");
        assert_eq!(error.to_string(), "the name stands for no address");
        name.connect_by(async || Err(io::Error::other("no name server"))).await.expect_err("not known");
        let server = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = server.local_addr().expect("an address");
        name.connect_by(async || Ok(vec![address])).await.expect("connected");
        let literal = Name::new("127.0.0.1", address.port());
        assert_eq!(literal.connect().await.expect("connected").peer_addr().expect("open"), address);
        assert_eq!(literal.to_string(), format!("127.0.0.1:{}", address.port()));
    }
}
