//! BSON, as far as commands and their answers need it: a writer into one buffer, and a reader in place.

/// Writes a document; those within it are closed in the order that they were opened in.
#[derive(Debug, Default)]
pub(super) struct Writer {
    pub(super) bytes: Vec<u8>,
    open: Vec<usize>,
}

impl Writer {
    /// Begins anew, behind what `bytes` hold.
    pub(super) fn begin(&mut self) {
        self.open.clear();
        self.open.push(self.bytes.len());
        self.bytes.extend_from_slice(&[0; 4]);
    }

    fn name(&mut self, kind: u8, name: &str) {
        self.bytes.push(kind);
        self.bytes.extend_from_slice(name.as_bytes());
        self.bytes.push(0);
    }

    pub(super) fn text(&mut self, name: &str, value: &str) {
        self.name(0x02, name);
        self.bytes.extend_from_slice(&(value.len() as u32 + 1).to_le_bytes());
        self.bytes.extend_from_slice(value.as_bytes());
        self.bytes.push(0);
    }

    pub(super) fn binary(&mut self, name: &str, value: &[u8]) {
        self.name(0x05, name);
        self.bytes.extend_from_slice(&(value.len() as u32).to_le_bytes());
        self.bytes.push(0);
        self.bytes.extend_from_slice(value);
    }

    pub(super) fn int(&mut self, name: &str, value: i32) {
        self.name(0x10, name);
        self.bytes.extend_from_slice(&value.to_le_bytes());
    }

    pub(super) fn flag(&mut self, name: &str, value: bool) {
        self.name(0x08, name);
        self.bytes.push(u8::from(value));
    }

    /// Opens a document within.
    pub(super) fn document(&mut self, name: &str) {
        self.name(0x03, name);
        self.open_here();
    }

    /// Opens an array; its elements are named "0", "1" and so on.
    pub(super) fn array(&mut self, name: &str) {
        self.name(0x04, name);
        self.open_here();
    }

    fn open_here(&mut self) {
        self.open.push(self.bytes.len());
        self.bytes.extend_from_slice(&[0; 4]);
    }

    /// Closes what was opened last.
    pub(super) fn close(&mut self) {
        self.bytes.push(0);
        if let Some(start) = self.open.pop() {
            let length = (self.bytes.len() - start) as u32;
            self.bytes[start..start + 4].copy_from_slice(&length.to_le_bytes());
        }
    }
}

/// A value in a document.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Value<'a> {
    Number(f64),
    Text(&'a str),
    Bytes(&'a [u8]),
    Flag(bool),
    /// A document or an array.
    Document(Document<'a>),
    Other,
}

impl<'a> Value<'a> {
    /// Of a number or a flag.
    pub(super) fn number(self) -> Option<f64> {
        match self {
            Self::Number(value) => Some(value),
            Self::Flag(value) => Some(f64::from(u8::from(value))),
            _ => None,
        }
    }

    pub(super) fn text(self) -> Option<&'a str> {
        if let Self::Text(text) = self { Some(text) } else { None }
    }

    pub(super) fn document(self) -> Option<Document<'a>> {
        if let Self::Document(document) = self { Some(document) } else { None }
    }

    /// How long a text or a binary value is.
    pub(super) fn n_bytes(self) -> Option<usize> {
        match self {
            Self::Text(text) => Some(text.len()),
            Self::Bytes(bytes) => Some(bytes.len()),
            _ => None,
        }
    }
}

/// A document whose elements are read in place.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Document<'a> {
    elements: &'a [u8],
}

impl<'a> Document<'a> {
    /// The document at the front of `bytes`, and what follows it; `None`: there is none.
    pub(super) fn split(bytes: &'a [u8]) -> Option<(Self, &'a [u8])> {
        let length = u32::from_le_bytes(*bytes.first_chunk()?) as usize;
        let (document, rest) = bytes.split_at_checked(length)?;
        let (elements, end) = document.get(4..)?.split_at_checked(length.checked_sub(5)?)?;
        (end == [0]).then_some((Self { elements }, rest))
    }

    /// Names and values in their order; `None` in place of the first that is none.
    pub(super) fn elements(self) -> impl Iterator<Item = Option<(&'a str, Value<'a>)>> {
        let mut rest = Some(self.elements);
        std::iter::from_fn(move || {
            let bytes = rest.filter(|bytes| !bytes.is_empty())?;
            let read = element(bytes);
            rest = read.map(|(_, _, rest)| rest);
            Some(read.map(|(name, value, _)| (name, value)))
        })
    }

    /// The value of that name.
    pub(super) fn get(self, name: &str) -> Option<Value<'a>> {
        self.elements().map_while(|element| element).find(|(known, _)| *known == name).map(|(_, value)| value)
    }
}

/// The element at the front, and what follows it.
fn element(bytes: &[u8]) -> Option<(&str, Value<'_>, &[u8])> {
    let (kind, rest) = bytes.split_first()?;
    let (name, rest) = c_text(rest)?;
    let (value, rest) = value(*kind, rest)?;
    Some((name, value, rest))
}

fn c_text(bytes: &[u8]) -> Option<(&str, &[u8])> {
    let end = memchr::memchr(0, bytes)?;
    Some((std::str::from_utf8(&bytes[..end]).ok()?, &bytes[end + 1..]))
}

/// The value of this kind at the front, and what follows it.
fn value(kind: u8, bytes: &[u8]) -> Option<(Value<'_>, &[u8])> {
    match kind {
        0x01 => bytes.split_first_chunk().map(|(word, rest)| (Value::Number(f64::from_le_bytes(*word)), rest)),
        0x10 => bytes.split_first_chunk().map(|(word, rest)| (Value::Number(i32::from_le_bytes(*word).into()), rest)),
        0x12 => bytes.split_first_chunk().map(|(word, rest)| (Value::Number(i64::from_le_bytes(*word) as f64), rest)),
        0x08 => bytes.split_first().map(|(flag, rest)| (Value::Flag(*flag != 0), rest)),
        0x03 | 0x04 => Document::split(bytes).map(|(document, rest)| (Value::Document(document), rest)),
        0x02 | 0x0d | 0x0e => {
            let (text, rest) = counted(bytes, 0)?;
            Some((Value::Text(std::str::from_utf8(text.strip_suffix(&[0])?).ok()?), rest))
        }
        0x05 => counted(bytes, 1).map(|(bytes, rest)| (Value::Bytes(bytes), rest)),
        _ => passed(kind, bytes).map(|rest| (Value::Other, rest)),
    }
}

/// As many bytes as the number at the front says, behind it and `n_between` others; and what follows.
fn counted(bytes: &[u8], n_between: usize) -> Option<(&[u8], &[u8])> {
    let (length, rest) = bytes.split_first_chunk()?;
    rest.get(n_between..)?.split_at_checked(u32::from_le_bytes(*length) as usize)
}

/// What follows a value of a kind that is not looked into.
fn passed(kind: u8, bytes: &[u8]) -> Option<&[u8]> {
    match kind {
        0x06 | 0x0a | 0x7f | 0xff => Some(bytes),
        0x07 => bytes.get(12..),
        0x09 | 0x11 => bytes.get(8..),
        0x13 => bytes.get(16..),
        0x0b => c_text(bytes).and_then(|(_, rest)| c_text(rest)).map(|(_, rest)| rest),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Vec<u8> {
        let mut writer = Writer::default();
        writer.begin();
        writer.text("find", "usertable");
        writer.document("filter");
        writer.text("_id", "user1");
        writer.close();
        writer.int("limit", 1);
        writer.flag("singleBatch", true);
        writer.array("a");
        writer.binary("0", b"xyz");
        writer.close();
        writer.close();
        writer.bytes
    }

    #[test]
    fn what_is_written_is_read_back() {
        let bytes = sample();
        let (document, rest) = Document::split(&bytes).expect("a document");
        assert!(rest.is_empty());
        let names: Vec<_> = document.elements().map(|element| element.expect("an element").0).collect();
        assert_eq!(names, ["find", "filter", "limit", "singleBatch", "a"]);
        assert_eq!(document.get("find").and_then(Value::text), Some("usertable"));
        let filter = document.get("filter").and_then(Value::document).expect("a document");
        assert_eq!(filter.get("_id").and_then(Value::n_bytes), Some(5));
        assert_eq!(document.get("limit").and_then(Value::number), Some(1.0));
        let array = document.get("a").and_then(Value::document).expect("an array");
        assert_eq!(array.get("0"), Some(Value::Bytes(b"xyz")));
        assert_eq!(document.get("nothing"), None);
    }

    #[test]
    fn the_bytes_are_those_of_the_published_example() {
        let mut writer = Writer::default();
        writer.begin();
        writer.text("hello", "world");
        writer.close();
        assert_eq!(writer.bytes, b"\x16\x00\x00\x00\x02hello\x00\x06\x00\x00\x00world\x00\x00");
    }

    #[test]
    fn any_cut_and_any_byte_are_survived() {
        let bytes = sample();
        for end in 0..bytes.len() {
            assert!(Document::split(&bytes[..end]).is_none());
        }
        for place in 0..bytes.len() {
            for byte in [0, 1, 2, 3, 4, 5, 0x0b, 0x7f, 0xff] {
                let mut wrong = bytes.clone();
                wrong[place] = byte;
                if let Some((document, _)) = Document::split(&wrong) {
                    assert!(document.elements().take(100).count() < 100);
                }
            }
        }
    }
}
