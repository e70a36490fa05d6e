//! Requests as they are sent.

use std::io::Write;

use crate::driver::Failure;
use crate::http::HttpRequest;

/// Writes `request` over what `out` held; `headers` are those of every request.
pub(super) fn encode(request: &HttpRequest, headers: &str, out: &mut Vec<u8>) -> Result<(), Failure> {
    let HttpRequest { method, target, headers: own, cookies, body, is_last, .. } = request;
    let is_sound = target.starts_with('/') && target.bytes().all(|byte| (0x21..0x7f).contains(&byte));
    if !is_sound {
        return Err(Failure::statement(format!(
            "{target:?} is no path that can be sent: write %XX for other characters"
        )));
    }
    out.clear();
    for part in [method.name(), " ", target, " HTTP/1.1\r\n"] {
        out.extend_from_slice(part.as_bytes());
    }
    put_headers(headers, own, out);
    if !cookies.is_empty() {
        for part in ["Cookie: ", cookies, "\r\n"] {
            out.extend_from_slice(part.as_bytes());
        }
    }
    if *is_last {
        out.extend_from_slice(b"Connection: close\r\n");
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

/// The header lines of every request without those that the request has itself, and then its own.
fn put_headers(all: &str, own: &str, out: &mut Vec<u8>) {
    if own.is_empty() {
        return out.extend_from_slice(all.as_bytes());
    }
    let is_own = |line: &str| own.split_inclusive("\r\n").any(|mine| name(mine).eq_ignore_ascii_case(name(line)));
    for line in all.split_inclusive("\r\n") {
        if !is_own(line) {
            out.extend_from_slice(line.as_bytes());
        }
    }
    out.extend_from_slice(own.as_bytes());
}

fn name(line: &str) -> &str {
    line.split(':').next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoded(own: &str) -> String {
        let request = HttpRequest { headers: own.to_owned(), ..HttpRequest::default() };
        let mut out = b"left over".to_vec();
        encode(&request, "Host: shop\r\nAccept: */*\r\nAccept-Language: de\r\n", &mut out).expect("sound");
        String::from_utf8(out).expect("text")
    }

    #[test]
    fn a_header_of_a_request_stands_in_place_of_that_of_all() {
        assert_eq!(encoded(""), "GET / HTTP/1.1\r\nHost: shop\r\nAccept: */*\r\nAccept-Language: de\r\n\r\n");
        assert_eq!(
            encoded("accept: text/html\r\nX-Own: Host: a\r\n"),
            "GET / HTTP/1.1\r\nHost: shop\r\nAccept-Language: de\r\naccept: text/html\r\nX-Own: Host: a\r\n\r\n"
        );
    }
}
