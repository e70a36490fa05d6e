//! Reading the parts of a payload, each of which may be cut short.

/// What of a payload has not been read yet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fields<'a>(pub(super) &'a [u8]);

impl<'a> Fields<'a> {
    pub(super) fn bytes(&mut self, n: usize) -> Option<&'a [u8]> {
        let (bytes, rest) = self.0.split_at_checked(n)?;
        self.0 = rest;
        Some(bytes)
    }

    pub(super) fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (bytes, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*bytes)
    }

    pub(super) fn u8(&mut self) -> Option<u8> {
        self.array().map(|[byte]| byte)
    }

    pub(super) fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_le_bytes)
    }

    pub(super) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    /// Bytes up to the next NUL, which is read too, or to the end.
    pub(super) fn terminated(&mut self) -> &'a [u8] {
        let n = self.0.iter().position(|&byte| byte == 0).unwrap_or(self.0.len());
        let (bytes, rest) = self.0.split_at(n);
        self.0 = rest.get(1..).unwrap_or_default();
        bytes
    }

    /// A number with its own length in front.
    pub(super) fn number(&mut self) -> Option<u64> {
        match self.u8()? {
            0xfc => self.u16().map(u64::from),
            0xfd => self.array().map(|[a, b, c]| u64::from(u32::from_le_bytes([a, b, c, 0]))),
            0xfe => self.array().map(u64::from_le_bytes),
            0xfb | 0xff => None,
            small => Some(u64::from(small)),
        }
    }

    /// Text or bytes with their length in front.
    pub(super) fn text(&mut self) -> Option<&'a [u8]> {
        let n = usize::try_from(self.number()?).ok()?;
        self.bytes(n)
    }
}

/// Appends a number with its own length in front.
pub(super) fn put_number(value: usize, out: &mut Vec<u8>) {
    let bytes = (value as u64).to_le_bytes();
    match value {
        0..=0xfa => out.push(bytes[0]),
        0xfb..=0xffff => {
            out.push(0xfc);
            out.extend(&bytes[..2]);
        }
        0x1_0000..=0xff_ffff => {
            out.push(0xfd);
            out.extend(&bytes[..3]);
        }
        _ => {
            out.push(0xfe);
            out.extend(bytes);
        }
    }
}

/// Appends text or bytes with their length in front.
pub(super) fn put_text(text: &[u8], out: &mut Vec<u8>) {
    put_number(text.len(), out);
    out.extend(text);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_back() {
        for value in [0, 250, 251, 65_535, 65_536, 0xff_ffff, 0x100_0000, usize::MAX] {
            let mut out = Vec::new();
            put_number(value, &mut out);
            let mut fields = Fields(&out);
            assert_eq!(fields.number(), Some(value as u64));
            assert!(fields.0.is_empty());
            assert_eq!(Fields(&out[..out.len() - 1]).number(), None);
        }
    }

    #[test]
    fn what_is_cut_short_is_none() {
        assert_eq!(Fields(b"\x05abc").text(), None);
        assert_eq!(Fields(b"\xfb").text(), None);
        assert_eq!(Fields(b"ab").u32(), None);
        let mut fields = Fields(b"ab\0cd");
        assert_eq!((fields.terminated(), fields.terminated(), fields.terminated()), (&b"ab"[..], &b"cd"[..], &b""[..]));
    }
}
