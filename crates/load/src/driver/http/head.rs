//! The head of an answer: its status, and where its body ends.

use std::borrow::Cow;
use std::fmt::Write;
use std::str::from_utf8;

use crate::http::{HttpAnswer, Method};

/// Servers send less; what is longer is no head.
pub(super) const BYTES_MAX: usize = 32 * 1024;

const HEADERS_MAX: usize = 128;

/// Where the body ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Framing {
    /// After so many bytes.
    Length(u64),
    /// After the last chunk.
    Chunked,
    /// Where the connection ends.
    ToEnd,
}

/// What a head says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) framing: Framing,
    /// Whether the connection may be used again.
    pub(super) keeps_alive: bool,
}

/// How long the head at the front of `bytes` is; `None` when it has not come whole.
pub(super) fn length(bytes: &[u8]) -> Option<usize> {
    // A line's end and then an empty line, whose ends may lack the carriage return.
    let mut from = 0;
    while let Some(end) = memchr::memchr(b'\n', &bytes[from..]) {
        let next = from + end + 1;
        match &bytes[next..] {
            [b'\n', ..] => return Some(next + 1),
            [b'\r', b'\n', ..] => return Some(next + 2),
            _ => from = next,
        }
    }
    None
}

/// Reads a whole head into `answer`; `None` for one that only announces another (1xx).
pub(super) fn read(bytes: &[u8], method: Method, answer: &mut HttpAnswer) -> Result<Option<Head>, String> {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut response = httparse::Response::new(&mut headers);
    let parsed = httparse::ParserConfig::default()
        .allow_obsolete_multiline_headers_in_responses(true)
        .parse_response(&mut response, bytes);
    match parsed {
        Ok(httparse::Status::Complete(_)) => {}
        Ok(httparse::Status::Partial) => return Err("the head ends too early".to_owned()),
        Err(error) => return Err(error.to_string()),
    }
    let status = response.code.unwrap_or(0);
    if status == 101 || status < 100 {
        return Err(format!("status {status} was not asked for"));
    }
    if status < 200 {
        return Ok(None);
    }
    answer.status = status;
    let mut fields = Fields::default();
    for header in response.headers.iter() {
        fields.take(header.name, header.value, answer)?;
    }
    let has_body = method != Method::Head && status != 204 && status != 304;
    let framing = match fields {
        _ if !has_body => Framing::Length(0),
        Fields { is_chunked: true, .. } => Framing::Chunked,
        Fields { length: Some(length), .. } => Framing::Length(length),
        _ => Framing::ToEnd,
    };
    let is_persistent =
        if response.version == Some(1) { !fields.is_closing } else { fields.is_kept && !fields.is_closing };
    // Two lengths: somebody on the way may have read the other one.
    let is_ambiguous = fields.is_chunked && fields.length.is_some();
    let keeps_alive = is_persistent && !is_ambiguous && framing != Framing::ToEnd;
    Ok(Some(Head { framing, keeps_alive }))
}

/// What matters of the header lines.
#[derive(Clone, Copy, Debug, Default)]
struct Fields {
    length: Option<u64>,
    is_chunked: bool,
    is_closing: bool,
    is_kept: bool,
}

impl Fields {
    fn take(&mut self, name: &str, value: &[u8], answer: &mut HttpAnswer) -> Result<(), String> {
        let is = |known: &str| name.eq_ignore_ascii_case(known);
        if is("content-length") {
            for part in value.split(|&byte| byte == b',') {
                let length = number(part.trim_ascii()).ok_or("Content-Length is no number")?;
                if self.length.replace(length).is_some_and(|earlier| earlier != length) {
                    return Err("two different Content-Length".to_owned());
                }
            }
        } else if is("transfer-encoding") {
            if self.is_chunked || !value.trim_ascii().eq_ignore_ascii_case(b"chunked") {
                return Err("a Transfer-Encoding that was not asked for".to_owned());
            }
            self.is_chunked = true;
        } else if is("connection") {
            for token in value.split(|&byte| byte == b',') {
                self.is_closing |= token.trim_ascii().eq_ignore_ascii_case(b"close");
                self.is_kept |= token.trim_ascii().eq_ignore_ascii_case(b"keep-alive");
            }
        } else if is("location") {
            answer.location.clear();
            push_address(unfolded(value).trim_ascii(), &mut answer.location);
        } else if is("set-cookie")
            && let Ok(cookie) = from_utf8(&unfolded(value))
        {
            answer.cookies.push_str(cookie);
            answer.cookies.push('\n');
        }
        Ok(())
    }
}

/// A value that goes on in further lines, as old servers send long ones, in one line: it is sent again as a part of one.
fn unfolded(value: &[u8]) -> Cow<'_, [u8]> {
    let is_end = |byte: &u8| matches!(byte, b'\r' | b'\n');
    if !value.iter().any(is_end) {
        return Cow::Borrowed(value);
    }
    Cow::Owned(value.iter().map(|byte| if is_end(byte) { b' ' } else { *byte }).collect())
}

/// Appends an address; what of it is no UTF-8 becomes %XX, as browsers send it. A redirect without one would be a page.
fn push_address(bytes: &[u8], address: &mut String) {
    for chunk in bytes.utf8_chunks() {
        address.push_str(chunk.valid());
        // Writing to a String cannot fail.
        chunk.invalid().iter().for_each(|byte| _ = write!(address, "%{byte:02X}"));
    }
}

/// Digits only, and not too many.
fn number(text: &[u8]) -> Option<u64> {
    if text.is_empty() {
        return None;
    }
    text.iter().try_fold(0_u64, |number, byte| {
        let digit = byte.is_ascii_digit().then(|| u64::from(byte - b'0'))?;
        number.checked_mul(10)?.checked_add(digit)
    })
}
