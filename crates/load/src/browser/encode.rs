//! Texts as they stand in addresses and in forms.

use std::fmt::Write;

use crate::http::is_sendable;

fn is_unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~".contains(&byte)
}

fn push_hex(byte: u8, out: &mut String) {
    // Writing to a String cannot fail.
    let _ = write!(out, "%{byte:02X}");
}

/// A value within a path.
pub(super) fn push_path(text: &str, out: &mut String) {
    push(text, out, |byte| is_unreserved(byte) || byte == b'/');
}

/// A name or a value within a query or a form.
pub(super) fn push_form(text: &str, out: &mut String) {
    push(text, out, is_unreserved);
}

/// A part of an address that stood in a page: as it stood, as far as it can be sent.
pub(super) fn push_found(text: &str, out: &mut String) {
    push(text, out, is_sendable);
}

fn push(text: &str, out: &mut String, is_plain: impl Fn(u8) -> bool) {
    for &byte in text.as_bytes() {
        if is_plain(byte) {
            out.push(char::from(byte));
        } else {
            push_hex(byte, out);
        }
    }
}

const ENTITIES: [(&str, char); 6] =
    [("&amp;", '&'), ("&lt;", '<'), ("&gt;", '>'), ("&quot;", '"'), ("&#39;", '\''), ("&apos;", '\'')];

/// Writes a text of a page over what `out` held, with its commonest entities as the characters that they stand for.
pub(super) fn unescape(text: &str, out: &mut String) {
    out.clear();
    let mut rest = text;
    while let Some(start) = rest.find('&') {
        out.push_str(&rest[..start]);
        rest = &rest[start..];
        let known = ENTITIES.iter().find(|(entity, _)| rest.starts_with(entity));
        let (length, character) = known.map_or((1, '&'), |(entity, character)| (entity.len(), *character));
        out.push(character);
        rest = &rest[length..];
    }
    out.push_str(rest);
}
