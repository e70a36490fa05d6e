//! How a connection is opened, plain or encrypted.

use std::io;

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::driver::channel::Channel;
use crate::driver::socket::{Address, Socket};
use crate::driver::tls::Tls;
use crate::driver::{ErrorClass, Failure};

/// Asks whether the server speaks TLS; length and code of SSLRequest.
const TLS_REQUEST: [u8; 8] = [0, 0, 0, 8, 4, 210, 22, 47];

/// A server's address and how its connections are encrypted.
pub(super) struct Door {
    pub(super) address: Address,
    /// `None`: never encrypted.
    pub(super) tls: Option<Tls>,
}

impl Door {
    /// Connects, encrypted where that is wanted and, if it must not be, possible.
    pub(super) async fn open(&self) -> Result<Channel, Failure> {
        let context = || format!("cannot connect to {}", self.address);
        let mut socket = self.address.open().await.map_err(|error| Failure::lost(&context(), &error))?;
        // A Unix socket does not leave the machine.
        let (Some(tls), Address::Tcp(name)) = (&self.tls, &self.address) else { return Ok(Channel::Plain(socket)) };
        let answer = ask_for_tls(&mut socket).await.map_err(|error| Failure::lost(&context(), &error))?;
        match answer {
            b'S' => {
                let stream = tls.wrap(&name.host, socket).await;
                stream.map(|stream| Channel::Tls(Box::new(stream))).map_err(|error| Failure::lost(&context(), &error))
            }
            b'N' if !tls.is_required => Ok(Channel::Plain(socket)),
            b'N' => {
                let message = format!("{}: the server does not offer TLS, which is required", context());
                Err(Failure::without_code(ErrorClass::Connect, message))
            }
            // Its words, which anybody between may have said, come in the clear.
            b'E' => {
                let message = format!("{}: the server refuses before it encrypts; its log says why", context());
                Err(Failure::without_code(ErrorClass::Connect, message))
            }
            _ => Err(Failure::protocol(format!(
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

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;
    use crate::driver::{TlsFiles, TlsMode};

    #[tokio::test]
    async fn what_is_answered_to_the_wish_for_encryption_is_told() {
        for (answer, class, words) in [
            (&b"Ecould not fork"[..], ErrorClass::Connect, "the server refuses before it encrypts; its log says why"),
            (b"N", ErrorClass::Connect, "the server does not offer TLS, which is required"),
            (b"HTTP/1.1 400", ErrorClass::Protocol, "what answers there does not speak PostgreSQL's protocol"),
        ] {
            let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
            let port = listener.local_addr().expect("an address").port();
            let tls = Tls::new(TlsMode::Require, &TlsFiles::default()).expect("sound");
            let door = Door { address: Address::tcp("127.0.0.1", port), tls };
            let serving = async {
                let (mut stream, _) = listener.accept().await.expect("a client");
                stream.write_all(answer).await.expect("room");
            };
            let (opened, ()) = tokio::join!(door.open(), serving);
            let failure = opened.err().expect("refused");
            assert_eq!(
                (failure.class, failure.message),
                (class, format!("cannot connect to 127.0.0.1:{port}: {words}"))
            );
        }
    }
}
