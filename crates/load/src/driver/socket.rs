//! The socket under a connection: TCP or Unix, behind one type that the wire polls directly.

use std::io;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};
use tokio::time::sleep;

/// Where a server listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Address {
    /// A socket's file.
    Unix(PathBuf),
    /// Host and port.
    Tcp(String, u16),
}

/// A Unix socket whose queue of waiting connections is full refuses at once instead of waiting.
const QUEUE_FULL_PAUSE: Duration = Duration::from_millis(5);

impl Address {
    /// A host that starts with "/" is the directory of the Unix socket.
    pub(super) fn new(host: &str, port: u16) -> Self {
        if host.starts_with('/') {
            Self::Unix(Path::new(host).join(format!(".s.PGSQL.{port}")))
        } else {
            Self::Tcp(host.to_owned(), port)
        }
    }

    /// Connects; waits for as long as the server's queue is full.
    pub(super) async fn open(&self) -> io::Result<Socket> {
        match self {
            Self::Unix(path) => loop {
                match UnixStream::connect(path).await {
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => sleep(QUEUE_FULL_PAUSE).await,
                    result => return result.map(Socket::Unix),
                }
            },
            Self::Tcp(host, port) => {
                let stream = TcpStream::connect((host.as_str(), *port)).await?;
                stream.set_nodelay(true)?;
                Ok(Socket::Tcp(stream))
            }
        }
    }
}

impl std::fmt::Display for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Unix(path) => write!(f, "{}", path.display()),
            Self::Tcp(host, port) => write!(f, "{host}:{port}"),
        }
    }
}

/// A connected socket.
pub(super) enum Socket {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl AsyncRead for Socket {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_read(cx, buf),
            Self::Unix(stream) => Pin::new(stream).poll_read(cx, buf),
        }
    }
}

impl AsyncWrite for Socket {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_write(cx, data),
            Self::Unix(stream) => Pin::new(stream).poll_write(cx, data),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_shutdown(cx),
            Self::Unix(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_with_a_slash_is_a_socket_directory() {
        assert_eq!(Address::new("/run/db", 5433), Address::Unix(PathBuf::from("/run/db/.s.PGSQL.5433")));
        assert_eq!(Address::new("::1", 5432), Address::Tcp("::1".to_owned(), 5432));
    }
}
