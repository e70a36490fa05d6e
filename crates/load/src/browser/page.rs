//! What stands in a page, found by its bytes: nothing is taken for granted about them.

use memchr::memmem::{self, Finder};

use super::encode::{push_form, unescape};
use super::texts::Texts;
use crate::http::{Origin, redirect};

/// Longer ones are no ids, names or addresses.
const VALUE_BYTES_MAX: usize = 512;

/// So many values of a kind are kept.
pub(super) const VALUES_MAX: usize = 64;

const IMAGES_MAX: usize = 128;
const TAG_BYTES_MAX: usize = 4096;
const HIDDEN_BYTES_MAX: usize = 16 * 1024;

/// Where a value stands.
#[derive(Clone, Debug)]
pub struct Find {
    before: Finder<'static>,
    until: Option<u8>,
}

impl Find {
    /// Behind the text `before`, up to the byte `until`; without it as far as letters, digits and `_.~%+-` go.
    pub fn new(before: &str, until: Option<u8>) -> Self {
        Self { before: Finder::new(before).into_owned(), until }
    }

    /// Calls `give` for each value of the page, until it says that it has enough.
    pub(super) fn each(&self, body: &[u8], mut give: impl FnMut(&str) -> bool) {
        let length = self.before.needle().len();
        for start in self.before.find_iter(body) {
            if let Some(value) = self.value(&body[start + length..])
                && !give(value)
            {
                return;
            }
        }
    }

    fn value<'a>(&self, rest: &'a [u8]) -> Option<&'a str> {
        let rest = &rest[..rest.len().min(VALUE_BYTES_MAX + 1)];
        let end = match self.until {
            Some(until) => memchr::memchr(until, rest)?,
            None => rest.iter().position(|&byte| !is_word(byte)).unwrap_or(rest.len()),
        };
        let value = &rest[..end];
        (!value.is_empty() && value.len() <= VALUE_BYTES_MAX).then(|| std::str::from_utf8(value).ok())?
    }
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"_.~%+-".contains(&byte)
}

/// The word that follows `mark`, when the page has it; an empty one when something else follows.
pub(super) fn word_after<'a>(body: &'a [u8], mark: &Finder<'_>) -> Option<&'a str> {
    let start = mark.find(body)? + mark.needle().len();
    let rest = &body[start..body.len().min(start + 40)];
    let end = rest.iter().position(|&byte| !(byte.is_ascii_alphanumeric() || b"_-".contains(&byte)));
    std::str::from_utf8(&rest[..end.unwrap_or(rest.len())]).ok()
}

/// What is wanted of a page's tags, and buffers for it.
pub(super) struct Tags<'a> {
    pub(super) origin: &'a Origin,
    /// The page's own address.
    pub(super) target: &'a str,
    /// The images of this site, each once.
    pub(super) images: Option<&'a mut Texts>,
    /// The hidden fields of its forms, as a form sends them.
    pub(super) hidden: Option<&'a mut String>,
    pub(super) scratch: &'a mut [String; 2],
}

impl Tags<'_> {
    /// Adds what the page has to what the buffers hold; what stands in a comment is no part of it.
    pub(super) fn read(&mut self, body: &[u8]) {
        if self.images.is_none() && self.hidden.is_none() {
            return;
        }
        let (mut behind, mut has_ends) = (body, true);
        while let Some(start) = memchr::memchr(b'<', behind) {
            behind = &behind[start + 1..];
            if has_ends && behind.starts_with(b"!--") {
                // One without an end is none: a script may speak of it.
                let end = memmem::find(behind, b"-->");
                has_ends = end.is_some();
                behind = &behind[end.unwrap_or(0)..];
                continue;
            }
            let rest = &behind[..behind.len().min(TAG_BYTES_MAX)];
            if let Some(attributes) = tag(rest, b"img") {
                self.image(attributes);
            } else if let Some(attributes) = tag(rest, b"input") {
                self.field(attributes);
            }
        }
    }

    fn image(&mut self, attributes: &[u8]) {
        let Some(images) = &mut self.images else { return };
        let Some(source) = Attributes(attributes).find(|(name, _)| name.eq_ignore_ascii_case(b"src")) else { return };
        let Ok(source) = std::str::from_utf8(source.1.trim_ascii()) else { return };
        if source.is_empty() {
            // As an address it would be the page's own, which no browser asks for again.
            return;
        }
        let [plain, target] = &mut *self.scratch;
        unescape(source, plain);
        let is_here = !has_other_scheme(plain) && redirect(self.origin, self.target, plain, target);
        if is_here && images.len() < IMAGES_MAX && !images.contains(target) {
            images.push(target);
        }
    }

    fn field(&mut self, attributes: &[u8]) {
        let Some(hidden) = &mut self.hidden else { return };
        let (mut is_hidden, mut name, mut value) = (false, &b""[..], &b""[..]);
        for (key, given) in Attributes(attributes) {
            if key.eq_ignore_ascii_case(b"type") {
                is_hidden = given.eq_ignore_ascii_case(b"hidden");
            } else if key.eq_ignore_ascii_case(b"name") {
                name = given;
            } else if key.eq_ignore_ascii_case(b"value") {
                value = given;
            }
        }
        let (Ok(name), Ok(value)) = (std::str::from_utf8(name), std::str::from_utf8(value)) else { return };
        if !is_hidden || name.is_empty() || hidden.len() + 3 * (name.len() + value.len()) > HIDDEN_BYTES_MAX {
            return;
        }
        if !hidden.is_empty() {
            hidden.push('&');
        }
        let [plain, _] = &mut *self.scratch;
        unescape(name, plain);
        push_form(plain, hidden);
        hidden.push('=');
        unescape(value, plain);
        push_form(plain, hidden);
    }
}

/// "data:" and the like; what has "://" is judged with the address.
fn has_other_scheme(text: &str) -> bool {
    let end = text.find(|c: char| !(c.is_ascii_alphanumeric() || "+-.".contains(c)));
    end.is_some_and(|end| end > 0 && text[end..].starts_with(':') && !text[end..].starts_with("://"))
}

/// What stands behind the name of a tag that is named so.
fn tag<'a>(rest: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    let (own, behind) = rest.split_at_checked(name.len())?;
    (own.eq_ignore_ascii_case(name) && behind.first().is_some_and(u8::is_ascii_whitespace)).then_some(behind)
}

/// Name and value of each attribute of a tag, up to its end.
struct Attributes<'a>(&'a [u8]);

impl<'a> Iterator for Attributes<'a> {
    type Item = (&'a [u8], &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let is_gap = |byte: u8| byte.is_ascii_whitespace() || byte == b'/';
        let start = self.0.iter().position(|&byte| !is_gap(byte))?;
        let rest = &self.0[start..];
        if rest[0] == b'>' {
            return None;
        }
        let end = 1 + rest[1..].iter().position(|&byte| byte == b'=' || byte == b'>' || is_gap(byte))?;
        let (name, behind) = rest.split_at(end);
        let Some((b'=', behind)) = behind.split_first() else {
            self.0 = behind;
            return Some((name, b""));
        };
        let (value, behind) = match behind.split_first() {
            Some((quote @ (b'"' | b'\''), quoted)) => {
                let end = memchr::memchr(*quote, quoted)?;
                (&quoted[..end], &quoted[end + 1..])
            }
            _ => {
                let is_end = |byte: &u8| byte.is_ascii_whitespace() || *byte == b'>';
                behind.split_at(behind.iter().position(is_end)?)
            }
        };
        self.0 = behind;
        Some((name, value))
    }
}
