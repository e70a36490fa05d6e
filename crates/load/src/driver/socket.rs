//! The socket under a connection: TCP or Unix, read and written without a detour.

use std::io::{self, Read, Write};
use std::net::{IpAddr, Shutdown, TcpStream};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::unix::AsyncFd;
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::time::sleep;

use super::name::Name;

/// Where a server listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Address {
    /// A socket's file.
    Unix(PathBuf),
    /// A host and a port.
    Tcp(Name),
}

/// A Unix socket whose queue of waiting connections is full refuses at once instead of waiting.
const QUEUE_FULL_PAUSE: Duration = Duration::from_millis(5);

impl Address {
    /// A host that starts with "/" is the file of the Unix socket.
    pub(super) fn new(host: &str, port: u16) -> Self {
        if host.starts_with('/') { Self::Unix(host.into()) } else { Self::tcp(host, port) }
    }

    /// As PostgreSQL has it: a host that starts with "/" is the directory of the Unix socket.
    pub(super) fn within(host: &str, port: u16) -> Self {
        if host.starts_with('/') {
            Self::Unix(Path::new(host).join(format!(".s.PGSQL.{port}")))
        } else {
            Self::tcp(host, port)
        }
    }

    pub(super) fn tcp(host: &str, port: u16) -> Self {
        Self::Tcp(Name::new(host, port))
    }

    /// Connects; waits for as long as the server's queue is full.
    pub(super) async fn open(&self) -> io::Result<Socket> {
        match self {
            Self::Unix(path) => loop {
                match tokio::net::UnixStream::connect(path).await {
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => sleep(QUEUE_FULL_PAUSE).await,
                    result => return Socket::new(Raw::Unix(result?.into_std()?)),
                }
            },
            Self::Tcp(name) => {
                let stream = name.connect().await?;
                stream.set_nodelay(true)?;
                Socket::new(Raw::Tcp(stream.into_std()?))
            }
        }
    }
}

impl std::fmt::Display for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Unix(path) => write!(f, "{}", path.display()),
            Self::Tcp(name) => name.fmt(f),
        }
    }
}

/// A connected socket that the runtime watches for data only: a Unix socket would otherwise wake its thread a second time
/// per operation, when the server has read the request and there is room for the next one.
pub(super) struct Socket {
    stream: AsyncFd<Raw>,
    /// Watches for room while a request is too long to be sent at once.
    room: Option<AsyncFd<OwnedFd>>,
}

/// The socket itself; it never blocks.
enum Raw {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Socket {
    fn new(raw: Raw) -> io::Result<Self> {
        // SAFETY: `raw` owns its open socket, never gives it away, and always names the same one.
        let stream = unsafe { AsyncFd::register_with_interest(raw, Interest::READABLE)? };
        Ok(Self { stream, room: None })
    }

    /// The address that it leads to; `None` for a Unix socket.
    pub(super) fn peer(&self) -> Option<IpAddr> {
        match self.stream.get_ref() {
            Raw::Tcp(stream) => stream.peer_addr().ok().map(|address| address.ip()),
            Raw::Unix(_) => None,
        }
    }

    /// Ready when the server has taken some of what was sent.
    fn poll_room(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.room.is_none() {
            let fd = self.stream.as_fd().try_clone_to_owned()?;
            // SAFETY: an `OwnedFd` owns its open file and always names the same one.
            self.room = Some(unsafe { AsyncFd::register_with_interest(fd, Interest::WRITABLE)? });
        }
        let Some(room) = &self.room else { return Poll::Pending };
        ready!(room.poll_write_ready(cx))?.clear_ready();
        Poll::Ready(Ok(()))
    }
}

impl AsyncRead for Socket {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        loop {
            let mut guard = ready!(self.stream.poll_read_ready(cx))?;
            let free = buf.initialize_unfilled();
            match self.stream.get_ref().read(free) {
                Ok(n_read) => {
                    // There was no more: the next read would find nothing and only cost a system call.
                    if 0 < n_read && n_read < free.len() {
                        guard.clear_ready();
                    }
                    buf.advance(n_read);
                    return Poll::Ready(Ok(()));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => guard.clear_ready(),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }
}

impl AsyncWrite for Socket {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        let socket = self.get_mut();
        loop {
            match socket.stream.get_ref().write(data) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => ready!(socket.poll_room(cx))?,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                result => return Poll::Ready(result),
            }
        }
    }

    fn poll_flush(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.get_mut().room = None;
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(match self.stream.get_ref() {
            Raw::Tcp(stream) => stream.shutdown(Shutdown::Write),
            Raw::Unix(stream) => stream.shutdown(Shutdown::Write),
        })
    }
}

impl Raw {
    fn read(&self, free: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => (&*stream).read(free),
            Self::Unix(stream) => (&*stream).read(free),
        }
    }

    fn write(&self, data: &[u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => (&*stream).write(data),
            Self::Unix(stream) => (&*stream).write(data),
        }
    }
}

impl AsFd for Raw {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Tcp(stream) => stream.as_fd(),
            Self::Unix(stream) => stream.as_fd(),
        }
    }
}

impl AsRawFd for Raw {
    fn as_raw_fd(&self) -> RawFd {
        self.as_fd().as_raw_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_with_a_slash_is_a_socket_directory() {
        assert_eq!(Address::within("/run/db", 5433), Address::Unix(PathBuf::from("/run/db/.s.PGSQL.5433")));
        assert_eq!(Address::within("::1", 5432), Address::tcp("::1", 5432));
    }
}
