//! The stream of a connection, plain or encrypted, and how it is opened.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio_rustls::client::TlsStream;

use super::failure;
use super::socket::{Address, Socket};
use super::tls::Tls;
use crate::driver::{ErrorClass, Failure};

/// Asks whether the server speaks TLS; length and code of SSLRequest.
const TLS_REQUEST: [u8; 8] = [0, 0, 0, 8, 4, 210, 22, 47];

/// Plain or encrypted.
pub(super) enum Stream {
    Plain(Socket),
    Tls(Box<TlsStream<Socket>>),
}

impl Stream {
    /// What SCRAM binds to: a hash of the server's certificate.
    pub(super) fn end_point(&self) -> Option<Vec<u8>> {
        match self {
            Self::Plain(_) => None,
            Self::Tls(stream) => super::tls::end_point(stream.get_ref().1.peer_certificates()?.first()?),
        }
    }
}

impl AsyncRead for Stream {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_read(cx, buf),
            Self::Tls(stream) => Pin::new(stream).poll_read(cx, buf),
        }
    }
}

impl AsyncWrite for Stream {
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

/// A server's address and how its connections are encrypted.
pub(super) struct Door {
    pub(super) address: Address,
    /// `None`: never encrypted.
    pub(super) tls: Option<Tls>,
}

impl Door {
    /// Connects, encrypted where that is wanted and, if it must not be, possible.
    pub(super) async fn open(&self) -> Result<Stream, Failure> {
        let context = || format!("cannot connect to {}", self.address);
        let mut socket = self.address.open().await.map_err(|error| failure::lost(&context(), &error))?;
        // A Unix socket does not leave the machine.
        let (Some(tls), Address::Tcp(host, _)) = (&self.tls, &self.address) else { return Ok(Stream::Plain(socket)) };
        let answer = ask_for_tls(&mut socket).await.map_err(|error| failure::lost(&context(), &error))?;
        match answer {
            b'S' => {
                let stream = tls.wrap(host, socket).await;
                stream.map(|stream| Stream::Tls(Box::new(stream))).map_err(|error| failure::lost(&context(), &error))
            }
            b'N' if !tls.is_required => Ok(Stream::Plain(socket)),
            b'N' => {
                let message = format!("{}: the server does not offer TLS, which is required", context());
                Err(Failure::without_code(ErrorClass::Connect, message))
            }
            _ => Err(failure::protocol(format!(
                "{}: what answers there does not speak PostgreSQL's protocol",
                context()
            ))),
        }
    }
}

async fn ask_for_tls(socket: &mut Socket) -> io::Result<u8> {
    socket.write_all(&TLS_REQUEST).await?;
    // One byte and no more: whatever follows it before the handshake could have been put there by somebody else.
    socket.read_u8().await
}
