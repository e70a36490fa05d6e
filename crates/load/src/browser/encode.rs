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

/// Whether a text is encoded as a part of an address already.
pub(super) fn is_encoded(text: &str) -> bool {
    let is_code = |part: &[u8]| part[0] == b'%' && part[1..].iter().all(u8::is_ascii_hexdigit);
    text.as_bytes().windows(3).any(is_code)
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

/// Appends an address that stands in a page, with its entities as characters; what of it is no UTF-8 becomes %XX, as browsers
/// send it.
pub(super) fn push_address(bytes: &[u8], out: &mut String) {
    for chunk in bytes.utf8_chunks() {
        push_unescaped(chunk.valid(), out);
        chunk.invalid().iter().for_each(|&byte| push_hex(byte, out));
    }
}

/// Appends a name or a value that stands in a page's form, as it is sent; `plain` is a buffer.
pub(super) fn push_field(bytes: &[u8], plain: &mut String, out: &mut String) {
    for chunk in bytes.utf8_chunks() {
        unescape(chunk.valid(), plain);
        push_form(plain, out);
        chunk.invalid().iter().for_each(|&byte| push_hex(byte, out));
    }
}

const ENTITIES: [(&str, char); 6] =
    [("&amp;", '&'), ("&lt;", '<'), ("&gt;", '>'), ("&quot;", '"'), ("&#39;", '\''), ("&apos;", '\'')];

/// Writes a text of a page over what `out` held, with its numbered and its commonest named entities as the characters that they
/// stand for.
pub(super) fn unescape(text: &str, out: &mut String) {
    out.clear();
    push_unescaped(text, out);
}

fn push_unescaped(text: &str, out: &mut String) {
    let mut rest = text;
    while let Some(start) = rest.find('&') {
        out.push_str(&rest[..start]);
        rest = &rest[start..];
        let known = ENTITIES.iter().find(|(entity, _)| rest.starts_with(entity));
        let known = known.map(|(entity, character)| (entity.len(), *character)).or_else(|| numbered(rest));
        let (length, character) = known.unwrap_or((1, '&'));
        out.push(character);
        rest = &rest[length..];
    }
    out.push_str(rest);
}

/// Length and character of an entity like "&#43;" or "&#x2F;" at the front, as most templates write what they escape.
fn numbered(text: &str) -> Option<(usize, char)> {
    let (number, _) = text.strip_prefix("&#")?.split_once(';')?;
    let (digits, radix) = number.strip_prefix(['x', 'X']).map_or((number, 10), |digits| (digits, 16));
    let is_number = digits.bytes().all(|byte| byte.is_ascii_alphanumeric());
    let code = u32::from_str_radix(digits, radix).ok().filter(|code| is_number && *code > 0)?;
    Some((number.len() + "&#;".len(), char::from_u32(code)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entities_are_the_characters_that_they_stand_for() {
        let cases = [
            ("a&amp;b&lt;&gt;&quot;&#39;&apos;", "a&b<>\"''"),
            ("Q&#43;A&#61;&#61;", "Q+A=="),
            ("&#x2F;img&#X2f;a.png?q=&#x27;", "/img/a.png?q='"),
            ("&#8364;&#x20AC;&#10;", "\u{20ac}\u{20ac}\n"),
            ("&amp;#43;", "&#43;"),
        ];
        for (text, expected) in cases {
            let mut out = "old".to_owned();
            unescape(text, &mut out);
            assert_eq!(out, expected);
        }
    }

    #[test]
    fn what_is_no_entity_stays_as_it_is() {
        for text in ["a & b", "&", "&copy;", "&#;", "&#x;", "&#43", "&#0;", "&#xD800;", "&#99999999999;", "&#+5;"] {
            let mut out = String::new();
            unescape(text, &mut out);
            assert_eq!(out, text);
        }
    }
}
