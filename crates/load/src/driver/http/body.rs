//! Bodies: read to their end, and kept only if somebody wants them.

use std::io;

use tokio::io::AsyncRead;

use super::head::Framing;
use crate::driver::inbox::Inbox;
use crate::driver::{ErrorClass, Failure};

/// A page that somebody looks at is shorter.
const KEPT_MAX: usize = 16 * 1024 * 1024;

/// A line with a chunk's length, or a field after the last one.
const LINE_MAX: usize = 8 * 1024;

/// Fields after the last chunk.
const TRAILERS_MAX: usize = 128;

/// Where a body goes.
pub(super) struct Sink<'a> {
    /// `None`: nowhere.
    pub(super) kept: Option<&'a mut Vec<u8>>,
    pub(super) n_bytes: u64,
}

impl Sink<'_> {
    fn take(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        self.n_bytes += bytes.len() as u64;
        if let Some(kept) = &mut self.kept {
            if kept.len() + bytes.len() > KEPT_MAX {
                return Err(Failure::protocol(format!("a page of more than {KEPT_MAX} bytes cannot be looked at")));
            }
            kept.extend_from_slice(bytes);
        }
        Ok(())
    }
}

/// Reads a body to its end.
pub(super) async fn read<S: AsyncRead + Unpin>(
    framing: Framing,
    inbox: &mut Inbox,
    stream: &mut S,
    sink: &mut Sink<'_>,
) -> Result<(), Failure> {
    match framing {
        Framing::Length(n_bytes) => pass(n_bytes, inbox, stream, sink).await,
        Framing::Chunked => chunks(inbox, stream, sink).await,
        Framing::ToEnd => match pass(u64::MAX, inbox, stream, sink).await {
            Err(failure) if !is_end(&failure) => Err(failure),
            _ => Ok(()),
        },
    }
}

const CUT: &str = "the page is cut short";

fn cut(error: &io::Error) -> Failure {
    // Words of its own has the end of an encrypted connection that the server did not announce: whoever is killed says nothing.
    match (error.kind(), error.get_ref()) {
        (io::ErrorKind::UnexpectedEof, Some(words)) => {
            Failure::without_code(ErrorClass::Connect, format!("{CUT}: {words}"))
        }
        _ => Failure::lost(CUT, error),
    }
}

/// Whether it says that the server has closed the connection in good order.
fn is_end(failure: &Failure) -> bool {
    *failure == cut(&io::ErrorKind::UnexpectedEof.into())
}

async fn pass<S: AsyncRead + Unpin>(
    mut n_left: u64,
    inbox: &mut Inbox,
    stream: &mut S,
    sink: &mut Sink<'_>,
) -> Result<(), Failure> {
    loop {
        let n_here = usize::try_from(n_left).unwrap_or(usize::MAX).min(inbox.len());
        sink.take(&inbox.arrived()[..n_here])?;
        inbox.start += n_here;
        n_left -= n_here as u64;
        if n_left == 0 {
            return Ok(());
        }
        inbox.fill(stream).await.map_err(|error| cut(&error))?;
    }
}

async fn chunks<S: AsyncRead + Unpin>(inbox: &mut Inbox, stream: &mut S, sink: &mut Sink<'_>) -> Result<(), Failure> {
    loop {
        let n_line = line(inbox, stream).await?;
        let n_bytes = chunk_length(&inbox.arrived()[..n_line])
            .ok_or_else(|| Failure::protocol("a chunk whose length is no number"))?;
        inbox.start += n_line;
        if n_bytes == 0 {
            return trailers(inbox, stream).await;
        }
        pass(n_bytes, inbox, stream, sink).await?;
        let n_line = line(inbox, stream).await?;
        if !is_empty(&inbox.arrived()[..n_line]) {
            return Err(Failure::protocol("a chunk that is longer than it says"));
        }
        inbox.start += n_line;
    }
}

async fn trailers<S: AsyncRead + Unpin>(inbox: &mut Inbox, stream: &mut S) -> Result<(), Failure> {
    for _ in 0..TRAILERS_MAX {
        let n_line = line(inbox, stream).await?;
        let is_last = is_empty(&inbox.arrived()[..n_line]);
        inbox.start += n_line;
        if is_last {
            return Ok(());
        }
    }
    Err(Failure::protocol("too many fields after the last chunk"))
}

/// How long the next line is, with its end; it has come whole.
async fn line<S: AsyncRead + Unpin>(inbox: &mut Inbox, stream: &mut S) -> Result<usize, Failure> {
    let mut n_seen = 0;
    loop {
        let arrived = inbox.arrived();
        if let Some(end) = memchr::memchr(b'\n', &arrived[n_seen..]) {
            return Ok(n_seen + end + 1);
        }
        n_seen = arrived.len();
        if n_seen > LINE_MAX {
            return Err(Failure::protocol("a line between chunks that does not end"));
        }
        inbox.fill(stream).await.map_err(|error| cut(&error))?;
    }
}

fn is_empty(line: &[u8]) -> bool {
    matches!(line, b"\n" | b"\r\n")
}

/// Hexadecimal digits; what follows a semicolon is nobody's.
fn chunk_length(line: &[u8]) -> Option<u64> {
    let digits = line.split(|&byte| byte == b';').next()?.trim_ascii();
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0_u64, |length, &byte| {
        let digit = char::from(byte).to_digit(16)?;
        length.checked_mul(16)?.checked_add(u64::from(digit))
    })
}
