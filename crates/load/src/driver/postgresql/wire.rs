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

    /// Gives back the memory that one very long row took; between operations.
    pub(super) fn shrink(&mut self) {
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
