//! Messages over a stream: one buffer out, one buffer in, both reused; messages are found in place.
//!
//! Version 4 sends messages as they are, version 5 in segments with checksums once the server has taken the first one.

use std::future::poll_fn;
use std::io;
use std::ops::Range;
use std::pin::Pin;
use std::task::ready;

use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};

use super::checksum::{crc24, crc32};
use crate::driver::inbox::Inbox;

/// Version, flags, stream (16 bits), opcode, length (32 bits).
const HEADER_BYTES: usize = 9;
/// Length of the payload (17 bits), whether it holds whole messages (a bit), checksum (24 bits).
const SEGMENT_BYTES: usize = 6;
const CHECKSUM_BYTES: usize = 4;
const PAYLOAD_BYTES_MAX: usize = (1 << 17) - 1;
const IS_WHOLE: u32 = 1 << 17;
/// The server's own limit on a message.
const MESSAGE_BYTES_MAX: usize = 256 << 20;

/// Of long answers so much memory is kept for the next ones.
const KEPT_BYTES_MAX: usize = 1 << 20;

/// One message of the server; its body is asked for with [`Wire::body`].
#[derive(Clone, Debug)]
pub(super) struct Message {
    pub(super) version: u8,
    pub(super) stream: i16,
    pub(super) opcode: u8,
    /// A warning or a trace stands in front of the body.
    flags: u8,
    body: Range<usize>,
    is_joined: bool,
}

/// A connection's buffers over its stream.
pub(super) struct Wire<S> {
    stream: S,
    pub(super) version: u8,
    /// Whether segments are spoken.
    pub(super) is_framed: bool,
    /// The message that is being written.
    message: Vec<u8>,
    /// What is to be sent; what a request that was dropped has left of itself stays in front.
    out: Vec<u8>,
    n_sent: usize,
    inbox: Inbox,
    /// What is left of a segment with several messages.
    rest: Range<usize>,
    /// A message that came in several segments.
    joined: Vec<u8>,
}

fn broken(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

impl<S: AsyncRead + AsyncWrite + Unpin> Wire<S> {
    pub(super) fn new(stream: S, version: u8) -> Self {
        Self {
            stream,
            version,
            is_framed: false,
            message: Vec::with_capacity(1024),
            out: Vec::with_capacity(1024),
            n_sent: 0,
            inbox: Inbox::new(),
            rest: 0..0,
            joined: Vec::new(),
        }
    }

    pub(super) fn stream(&self) -> &S {
        &self.stream
    }

    /// Starts a message: its body goes into the buffer that is returned; `finish` ends it. Nobody looks at an answer any more.
    pub(super) fn begin(&mut self, opcode: u8, stream: i16) -> &mut Vec<u8> {
        self.shrink();
        self.message.clear();
        let [high, low] = stream.to_be_bytes();
        self.message.extend([self.version, 0, high, low, opcode, 0, 0, 0, 0]);
        &mut self.message
    }

    /// Ends the message; `send` sends it.
    pub(super) fn finish(&mut self) {
        let n_bytes = (self.message.len() - HEADER_BYTES) as u32;
        self.message[5..HEADER_BYTES].copy_from_slice(&n_bytes.to_be_bytes());
        if !self.is_framed {
            self.out.extend(&self.message);
            return;
        }
        let whole = if self.message.len() <= PAYLOAD_BYTES_MAX { IS_WHOLE } else { 0 };
        for payload in self.message.chunks(PAYLOAD_BYTES_MAX) {
            let head = (payload.len() as u32 | whole).to_le_bytes();
            self.out.extend(&head[..3]);
            self.out.extend(&crc24(&head[..3]).to_le_bytes()[..3]);
            self.out.extend(payload);
            self.out.extend(crc32(payload).to_le_bytes());
        }
    }

    /// Sends all that is finished; a future that is dropped leaves the rest for the next call.
    pub(super) async fn send(&mut self) -> io::Result<()> {
        let Self { stream, out, n_sent, .. } = self;
        poll_fn(|cx| {
            while *n_sent < out.len() {
                match ready!(Pin::new(&mut *stream).poll_write(cx, &out[*n_sent..]))? {
                    0 => return Err(io::ErrorKind::WriteZero.into()).into(),
                    n => *n_sent += n,
                }
            }
            Pin::new(&mut *stream).poll_flush(cx)
        })
        .await?;
        out.clear();
        *n_sent = 0;
        Ok(())
    }

    /// The next message, whole; its body is valid until the next call.
    pub(super) async fn next(&mut self) -> io::Result<Message> {
        loop {
            let found = if self.is_framed { self.framed()? } else { self.plain()? };
            if let Some(message) = found {
                return Ok(message);
            }
            self.inbox.fill(&mut self.stream).await?;
        }
    }

    /// The body of a message, without what stands in front of it.
    pub(super) fn body(&self, message: &Message) -> io::Result<&[u8]> {
        let bytes =
            if message.is_joined { &self.joined[message.body.clone()] } else { self.inbox.at(message.body.clone()) };
        skip_extras(message.flags, bytes).ok_or_else(|| broken("a message that is cut short"))
    }

    fn plain(&mut self) -> io::Result<Option<Message>> {
        let Some(length) = length_of(self.inbox.arrived())? else { return Ok(None) };
        let total = HEADER_BYTES + length;
        if total > self.inbox.len() {
            self.inbox.make_room(total);
            return Ok(None);
        }
        let start = self.inbox.start;
        self.inbox.take(total);
        Ok(Some(read(self.inbox.at(start..start + HEADER_BYTES), start, length, false)))
    }

    fn framed(&mut self) -> io::Result<Option<Message>> {
        loop {
            if !self.rest.is_empty() {
                return self.inside().map(Some);
            }
            let arrived = self.inbox.arrived();
            let Some(head) = arrived.first_chunk::<SEGMENT_BYTES>() else { return Ok(None) };
            let word = u32::from_le_bytes([head[0], head[1], head[2], 0]);
            if crc24(&head[..3]) != u32::from_le_bytes([head[3], head[4], head[5], 0]) {
                return Err(broken("a segment whose header has another checksum"));
            }
            let n_bytes = word as usize & PAYLOAD_BYTES_MAX;
            let total = SEGMENT_BYTES + n_bytes + CHECKSUM_BYTES;
            if total > arrived.len() {
                self.inbox.make_room(total);
                return Ok(None);
            }
            let payload = self.inbox.start + SEGMENT_BYTES..self.inbox.start + SEGMENT_BYTES + n_bytes;
            let sum = self.inbox.at(payload.end..payload.end + CHECKSUM_BYTES);
            if crc32(self.inbox.at(payload.clone())).to_le_bytes() != sum {
                return Err(broken("a segment whose payload has another checksum"));
            }
            self.inbox.take(total);
            if word & IS_WHOLE != 0 {
                self.rest = payload;
            } else if let Some(message) = self.join(payload)? {
                return Ok(Some(message));
            }
        }
    }

    /// The first message of the rest of a segment.
    fn inside(&mut self) -> io::Result<Message> {
        let bytes = self.inbox.at(self.rest.clone());
        let length = length_of(bytes)?.filter(|length| HEADER_BYTES + length <= bytes.len());
        let length = length.ok_or_else(|| broken("a segment that ends within a message"))?;
        let message = read(bytes, self.rest.start, length, false);
        self.rest.start += HEADER_BYTES + length;
        Ok(message)
    }

    /// Gives back the memory that a very long answer took.
    fn shrink(&mut self) {
        if self.rest.is_empty() {
            self.inbox.shrink_to(KEPT_BYTES_MAX);
        }
        if self.joined.capacity() > KEPT_BYTES_MAX && is_whole(&self.joined).unwrap_or_default() {
            self.joined = Vec::new();
        }
    }

    /// A message in several segments, once its last one has come.
    fn join(&mut self, payload: Range<usize>) -> io::Result<Option<Message>> {
        if is_whole(&self.joined)? {
            self.joined.clear();
        }
        self.joined.extend_from_slice(self.inbox.at(payload));
        let length = length_of(&self.joined)?.filter(|length| self.joined.len() >= HEADER_BYTES + length);
        Ok(length.map(|length| read(&self.joined, 0, length, true)))
    }

    /// Says that nothing more comes; what the other side thinks of it does not matter.
    pub(super) async fn close(mut self) {
        let _ = self.stream.shutdown().await;
    }
}

/// Whether all of a message has come.
fn is_whole(bytes: &[u8]) -> io::Result<bool> {
    Ok(length_of(bytes)?.is_some_and(|length| bytes.len() >= HEADER_BYTES + length))
}

/// The length of the body whose header has come.
fn length_of(bytes: &[u8]) -> io::Result<Option<usize>> {
    let Some(head) = bytes.first_chunk::<HEADER_BYTES>() else { return Ok(None) };
    let length = u32::from_be_bytes([head[5], head[6], head[7], head[8]]) as usize;
    if head[0] & 0x80 == 0 || length > MESSAGE_BYTES_MAX {
        Err(broken("bytes that are no answer"))
    } else {
        Ok(Some(length))
    }
}

fn read(bytes: &[u8], start: usize, length: usize, is_joined: bool) -> Message {
    let body = start + HEADER_BYTES..start + HEADER_BYTES + length;
    let stream = i16::from_be_bytes([bytes[2], bytes[3]]);
    Message { version: bytes[0] & 0x7f, stream, opcode: bytes[4], flags: bytes[1], body, is_joined }
}

/// A trace's number, warnings, and what a server adds of its own come before the body, in this order.
fn skip_extras(flags: u8, bytes: &[u8]) -> Option<&[u8]> {
    let mut fields = super::fields::Fields(bytes);
    if flags & 0x02 != 0 {
        fields.bytes(16)?;
    }
    if flags & 0x08 != 0 {
        for _ in 0..fields.u16()? {
            fields.short()?;
        }
    }
    if flags & 0x04 != 0 {
        for _ in 0..fields.u16()? {
            fields.short()?;
            fields.value()?;
        }
    }
    Some(fields.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::duplex;

    /// What one side writes, the other reads: the bit that marks answers is set in between.
    async fn exchanged(is_framed: bool, bodies: &[Vec<u8>]) -> Vec<(i16, u8, Vec<u8>)> {
        let (near, far) = duplex(1 << 20);
        let mut sender = Wire::new(near, 0x85);
        let mut receiver = Wire::new(far, 5);
        (sender.is_framed, receiver.is_framed) = (is_framed, is_framed);
        for (index, body) in bodies.iter().enumerate() {
            sender.begin(8, index as i16).extend(body);
            sender.finish();
        }
        let mut found = Vec::new();
        let sending = async { sender.send().await.expect("room") };
        let receiving = async {
            for _ in bodies {
                let message = receiver.next().await.expect("a message");
                found.push((message.stream, message.opcode, receiver.body(&message).expect("whole").to_vec()));
            }
        };
        tokio::join!(sending, receiving);
        found
    }

    #[tokio::test]
    async fn messages_of_every_length_come_back() {
        let bodies: Vec<Vec<u8>> =
            [0, 1, 100, 70_000, PAYLOAD_BYTES_MAX - HEADER_BYTES, PAYLOAD_BYTES_MAX, 300_000, 5, 400_000]
                .map(|n| (0..n).map(|i| (i % 251) as u8).collect())
                .to_vec();
        for is_framed in [false, true] {
            let found = exchanged(is_framed, &bodies).await;
            for (index, (found, body)) in found.iter().zip(&bodies).enumerate() {
                assert_eq!((found.0, found.1), (index as i16, 8));
                assert!(found.2 == *body, "message {index}, framed {is_framed}");
            }
        }
    }

    #[tokio::test]
    async fn the_memory_of_a_long_answer_goes_back() {
        for is_framed in [false, true] {
            let (near, far) = duplex(1 << 16);
            let (mut sender, mut receiver) = (Wire::new(near, 0x85), Wire::new(far, 5));
            (sender.is_framed, receiver.is_framed) = (is_framed, is_framed);
            for n_bytes in [4 << 20, 5] {
                sender.begin(8, 1).resize(HEADER_BYTES + n_bytes, 7);
                sender.finish();
            }
            let receiving = async {
                let long = receiver.next().await.expect("a message");
                assert_eq!(receiver.body(&long).expect("whole").len(), 4 << 20);
                receiver.begin(7, 2);
                assert!(receiver.inbox.capacity() <= KEPT_BYTES_MAX && receiver.joined.capacity() <= KEPT_BYTES_MAX);
                let short = receiver.next().await.expect("a message");
                assert_eq!(receiver.body(&short).expect("whole"), [7; 5]);
            };
            let (sent, ()) = tokio::join!(sender.send(), receiving);
            sent.expect("an open stream");
        }
    }

    async fn refusal(bytes: &[u8], is_framed: bool) -> String {
        let mut wire = Wire::new(tokio::io::join(bytes, tokio::io::sink()), 5);
        wire.is_framed = is_framed;
        wire.next().await.expect_err("refused").to_string()
    }

    #[tokio::test]
    async fn damaged_segments_are_refused() {
        let mut wire = Wire::new(tokio::io::join(&b""[..], Vec::new()), 0x85);
        wire.is_framed = true;
        wire.begin(8, 1).extend(b"abc");
        wire.finish();
        let sound = wire.out;
        for (at, words) in [(0, "header has another checksum"), (8, "payload has another checksum")] {
            let mut bytes = sound.clone();
            bytes[at] ^= 1;
            assert!(refusal(&bytes, true).await.contains(words), "{at}");
        }
        assert_eq!(refusal(b"HTTP/1.1 400 Bad Request", false).await, "bytes that are no answer");
        assert_eq!(refusal(&sound[..7], true).await, io::Error::from(io::ErrorKind::UnexpectedEof).to_string());
    }

    #[test]
    fn warnings_and_traces_stand_in_front() {
        assert_eq!(skip_extras(0x08, b"\0\x01\0\x02abrest"), Some(&b"rest"[..]));
        assert_eq!(skip_extras(0x02, b"0123456789abcdefrest"), Some(&b"rest"[..]));
        assert_eq!(skip_extras(0x04, b"\0\x01\0\x01k\0\0\0\x01vrest"), Some(&b"rest"[..]));
        assert_eq!(skip_extras(0x08, b"\0\x01\0\x09ab"), None);
    }
}
