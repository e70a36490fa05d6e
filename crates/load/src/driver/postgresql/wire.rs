//! Messages over a socket: one buffer out, one buffer in, both reused; frames are found in place.

use std::future::poll_fn;
use std::io;
use std::ops::Range;
use std::pin::Pin;
use std::task::ready;

use bytes::BytesMut;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadBuf};

/// Holds the answer to a usual operation, and what the server sends at once (8 kB).
const INBOX_BYTES: usize = 16 * 1024;

/// The buffer grows to this while results are large, and beyond it only for one row that must be looked at whole.
const INBOX_BYTES_MAX: usize = 64 * 1024;

/// The buffer of requests is kept up to this size.
const OUT_BYTES_MAX: usize = 1024 * 1024;

/// Nothing but rows is longer than this; whoever says so speaks another protocol.
const MESSAGE_BYTES_MAX: usize = 16 * 1024 * 1024;

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
    inbox: Vec<u8>,
    start: usize,
    end: usize,
    /// So many bytes of a row that nobody looks at are still to come.
    skipped: usize,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Wire<S> {
    pub(super) fn new(stream: S) -> Self {
        Self { stream, out: BytesMut::with_capacity(1024), inbox: vec![0; INBOX_BYTES], start: 0, end: 0, skipped: 0 }
    }

    /// Sends what is in `out` and empties it.
    pub(super) async fn send(&mut self) -> io::Result<()> {
        let result = self.write_out().await;
        self.out.clear();
        result
    }

    async fn write_out(&mut self) -> io::Result<()> {
        let mut n_sent = 0;
        poll_fn(|cx| {
            while n_sent < self.out.len() {
                match ready!(Pin::new(&mut self.stream).poll_write(cx, &self.out[n_sent..]))? {
                    0 => return Err(io::ErrorKind::WriteZero.into()).into(),
                    n => n_sent += n,
                }
            }
            Pin::new(&mut self.stream).poll_flush(cx)
        })
        .await
    }

    /// The next message that has come already. The contents of rows and of COPY's data are there only when `wants_rows`.
    pub(super) fn frame(&mut self, wants_rows: bool) -> io::Result<Option<Frame>> {
        let n_bytes = self.end - self.start;
        if n_bytes < HEADER_BYTES {
            return Ok(None);
        }
        let header = &self.inbox[self.start..self.start + HEADER_BYTES];
        let tag = header[0];
        let length = u32::from_be_bytes([header[1], header[2], header[3], header[4]]) as usize;
        let is_row = matches!(tag, b'D' | b'd');
        if length < HEADER_BYTES - 1 || (!is_row && length > MESSAGE_BYTES_MAX) {
            return Err(io::Error::new(io::ErrorKind::InvalidData, format!("a message of {length} bytes")));
        }
        let total = length + 1;
        let body = self.start + HEADER_BYTES;
        if total <= n_bytes {
            self.start += total;
            return Ok(Some(Frame { tag, body: body..self.start }));
        }
        if is_row && !wants_rows {
            self.skipped = total - n_bytes;
            self.start = self.end;
            return Ok(Some(Frame { tag, body: body..body }));
        }
        self.make_room(total);
        Ok(None)
    }

    /// The bytes of a frame's body; valid until the next `fill`.
    pub(super) fn body(&self, frame: &Frame) -> &[u8] {
        &self.inbox[frame.body.clone()]
    }

    /// The next message, whole, and its body.
    pub(super) async fn next(&mut self) -> io::Result<(u8, &[u8])> {
        loop {
            if let Some(frame) = self.frame(true)? {
                return Ok((frame.tag, &self.inbox[frame.body]));
            }
            self.fill().await?;
        }
    }

    /// Waits for more bytes.
    pub(super) async fn fill(&mut self) -> io::Result<()> {
        loop {
            if self.start == self.end {
                (self.start, self.end) = (0, 0);
            } else if self.end == self.inbox.len() {
                self.make_room(self.inbox.len());
            }
            let n_read = self.read().await?;
            let n_skipped = n_read.min(self.skipped);
            self.skipped -= n_skipped;
            self.start += n_skipped;
            self.end += n_read;
            if self.end == self.inbox.len() && self.end < INBOX_BYTES_MAX {
                self.inbox.resize(self.end * 2, 0);
            }
            if self.start < self.end {
                return Ok(());
            }
        }
    }

    async fn read(&mut self) -> io::Result<usize> {
        let free = &mut self.inbox[self.end..];
        let stream = &mut self.stream;
        let n_read = poll_fn(|cx| {
            let mut buf = ReadBuf::new(free);
            ready!(Pin::new(&mut *stream).poll_read(cx, &mut buf))?;
            Ok::<_, io::Error>(buf.filled().len()).into()
        })
        .await?;
        if n_read == 0 { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(n_read) }
    }

    /// Moves what has come to the front of a buffer that holds `n_bytes` at least.
    fn make_room(&mut self, n_bytes: usize) {
        self.inbox.copy_within(self.start..self.end, 0);
        (self.start, self.end) = (0, self.end - self.start);
        if self.inbox.len() < n_bytes {
            self.inbox.resize(n_bytes, 0);
        }
    }

    /// Gives back the memory that one very long row or request took; between operations.
    pub(super) fn shrink(&mut self) {
        if self.out.capacity() > OUT_BYTES_MAX {
            self.out = BytesMut::new();
        }
        if self.inbox.len() > INBOX_BYTES_MAX && self.end <= INBOX_BYTES_MAX {
            self.inbox.truncate(INBOX_BYTES_MAX);
            self.inbox.shrink_to_fit();
        }
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
            (self.start, self.end) = (0, 0);
            match self.read().await {
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
            assert!(wire.inbox.len() <= INBOX_BYTES_MAX, "{}", wire.inbox.len());
        }
    }

    #[tokio::test]
    async fn a_long_row_that_is_wanted_comes_whole_and_its_memory_goes_back() {
        let bytes = [message(b'D', &vec![1; 300_000]), message(b'Z', b"I")].concat();
        let mut wire = wire(bytes, 1 << 16);
        assert_eq!(read_all(&mut wire, true).await, [(b'D', 300_000), (b'Z', 1)]);
        assert!(wire.inbox.len() > 300_000);
        (wire.start, wire.end) = (0, 0);
        wire.shrink();
        assert_eq!(wire.inbox.len(), INBOX_BYTES_MAX);
        wire.out.reserve(OUT_BYTES_MAX + 1);
        wire.shrink();
        assert!(wire.out.capacity() <= OUT_BYTES_MAX);
    }

    #[tokio::test]
    async fn lengths_that_no_message_has_are_refused() {
        for bytes in [b"HTTP/1.1 400 Bad Request".to_vec(), vec![b'Z', 0, 0, 0, 3, 0]] {
            let error = wire(bytes, 100).next().await.expect_err("no PostgreSQL");
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
