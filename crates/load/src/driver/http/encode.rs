//! Requests as they are sent.

use std::io::Write;

use crate::driver::Failure;
use crate::http::HttpRequest;

/// Writes `request` over what `out` held; `headers` are those of every request.
pub(super) fn encode(request: &HttpRequest, headers: &str, out: &mut Vec<u8>) -> Result<(), Failure> {
    let HttpRequest { method, target, headers: own, cookies, body, .. } = request;
    let is_sound = target.starts_with('/') && target.bytes().all(|byte| (0x21..0x7f).contains(&byte));
    if !is_sound {
        return Err(Failure::statement(format!(
            "{target:?} is no path that can be sent: write %XX for other characters"
        )));
    }
    out.clear();
    for part in [method.name(), " ", target, " HTTP/1.1\r\n", headers, own] {
        out.extend_from_slice(part.as_bytes());
    }
    if !cookies.is_empty() {
        for part in ["Cookie: ", cookies, "\r\n"] {
            out.extend_from_slice(part.as_bytes());
        }
    }
    if method.has_body() {
        // Writing to a Vec cannot fail.
        let _ = write!(out, "Content-Length: {}\r\n", body.len());
    }
    out.extend_from_slice(b"\r\n");
    if method.has_body() {
        out.extend_from_slice(body);
    }
    Ok(())
}
