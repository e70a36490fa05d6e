//! What has come from a server and was not looked at yet: one buffer, reused, in which messages are found in place.

use std::future::poll_fn;
use std::io;
use std::ops::Range;
use std::pin::Pin;
use std::task::ready;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Holds the answer to a usual operation, and what PostgreSQL sends at once (8 kB).
const BYTES: usize = 16 * 1024;

/// The buffer grows to this while results are large, and beyond it only for one row that must be looked at whole.
pub(super) const BYTES_MAX: usize = 64 * 1024;

/// The bytes between `start` and `end` have come.
pub(super) struct Inbox {
    bytes: Vec<u8>,
    pub(super) start: usize,
    pub(super) end: usize,
    /// So many bytes of a row that nobody looks at are still to come.
    pub(super) skipped: usize,
}

impl Inbox {
    pub(super) fn new() -> Self {
        Self { bytes: vec![0; BYTES], start: 0, end: 0, skipped: 0 }
    }

    /// How many bytes have come.
    pub(super) fn len(&self) -> usize {
        self.end - self.start
    }

    /// The bytes that have come.
    pub(super) fn arrived(&self) -> &[u8] {
        &self.bytes[self.start..self.end]
    }

    /// Bytes that were found earlier; valid until the next `fill`.
    pub(super) fn at(&self, range: Range<usize>) -> &[u8] {
        &self.bytes[range]
    }

    /// Takes `n_bytes` from the front; what of them has not come yet is skipped when it comes.
    pub(super) fn take(&mut self, n_bytes: usize) {
        self.skipped = n_bytes.saturating_sub(self.len());
        self.start += n_bytes - self.skipped;
    }

    /// Forgets what has come.
    pub(super) fn clear(&mut self) {
        (self.start, self.end) = (0, 0);
    }

    /// Waits for more bytes.
    pub(super) async fn fill<S: AsyncRead + Unpin>(&mut self, stream: &mut S) -> io::Result<()> {
        loop {
            if self.start == self.end {
                self.clear();
            } else if self.end == self.bytes.len() {
                self.make_room(self.bytes.len());
            }
            let n_read = self.read(stream).await?;
            let n_skipped = n_read.min(self.skipped);
            self.skipped -= n_skipped;
            self.start += n_skipped;
            self.end += n_read;
            if self.end == self.bytes.len() && self.end < BYTES_MAX {
                self.bytes.resize(self.end * 2, 0);
            }
            if self.start < self.end {
                return Ok(());
            }
        }
    }

    /// Reads behind what has come, without keeping it: how many bytes came; `UnexpectedEof` at the end.
    pub(super) async fn read<S: AsyncRead + Unpin>(&mut self, stream: &mut S) -> io::Result<usize> {
        let free = &mut self.bytes[self.end..];
        let n_read = poll_fn(|cx| {
            let mut buf = ReadBuf::new(free);
            ready!(Pin::new(&mut *stream).poll_read(cx, &mut buf))?;
            Ok::<_, io::Error>(buf.filled().len()).into()
        })
        .await?;
        if n_read == 0 { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(n_read) }
    }

    /// Moves what has come to the front of the buffer, which grows towards `n_bytes` as they come: what a server only says that it
    /// will send takes no memory.
    pub(super) fn make_room(&mut self, n_bytes: usize) {
        self.bytes.copy_within(self.start..self.end, 0);
        (self.start, self.end) = (0, self.len());
        if self.end == self.bytes.len() && self.end < n_bytes {
            self.bytes.resize(n_bytes.min(self.end.max(BYTES_MAX / 2) * 2), 0);
        }
    }

    /// Gives back the memory that one very long row took; between operations.
    pub(super) fn shrink(&mut self) {
        self.shrink_to(BYTES_MAX);
    }

    /// The same of all but `n_bytes`.
    pub(super) fn shrink_to(&mut self, n_bytes: usize) {
        if self.start == self.end {
            self.clear();
        }
        if self.bytes.len() > n_bytes && self.end <= n_bytes {
            self.bytes.truncate(n_bytes);
            self.bytes.shrink_to_fit();
        }
    }

    #[cfg(test)]
    pub(super) fn capacity(&self) -> usize {
        self.bytes.len()
    }
}

/// Sends all of `bytes`.
pub(super) async fn send_all<S: AsyncWrite + Unpin>(stream: &mut S, bytes: &[u8]) -> io::Result<()> {
    let mut n_sent = 0;
    poll_fn(|cx| {
        while n_sent < bytes.len() {
            match ready!(Pin::new(&mut *stream).poll_write(cx, &bytes[n_sent..]))? {
                0 => return Err(io::ErrorKind::WriteZero.into()).into(),
                n => n_sent += n,
            }
        }
        Pin::new(&mut *stream).poll_flush(cx)
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_length_that_a_server_only_claims_takes_no_memory() {
        let (mut inbox, mut sent) = (Inbox::new(), &[7; 1_000_000][..]);
        for claimed in [1 << 30, 1_000_000] {
            while inbox.len() < 100_000.min(claimed) {
                inbox.make_room(claimed);
                inbox.fill(&mut sent).await.expect("more");
            }
            assert!(inbox.capacity() <= 4 * BYTES_MAX, "{}", inbox.capacity());
        }
        while inbox.len() < 1_000_000 {
            inbox.make_room(1_000_000);
            inbox.fill(&mut sent).await.expect("more");
        }
        assert_eq!((inbox.arrived(), inbox.capacity()), (&[7; 1_000_000][..], 1_000_000));
    }
}
