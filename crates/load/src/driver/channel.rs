//! The stream of a connection, plain or encrypted.

use std::io;
use std::net::IpAddr;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_rustls::client::TlsStream;

use super::socket::{Address, Socket};
use super::tls::Tls;

/// Plain or encrypted.
pub(super) enum Channel {
    Plain(Socket),
    Tls(Box<TlsStream<Socket>>),
}

impl Channel {
    /// Opens a connection that is encrypted from its first byte where `tls` is given; a Unix socket, which does not leave the
    /// machine, never is.
    pub(super) async fn open(address: &Address, tls: Option<&Tls>) -> io::Result<Self> {
        let socket = address.open().await?;
        match (tls, address) {
            (Some(tls), Address::Tcp(name)) => Ok(Self::Tls(Box::new(tls.wrap(&name.host, socket).await?))),
            _ => Ok(Self::Plain(socket)),
        }
    }

    /// The address that it leads to; `None` for a socket without one.
    pub(super) fn peer(&self) -> Option<IpAddr> {
        match self {
            Self::Plain(socket) => socket.peer(),
            Self::Tls(stream) => stream.get_ref().0.peer(),
        }
    }

    /// What SCRAM binds to: a hash of the server's certificate.
    pub(super) fn end_point(&self) -> Option<Vec<u8>> {
        match self {
            Self::Plain(_) => None,
            Self::Tls(stream) => super::tls::end_point(stream.get_ref().1.peer_certificates()?.first()?),
        }
    }
}

impl AsyncRead for Channel {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_read(cx, buf),
            Self::Tls(stream) => Pin::new(stream).poll_read(cx, buf),
        }
    }
}

impl AsyncWrite for Channel {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_write(cx, data),
            Self::Tls(stream) => Pin::new(stream).poll_write(cx, data),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_flush(cx),
            Self::Tls(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_shutdown(cx),
            Self::Tls(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}
