//! Messages over a socket: one buffer out, one buffer in, both reused; frames are found in place.

use std::io;
use std::ops::Range;

use bytes::BytesMut;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};

use crate::driver::inbox::{Inbox, send_all};

/// The buffer of requests is kept up to this size.
const OUT_BYTES_MAX: usize = 1024 * 1024;

/// Nothing but rows is longer than this; whoever says so speaks another protocol.
const MESSAGE_BYTES_MAX: usize = 16 * 1024 * 1024;

/// The server's own limit on a row (`MaxAllocSize`): what says more is the text of another protocol.
const ROW_BYTES_MAX: usize = 1 << 30;

/// Tag, then a length that counts itself.
const HEADER_BYTES: usize = 5;

/// One message of the server: its kind, and where its body lies.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Frame {
    pub(super) tag: u8,
    pub(super) body: Range<usize>,
}

/// A connection's two buffers over its stream.
pub(super) struct Wire<S> {
    stream: S,
    /// What the next `send` sends.
    pub(super) out: BytesMut,
    inbox: Inbox,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Wire<S> {
    pub(super) fn new(stream: S) -> Self {
        Self { stream, out: BytesMut::with_capacity(1024), inbox: Inbox::new() }
    }

    /// Sends what is in `out` and empties it.
    pub(super) async fn send(&mut self) -> io::Result<()> {
        let result = send_all(&mut self.stream, &self.out).await;
        self.out.clear();
        result
    }

    /// The next message that has come already. The contents of rows and of COPY's data are there only when `wants_rows`.
    pub(super) fn frame(&mut self, wants_rows: bool) -> io::Result<Option<Frame>> {
        let Some(&[tag, a, b, c, d]) = self.inbox.arrived().first_chunk() else { return Ok(None) };
        let length = u32::from_be_bytes([a, b, c, d]) as usize;
        let is_row = matches!(tag, b'D' | b'd');
        let longest = if is_row { ROW_BYTES_MAX } else { MESSAGE_BYTES_MAX };
        if !(HEADER_BYTES - 1..=longest).contains(&length) {
            let other = || io::Error::new(io::ErrorKind::InvalidData, format!("a message of {length} bytes"));
            return Err(self.refusal().unwrap_or_else(other));
        }
        let total = length + 1;
        let body = self.inbox.start + HEADER_BYTES;
        if total <= self.inbox.len() {
            self.inbox.take(total);
            return Ok(Some(Frame { tag, body: body..self.inbox.start }));
        }
        if is_row && !wants_rows {
            self.inbox.take(total);
            return Ok(Some(Frame { tag, body: body..body }));
        }
        self.inbox.make_room(total);
        Ok(None)
    }

    /// What a server says that has no process for a connection: an E, and a text that ends with a zero, in place of a message.
    fn refusal(&self) -> Option<io::Error> {
        let words = self.inbox.arrived().strip_prefix(b"E")?.strip_suffix(b"\0")?;
        Some(io::Error::new(io::ErrorKind::ConnectionRefused, String::from_utf8_lossy(words).trim_end()))
    }

    /// The bytes of a frame's body; valid until the next `fill`.
    pub(super) fn body(&self, frame: &Frame) -> &[u8] {
        self.inbox.at(frame.body.clone())
    }

    /// The next message, whole, and its body.
    pub(super) async fn next(&mut self) -> io::Result<(u8, &[u8])> {
        loop {
            if let Some(frame) = self.frame(true)? {
                return Ok((frame.tag, self.inbox.at(frame.body)));
            }
            self.fill().await?;
        }
    }

    /// Waits for more bytes.
    pub(super) async fn fill(&mut self) -> io::Result<()> {
        self.inbox.fill(&mut self.stream).await
    }

    /// Gives back the memory that one very long row or request took; between operations.
    pub(super) fn shrink(&mut self) {
        if self.out.capacity() > OUT_BYTES_MAX {
            self.out = BytesMut::new();
        }
        self.inbox.shrink();
    }

    /// Sends what is in `out`, and says that nothing more comes; what the other side thinks of it does not matter.
    pub(super) async fn close(mut self) {
        if self.send().await.is_ok() {
            let _ = self.stream.shutdown().await;
        }
    }

    /// Waits until the other side closes.
    pub(super) async fn wait_for_end(&mut self) -> io::Result<()> {
        loop {
            self.inbox.clear();
            match self.inbox.read(&mut self.stream).await {
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(()),
                result => result?,
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{DuplexStream, duplex};

    use super::*;
    use crate::driver::inbox::BYTES_MAX;

    fn message(tag: u8, body: &[u8]) -> Vec<u8> {
        let length = u32::try_from(body.len() + 4).expect("a short message").to_be_bytes();
        [&[tag], &length[..], body].concat()
    }

    /// A wire to a server that sends `bytes` and closes; not more than `step` bytes come at once.
    fn wire(bytes: Vec<u8>, step: usize) -> Wire<DuplexStream> {
        let (near, mut far) = duplex(step);
        tokio::spawn(async move {
            // The client may have read enough.
            let _ = far.write_all(&bytes).await;
        });
        Wire::new(near)
    }

    #[tokio::test]
    async fn messages_are_whole_however_their_bytes_come() {
        let bytes = [message(b'T', b""), message(b'D', &[7; 300]), message(b'Z', b"I")].concat();
        for step in 1..bytes.len() {
            let mut wire = wire(bytes.clone(), step);
            assert_eq!(wire.next().await.expect("a message"), (b'T', &b""[..]));
            assert_eq!(wire.next().await.expect("a message"), (b'D', &[7; 300][..]));
            assert_eq!(wire.next().await.expect("a message"), (b'Z', &b"I"[..]));
            let error = wire.next().await.expect_err("the end");
            assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
        }
    }

    /// Tags and lengths of all messages up to the end.
    async fn read_all(wire: &mut Wire<DuplexStream>, wants_rows: bool) -> Vec<(u8, usize)> {
        let mut seen = Vec::new();
        loop {
            while let Some(frame) = wire.frame(wants_rows).expect("legal messages") {
                seen.push((frame.tag, wire.body(&frame).len()));
            }
            if wire.fill().await.is_err() {
                return seen;
            }
        }
    }

    #[tokio::test]
    async fn rows_that_nobody_wants_pass_through_a_bounded_buffer() {
        let long = message(b'D', &vec![1; 3_000_000]);
        let bytes = [long.clone(), long, message(b'C', b"SELECT 2\0")].concat();
        for step in [1000, 1 << 20] {
            let mut wire = wire(bytes.clone(), step);
            assert_eq!(read_all(&mut wire, false).await, [(b'D', 0), (b'D', 0), (b'C', 9)]);
            assert!(wire.inbox.capacity() <= BYTES_MAX, "{}", wire.inbox.capacity());
        }
    }

    #[tokio::test]
    async fn a_long_row_that_is_wanted_comes_whole_and_its_memory_goes_back() {
        let bytes = [message(b'D', &vec![1; 300_000]), message(b'Z', b"I")].concat();
        let mut wire = wire(bytes, 1 << 16);
        assert_eq!(read_all(&mut wire, true).await, [(b'D', 300_000), (b'Z', 1)]);
        assert!(wire.inbox.capacity() > 300_000);
        wire.shrink();
        assert_eq!(wire.inbox.capacity(), BYTES_MAX);
        wire.out.reserve(OUT_BYTES_MAX + 1);
        wire.shrink();
        assert!(wire.out.capacity() <= OUT_BYTES_MAX);
    }

    #[tokio::test]
    async fn lengths_that_no_message_has_are_refused() {
        // The second is what an SSH server says, and looks like a row of 1.9 GB.
        for bytes in [&b"HTTP/1.1 400 Bad Request"[..], b"Dropbear", b"Z\0\0\0\x03\0"] {
            let error = wire(bytes.to_vec(), 100).next().await.expect_err("no PostgreSQL");
            assert_eq!(error.kind(), io::ErrorKind::InvalidData);
        }
    }

    #[tokio::test]
    async fn what_is_sent_arrives_once_in_small_pieces() {
        let (near, mut far) = duplex(3);
        let mut wire = Wire::new(near);
        wire.out.extend_from_slice(b"0123456789");
        let reading = async {
            let mut seen = [0; 10];
            tokio::io::AsyncReadExt::read_exact(&mut far, &mut seen).await.expect("ten bytes");
            seen
        };
        let (sent, seen) = tokio::join!(wire.send(), reading);
        sent.expect("an open stream");
        assert_eq!(&seen, b"0123456789");
        assert!(wire.out.is_empty());
    }
}
