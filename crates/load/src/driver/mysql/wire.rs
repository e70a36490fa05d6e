//! Packets over a stream: one buffer out, one buffer in, both reused; packets are found in place.

use std::io;
use std::ops::Range;

use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};

use crate::driver::inbox::{BYTES_MAX, Inbox, send_all};

/// Length in three bytes, then a number that counts the packets of one exchange.
const HEADER_BYTES: usize = 4;

/// A packet of this length goes on in the next one.
const PAYLOAD_BYTES_MAX: usize = 0xff_ffff;

/// Far more than a greeting has, and far less than three letters are as a length.
const GREETING_BYTES_MAX: usize = 64 * 1024;

/// One packet of the server: where its payload lies; empty for a long row that nobody looks at.
pub(super) type Packet = Range<usize>;

/// A connection's two buffers over its stream.
pub(super) struct Wire<S> {
    stream: S,
    out: Vec<u8>,
    inbox: Inbox,
    /// The next packet goes on with the row of the last one.
    is_continued: bool,
    /// Number of the next packet that is sent.
    sequence: u8,
}

impl<S> Wire<S> {
    pub(super) fn new(stream: S) -> Self {
        Self { stream, out: Vec::with_capacity(1024), inbox: Inbox::new(), is_continued: false, sequence: 0 }
    }

    pub(super) fn into_stream(self) -> S {
        self.stream
    }

    /// A stream in which the exchange of `before` goes on.
    pub(super) fn continued<T>(stream: S, before: &Wire<T>) -> Self {
        Self { sequence: before.sequence, ..Self::new(stream) }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Wire<S> {
    /// Starts a command: the payload goes into the buffer that is returned, and `send` sends it.
    pub(super) fn command(&mut self, kind: u8) -> &mut Vec<u8> {
        self.sequence = 0;
        let out = self.answer();
        out.push(kind);
        out
    }

    /// Starts the next packet of an exchange that is under way.
    pub(super) fn answer(&mut self) -> &mut Vec<u8> {
        self.out.clear();
        self.out.extend([0; HEADER_BYTES]);
        &mut self.out
    }

    /// Sends the payload that was written.
    pub(super) async fn send(&mut self) -> io::Result<()> {
        self.divide();
        send_all(&mut self.stream, &self.out).await
    }

    /// Writes the headers; a payload that is too long for one packet goes into several, of which the last may be empty.
    fn divide(&mut self) {
        let mut at = 0;
        loop {
            let rest = self.out.len() - at - HEADER_BYTES;
            let length = rest.min(PAYLOAD_BYTES_MAX);
            self.out[at..at + 3].copy_from_slice(&(length as u32).to_le_bytes()[..3]);
            self.out[at + 3] = self.sequence;
            self.sequence = self.sequence.wrapping_add(1);
            if length < PAYLOAD_BYTES_MAX {
                return;
            }
            at += HEADER_BYTES + length;
            self.out.splice(at..at, [0; HEADER_BYTES]);
        }
    }

    /// The next packet that has come already. `is_row_unwanted`: a packet that is too long for the buffer can only be a row,
    /// and nobody looks at it.
    pub(super) fn packet(&mut self, is_row_unwanted: bool) -> io::Result<Option<Packet>> {
        loop {
            let Some(&[a, b, c, sequence]) = self.inbox.arrived().first_chunk() else { return Ok(None) };
            let length = u32::from_le_bytes([a, b, c, 0]) as usize;
            let total = HEADER_BYTES + length;
            let payload = self.inbox.start + HEADER_BYTES;
            // What a row is continued with is not looked at either: nothing says how long a row may become.
            let is_unwanted = (is_row_unwanted && total > BYTES_MAX) || self.is_continued;
            if total > self.inbox.len() && !is_unwanted {
                self.inbox.make_room(total);
                return Ok(None);
            }
            self.sequence = sequence.wrapping_add(1);
            self.inbox.take(total);
            let was_continued = std::mem::replace(&mut self.is_continued, length == PAYLOAD_BYTES_MAX);
            if !was_continued {
                return Ok(Some(if is_unwanted { payload..payload } else { payload..self.inbox.start }));
            }
            if self.inbox.skipped > 0 {
                return Ok(None);
            }
        }
    }

    /// A packet's bytes; valid until the next `fill`.
    pub(super) fn payload(&self, packet: &Packet) -> &[u8] {
        self.inbox.at(packet.clone())
    }

    /// The next packet, whole.
    pub(super) async fn next(&mut self) -> io::Result<&[u8]> {
        loop {
            if let Some(packet) = self.packet(false)? {
                return Ok(self.inbox.at(packet));
            }
            self.fill().await?;
        }
    }

    /// The server's first packet; `InvalidData` for one of a length that no greeting has: those are the words of a server of
    /// another protocol, which waits for ours then.
    pub(super) async fn greeting(&mut self) -> io::Result<&[u8]> {
        loop {
            if let Some(&[a, b, c, _]) = self.inbox.arrived().first_chunk()
                && u32::from_le_bytes([a, b, c, 0]) as usize > GREETING_BYTES_MAX
            {
                return Err(io::ErrorKind::InvalidData.into());
            }
            if let Some(packet) = self.packet(false)? {
                return Ok(self.inbox.at(packet));
            }
            self.fill().await?;
        }
    }

    /// Waits for more bytes.
    pub(super) async fn fill(&mut self) -> io::Result<()> {
        self.inbox.fill(&mut self.stream).await
    }

    /// Gives back the memory that one very long row took; between operations.
    pub(super) fn shrink(&mut self) {
        self.inbox.shrink();
    }

    /// Sends what was written, and says that nothing more comes; what the other side thinks of it does not matter.
    pub(super) async fn close(mut self) {
        if self.send().await.is_ok() {
            let _ = self.stream.shutdown().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, duplex};

    fn packet_bytes(sequence: u8, payload: &[u8]) -> Vec<u8> {
        let mut bytes = (payload.len() as u32).to_le_bytes()[..3].to_vec();
        bytes.push(sequence);
        bytes.extend(payload);
        bytes
    }

    #[tokio::test]
    async fn packets_are_found_however_they_are_cut() {
        for cut in [1, 3, 4, 7, 1_000_000] {
            let (near, mut far) = duplex(64);
            let mut sent = packet_bytes(1, b"one");
            sent.extend(packet_bytes(2, b""));
            sent.extend(packet_bytes(3, &[7; 70_000]));
            let writing = async move {
                for part in sent.chunks(cut) {
                    far.write_all(part).await.expect("written");
                }
            };
            let mut wire = Wire::new(near);
            let reading = async {
                assert_eq!(wire.next().await.expect("a packet"), b"one");
                assert_eq!(wire.next().await.expect("a packet"), b"");
                assert_eq!(wire.next().await.expect("a packet"), [7; 70_000]);
                assert_eq!(wire.next().await.expect_err("closed").kind(), io::ErrorKind::UnexpectedEof);
            };
            tokio::join!(writing, reading);
            assert_eq!(wire.sequence, 4);
        }
    }

    #[tokio::test]
    async fn long_rows_are_skipped_or_read_and_their_continuations_never() {
        for is_unwanted in [true, false] {
            let (near, mut far) = duplex(100_000);
            let mut sent = packet_bytes(0, &vec![1; PAYLOAD_BYTES_MAX]);
            sent.extend(packet_bytes(1, &vec![2; PAYLOAD_BYTES_MAX]));
            sent.extend(packet_bytes(2, &[3; 90_000]));
            sent.extend(packet_bytes(3, b"end"));
            let writing = async move { far.write_all(&sent).await.expect("written") };
            let mut wire = Wire::new(near);
            let reading = async {
                let mut lengths = Vec::new();
                while lengths.len() < 2 {
                    match wire.packet(is_unwanted).expect("sound") {
                        Some(packet) => lengths.push(wire.payload(&packet).len()),
                        None => wire.fill().await.expect("more"),
                    }
                }
                assert_eq!(lengths, [if is_unwanted { 0 } else { PAYLOAD_BYTES_MAX }, 3]);
                wire.shrink();
                assert!(wire.inbox.capacity() <= BYTES_MAX);
            };
            tokio::join!(writing, reading);
        }
    }

    #[tokio::test]
    async fn long_requests_are_divided() {
        for (length, expected) in [(0, vec![1]), (PAYLOAD_BYTES_MAX - 1, vec![PAYLOAD_BYTES_MAX, 0])] {
            let (near, mut far) = duplex(100_000);
            let mut wire = Wire::new(near);
            let out = wire.command(3);
            out.resize(out.len() + length, 9);
            let receiving = async {
                for (number, &length) in expected.iter().enumerate() {
                    let header = far.read_u32_le().await.expect("a header");
                    assert_eq!(header, length as u32 | (number as u32) << 24);
                    far.read_exact(&mut vec![0; length]).await.expect("a payload");
                }
            };
            let (sent, ()) = tokio::join!(wire.send(), receiving);
            sent.expect("sent");
        }
    }
}
