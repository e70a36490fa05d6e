//! Numbers, texts and bytes as the protocol writes them: big-endian, lengths in front.

/// What is left of a body; every reading is `None` where it is cut short.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fields<'a>(pub(super) &'a [u8]);

impl<'a> Fields<'a> {
    pub(super) fn bytes(&mut self, n: usize) -> Option<&'a [u8]> {
        let (bytes, rest) = self.0.split_at_checked(n)?;
        self.0 = rest;
        Some(bytes)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (bytes, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*bytes)
    }

    pub(super) fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_be_bytes)
    }

    pub(super) fn i32(&mut self) -> Option<i32> {
        self.array().map(i32::from_be_bytes)
    }

    /// A count, which is never negative.
    pub(super) fn count(&mut self) -> Option<usize> {
        self.i32().and_then(|n| usize::try_from(n).ok())
    }

    /// Bytes with their length in 16 bits.
    pub(super) fn short(&mut self) -> Option<&'a [u8]> {
        let n = self.u16()?;
        self.bytes(n.into())
    }

    pub(super) fn text(&mut self) -> Option<&'a str> {
        self.short().and_then(|bytes| std::str::from_utf8(bytes).ok())
    }

    /// A value with its length in 32 bits; `Some(None)` for NULL.
    pub(super) fn value(&mut self) -> Option<Option<&'a [u8]>> {
        match self.i32()? {
            n if n < 0 => Some(None),
            n => self.bytes(n as usize).map(Some),
        }
    }
}

/// Appends text with its length in 16 bits; what is longer cannot be sent.
pub(super) fn put_text(text: &str, out: &mut Vec<u8>) {
    put_short(text.as_bytes(), out);
}

/// Appends bytes with their length in 16 bits.
pub(super) fn put_short(bytes: &[u8], out: &mut Vec<u8>) {
    out.extend((bytes.len() as u16).to_be_bytes());
    out.extend(bytes);
}

/// Appends bytes with their length in 32 bits.
pub(super) fn put_long(bytes: &[u8], out: &mut Vec<u8>) {
    out.extend((bytes.len() as u32).to_be_bytes());
    out.extend(bytes);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_cut_short_is_none() {
        assert_eq!(Fields(b"\0\0\0\x05abc").value(), None);
        assert_eq!(Fields(b"\0\x05abc").short(), None);
        assert_eq!(Fields(b"\0\0\0").i32(), None);
        assert_eq!(Fields(b"\xff\xff\xff\xff").count(), None);
        assert_eq!(Fields(b"\xff\xff\xff\xff").value(), Some(None));
        assert_eq!(Fields(b"\0\x01\xff").text(), None);
    }

    #[test]
    fn what_is_written_comes_back() {
        let mut out = Vec::new();
        put_text("ab", &mut out);
        put_long(b"c", &mut out);
        let mut fields = Fields(&out);
        assert_eq!((fields.text(), fields.value()), (Some("ab"), Some(Some(&b"c"[..]))));
        assert!(fields.0.is_empty());
    }
}
