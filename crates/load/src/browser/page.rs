//! What stands in a page, found by its bytes: nothing is taken for granted about them.

use memchr::memmem::{self, Finder};

use super::encode::{push_address, push_field};
use super::hidden::Hidden;
use super::texts::Texts;
use crate::http::{Origin, redirect};

/// Longer ones are no ids, names or addresses.
const VALUE_BYTES_MAX: usize = 512;

/// So many values of a kind are kept.
pub(super) const VALUES_MAX: usize = 64;

const IMAGES_MAX: usize = 128;

/// Frameworks keep the state of a whole page in one hidden field.
const TAG_BYTES_MAX: usize = 128 * 1024;

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

    /// Whether it finds words, which may be parts of addresses.
    pub(super) fn takes_words(&self) -> bool {
        self.until.is_none()
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
    /// The hidden fields of its forms.
    pub(super) hidden: Option<&'a mut Hidden>,
    pub(super) scratch: &'a mut [String; 3],
}

/// What the addresses of a page's images are relative to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Base {
    /// The page's own address.
    Page,
    /// Another one of this site, in the last buffer.
    Site,
    /// One of another site.
    Elsewhere,
}

impl Tags<'_> {
    /// Adds what the page has to what the buffers hold; what stands in a comment is no part of it.
    pub(super) fn read(&mut self, body: &[u8]) {
        if self.images.is_none() && self.hidden.is_none() {
            return;
        }
        let (mut behind, mut has_ends, mut base) = (body, true, Base::Page);
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
                self.image(attributes, base);
            } else if let Some(attributes) = tag(rest, b"input") {
                self.field(attributes);
            } else if let Some(attributes) = tag(rest, b"form") {
                self.form(attributes, base);
            } else if tag(rest, b"/form").is_some() {
                self.hidden.iter_mut().for_each(|hidden| hidden.end());
            } else if base == Base::Page
                && let Some(attributes) = tag(rest, b"base")
            {
                base = self.base(attributes);
            }
        }
    }

    fn base(&mut self, attributes: &[u8]) -> Base {
        let Some(address) = value_of(attributes, b"href") else { return Base::Page };
        let is_here = self.resolve(address, Base::Page);
        self.scratch.swap(1, 2);
        if is_here { Base::Site } else { Base::Elsewhere }
    }

    /// Writes into the second buffer where an address of the page leads; false when that is not on this site.
    fn resolve(&mut self, address: &[u8], base: Base) -> bool {
        let [plain, target, other] = &mut *self.scratch;
        plain.clear();
        push_address(address, plain);
        let from = if base == Base::Site { other.as_str() } else { self.target };
        let is_of_site = base != Base::Elsewhere || plain.contains("://");
        is_of_site && !has_other_scheme(plain) && redirect(self.origin, from, plain, target)
    }

    fn image(&mut self, attributes: &[u8], base: Base) {
        // Without an address it would be the page itself, which no browser asks for again.
        let Some(source) = value_of(attributes, b"src").filter(|source| !source.is_empty()) else { return };
        if self.images.is_some()
            && self.resolve(source, base)
            && let Some(images) = &mut self.images
        {
            let target = &self.scratch[1];
            if images.len() < IMAGES_MAX && !images.contains(target) {
                images.push(target);
            }
        }
    }

    fn form(&mut self, attributes: &[u8], base: Base) {
        // Without an address it leads to the page itself, whatever the others are relative to.
        let action = value_of(attributes, b"action").unwrap_or_default();
        let is_posted = value_of(attributes, b"method").is_some_and(|name| name.eq_ignore_ascii_case(b"post"));
        let base = if action.is_empty() { Base::Page } else { base };
        if self.hidden.is_some() {
            let is_here = self.resolve(action, base);
            let target = if is_here { self.scratch[1].as_str() } else { "" };
            self.hidden.iter_mut().for_each(|hidden| hidden.begin(target, is_posted));
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
        if is_hidden && !name.is_empty() {
            let [plain, ..] = &mut *self.scratch;
            hidden.push(|out| {
                push_field(name, plain, out);
                out.push('=');
                push_field(value, plain, out);
            });
        }
    }
}

/// An attribute without the spaces around it.
fn value_of<'a>(attributes: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    Attributes(attributes).find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim_ascii())
}

/// "data:" and the like; what has "://" is judged with the address.
fn has_other_scheme(text: &str) -> bool {
    let end = text.find(|c: char| !(c.is_ascii_alphanumeric() || "+-.".contains(c)));
    end.is_some_and(|end| end > 0 && text[end..].starts_with(':') && !text[end..].starts_with("://"))
}

/// What stands behind the name of a tag that is named so.
fn tag<'a>(rest: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    let (own, behind) = rest.split_at_checked(name.len())?;
    let is_end = |byte: &u8| byte.is_ascii_whitespace() || matches!(byte, b'>' | b'/');
    (own.eq_ignore_ascii_case(name) && behind.first().is_some_and(is_end)).then_some(behind)
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
        // Spaces may stand on both sides of the sign.
        let Some(behind) = behind.trim_ascii_start().strip_prefix(b"=").map(<[u8]>::trim_ascii_start) else {
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
