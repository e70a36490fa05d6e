//! Types of values: how a parameter is written, and how a value is shown as text.

use std::fmt::Write;
use std::net::IpAddr;

use super::fields::{Fields, put_long};
use super::number;
use crate::calendar::{parse_date, parse_timestamp};
use crate::sql::Param;

/// A type, as far as its values are written or shown here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Text,
    Blob,
    Boolean,
    TinyInt,
    SmallInt,
    Int,
    /// Also counters and times of day.
    BigInt,
    /// A whole number of any size; shown as bytes, as the next two.
    Varint,
    /// A number with any digits behind the point.
    Decimal,
    /// A day.
    Date,
    /// A moment, in milliseconds since 1970; a text is taken as UTC.
    Timestamp,
    Float,
    Double,
    Uuid,
    Inet,
    /// A list or a set.
    Many(Box<Kind>),
    Map(Box<Kind>, Box<Kind>),
    /// Shown as bytes, and never written.
    Other,
}

/// Nobody nests types deeper, and a thread's stack holds far more.
const DEPTH_MAX: u32 = 64;

impl Kind {
    /// Reads a type of a description; `None` where it is cut short, or nested too deeply.
    pub(super) fn read(fields: &mut Fields<'_>) -> Option<Self> {
        Self::read_within(fields, DEPTH_MAX)
    }

    fn read_within(fields: &mut Fields<'_>, depth: u32) -> Option<Self> {
        let within = depth.checked_sub(1)?;
        Some(match fields.u16()? {
            0x00 => {
                fields.short()?;
                Self::Other
            }
            0x20 | 0x22 => Self::Many(Box::new(Self::read_within(fields, within)?)),
            0x21 => {
                let key = Self::read_within(fields, within)?;
                Self::Map(Box::new(key), Box::new(Self::read_within(fields, within)?))
            }
            0x30 => {
                fields.short()?;
                fields.short()?;
                for _ in 0..fields.u16()? {
                    fields.short()?;
                    Self::read_within(fields, within)?;
                }
                Self::Other
            }
            0x31 => {
                for _ in 0..fields.u16()? {
                    Self::read_within(fields, within)?;
                }
                Self::Other
            }
            number => Self::plain(number),
        })
    }

    /// The type of this number, which is made of no others.
    fn plain(number: u16) -> Self {
        match number {
            0x01 | 0x0d => Self::Text,
            0x02 | 0x05 | 0x12 => Self::BigInt,
            0x03 => Self::Blob,
            0x04 => Self::Boolean,
            0x06 => Self::Decimal,
            0x07 => Self::Double,
            0x08 => Self::Float,
            0x09 => Self::Int,
            0x0b => Self::Timestamp,
            0x0c | 0x0f => Self::Uuid,
            0x0e => Self::Varint,
            0x10 => Self::Inet,
            0x11 => Self::Date,
            0x13 => Self::SmallInt,
            0x14 => Self::TinyInt,
            _ => Self::Other,
        }
    }

    /// Appends a parameter with its length; `None` where the type does not take such a one.
    pub(super) fn put(&self, param: Param<'_>, out: &mut Vec<u8>) -> Option<()> {
        match param {
            Param::Null => out.extend((-1_i32).to_be_bytes()),
            Param::Int(value) => self.put_int(value, out)?,
            Param::Float(value) => self.put_float(value, out)?,
            Param::Text(text) => self.put_text(text, out)?,
        }
        Some(())
    }

    fn put_int(&self, value: i64, out: &mut Vec<u8>) -> Option<()> {
        match self {
            Self::BigInt | Self::Timestamp => put_long(&value.to_be_bytes(), out),
            Self::Varint => number::put_varint(value.into(), out),
            Self::Decimal => number::put_decimal(value.into(), 0, out),
            Self::Int => put_long(&i32::try_from(value).ok()?.to_be_bytes(), out),
            Self::SmallInt => put_long(&i16::try_from(value).ok()?.to_be_bytes(), out),
            Self::TinyInt => put_long(&i8::try_from(value).ok()?.to_be_bytes(), out),
            Self::Boolean if (0..=1).contains(&value) => put_long(&[value as u8], out),
            Self::Float | Self::Double => self.put_float(value as f64, out)?,
            Self::Text => {
                let start = out.len();
                out.extend([0; 4]);
                // Writing to a buffer in memory cannot fail.
                let _ = std::io::Write::write_fmt(out, format_args!("{value}"));
                let n_bytes = (out.len() - start - 4) as u32;
                out[start..start + 4].copy_from_slice(&n_bytes.to_be_bytes());
            }
            _ => return None,
        }
        Some(())
    }

    fn put_float(&self, value: f64, out: &mut Vec<u8>) -> Option<()> {
        match self {
            Self::Double => put_long(&value.to_be_bytes(), out),
            Self::Float => put_long(&(value as f32).to_be_bytes(), out),
            Self::Decimal => self.put_text(&value.to_string(), out)?,
            _ => return None,
        }
        Some(())
    }

    fn put_text(&self, text: &str, out: &mut Vec<u8>) -> Option<()> {
        match self {
            Self::Text | Self::Blob => put_long(text.as_bytes(), out),
            Self::Boolean => put_long(&[u8::from(text.parse::<bool>().ok()?)], out),
            Self::TinyInt | Self::SmallInt | Self::Int | Self::BigInt => self.put_int(text.parse().ok()?, out)?,
            Self::Float | Self::Double => self.put_float(text.parse().ok()?, out)?,
            Self::Varint => number::put_varint(text.parse().ok()?, out),
            Self::Decimal => {
                let (digits, n_behind) = number::decimal(text)?;
                number::put_decimal(digits, n_behind, out);
            }
            Self::Date => put_long(&number::day(parse_date(text).ok()?)?.to_be_bytes(), out),
            Self::Timestamp => {
                let in_words = || parse_timestamp(text).ok().map(|time_us| time_us.div_euclid(1_000));
                put_long(&text.parse::<i64>().ok().or_else(in_words)?.to_be_bytes(), out);
            }
            Self::Uuid => put_long(&uuid_bytes(text)?, out),
            Self::Inet => match text.parse().ok()? {
                IpAddr::V4(address) => put_long(&address.octets(), out),
                IpAddr::V6(address) => put_long(&address.octets(), out),
            },
            Self::Many(_) | Self::Map(..) | Self::Other => return None,
        }
        Some(())
    }

    /// A value as people write it; bytes that are not of the type as they are.
    pub(super) fn show(&self, bytes: &[u8]) -> String {
        self.shown(bytes).unwrap_or_else(|| format!("0x{}", hex(bytes)))
    }

    fn shown(&self, bytes: &[u8]) -> Option<String> {
        Some(match self {
            Self::Text => String::from_utf8_lossy(bytes).into_owned(),
            Self::Boolean => (bytes.first()? != &0).to_string(),
            Self::TinyInt => i8::from_be_bytes(bytes.try_into().ok()?).to_string(),
            Self::SmallInt => i16::from_be_bytes(bytes.try_into().ok()?).to_string(),
            Self::Int => i32::from_be_bytes(bytes.try_into().ok()?).to_string(),
            Self::BigInt | Self::Timestamp => i64::from_be_bytes(bytes.try_into().ok()?).to_string(),
            Self::Float => f32::from_be_bytes(bytes.try_into().ok()?).to_string(),
            Self::Double => f64::from_be_bytes(bytes.try_into().ok()?).to_string(),
            Self::Uuid => uuid_text(bytes.try_into().ok()?),
            Self::Inet => match bytes.len() {
                4 => IpAddr::from(<[u8; 4]>::try_from(bytes).ok()?).to_string(),
                _ => IpAddr::from(<[u8; 16]>::try_from(bytes).ok()?).to_string(),
            },
            Self::Many(kind) => {
                let mut fields = Fields(bytes);
                let mut texts = Vec::new();
                for _ in 0..fields.count()? {
                    texts.push(kind.show(fields.value()?.unwrap_or_default()));
                }
                format!("[{}]", texts.join(", "))
            }
            Self::Map(key, value) => {
                let mut fields = Fields(bytes);
                let mut texts = Vec::new();
                for _ in 0..fields.count()? {
                    let name = key.show(fields.value()?.unwrap_or_default());
                    texts.push(format!("{name}: {}", value.show(fields.value()?.unwrap_or_default())));
                }
                format!("{{{}}}", texts.join(", "))
            }
            Self::Varint | Self::Decimal | Self::Date | Self::Blob | Self::Other => return None,
        })
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing to a String cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

fn uuid_text(bytes: [u8; 16]) -> String {
    let digits = hex(&bytes);
    let parts = [&digits[..8], &digits[8..12], &digits[12..16], &digits[16..20], &digits[20..]];
    parts.join("-")
}

fn uuid_bytes(text: &str) -> Option<[u8; 16]> {
    let mut bytes = [0; 16];
    let mut digits = text.bytes().filter(|byte| *byte != b'-').map(|byte| char::from(byte).to_digit(16));
    for byte in &mut bytes {
        *byte = (digits.next()?? * 16 + digits.next()??) as u8;
    }
    digits.next().is_none().then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the type makes of a text, and shows of it again.
    fn through(kind: &Kind, text: &str) -> Option<String> {
        let mut out = Vec::new();
        kind.put(Param::Text(text), &mut out)?;
        Some(kind.show(Fields(&out).value()??))
    }

    #[test]
    fn types_are_read_as_deep_as_a_stack_allows() {
        let map = b"\0\x21\0\x0d\0\x20\0\x09";
        let expected = Kind::Map(Box::new(Kind::Text), Box::new(Kind::Many(Box::new(Kind::Int))));
        assert_eq!(Kind::read(&mut Fields(map)), Some(expected));
        for nested in [&b"\0\x20"[..], b"\0\x31\0\x01"] {
            assert_eq!(Kind::read(&mut Fields(&nested.repeat(1_000_000))), None);
        }
    }

    #[test]
    fn texts_come_back_through_every_type() {
        let cases = [
            (Kind::Text, "a b"),
            (Kind::Boolean, "true"),
            (Kind::TinyInt, "-128"),
            (Kind::SmallInt, "300"),
            (Kind::Int, "-70000"),
            (Kind::BigInt, "9223372036854775807"),
            (Kind::Float, "0.5"),
            (Kind::Double, "-0.1"),
            (Kind::Uuid, "01234567-89ab-cdef-0123-456789abcdef"),
            (Kind::Inet, "127.0.0.1"),
            (Kind::Inet, "::1"),
        ];
        for (kind, text) in cases {
            assert_eq!(through(&kind, text).as_deref(), Some(text), "{kind:?}");
        }
        assert_eq!(through(&Kind::Blob, "ab").as_deref(), Some("0x6162"));
    }

    #[test]
    fn what_the_generators_make_of_days_times_and_long_numbers_is_taken() {
        let types = [(0x06, Kind::Decimal), (0x0b, Kind::Timestamp), (0x0e, Kind::Varint), (0x11, Kind::Date)];
        for (number, kind) in types {
            assert_eq!(Kind::read(&mut Fields(&[0, number])), Some(kind));
        }
        let put = |kind: Kind, param| {
            let mut out = Vec::new();
            kind.put(param, &mut out)?;
            Fields(&out).value().flatten().map(<[u8]>::to_vec)
        };
        let at = |time_ms: i64| Some(time_ms.to_be_bytes().to_vec());
        for text in ["2024-02-29 13:30:07.123456", "2024-02-29T13:30:07.123", "1709213407123"] {
            assert_eq!(put(Kind::Timestamp, Param::Text(text)), at(1_709_213_407_123), "{text}");
        }
        assert_eq!(put(Kind::Timestamp, Param::Text("1969-12-31 23:59:59.999900")), at(-1));
        assert_eq!(put(Kind::Timestamp, Param::Text("1970-01-02")), at(86_400_000));
        assert_eq!(put(Kind::Timestamp, Param::Int(5)), at(5));
        assert_eq!(put(Kind::Date, Param::Text("1970-01-02")), Some(vec![0x80, 0, 0, 1]));
        assert_eq!(put(Kind::Date, Param::Text("1969-12-31")), Some(vec![0x7f, 0xff, 0xff, 0xff]));
        assert_eq!(put(Kind::Varint, Param::Int(128)), Some(vec![0, 0x80]));
        assert_eq!(put(Kind::Varint, Param::Text("-1")), Some(vec![0xff]));
        assert_eq!(put(Kind::Decimal, Param::Int(7)), Some(vec![0, 0, 0, 0, 7]));
        assert_eq!(put(Kind::Decimal, Param::Float(-12.5)), Some(vec![0, 0, 0, 1, 0x83]));
        assert_eq!(put(Kind::Decimal, Param::Text("-12.50")), Some(vec![0, 0, 0, 2, 0xfb, 0x1e]));
        for (kind, text) in [(Kind::Timestamp, "now"), (Kind::Date, "2023-02-29"), (Kind::Decimal, "1e3")] {
            assert_eq!(put(kind, Param::Text(text)), None, "{text}");
        }
    }

    #[test]
    fn what_a_type_does_not_take_is_refused() {
        let refused = |kind: &Kind, param| kind.put(param, &mut Vec::new()).is_none();
        assert!(refused(&Kind::TinyInt, Param::Int(128)));
        assert!(refused(&Kind::Int, Param::Int(1 << 31)));
        assert!(refused(&Kind::Int, Param::Text("1.5")));
        assert!(refused(&Kind::Int, Param::Float(1.0)));
        assert!(refused(&Kind::Uuid, Param::Text("0123")));
        assert!(refused(&Kind::Other, Param::Text("x")));
        assert!(!refused(&Kind::Other, Param::Null));
    }

    #[test]
    fn numbers_become_what_the_column_holds() {
        let mut out = Vec::new();
        for kind in [Kind::Int, Kind::BigInt, Kind::Double, Kind::Text, Kind::Boolean] {
            kind.put(Param::Int(1), &mut out).expect("legal");
        }
        let mut fields = Fields(&out);
        let lengths: Vec<_> = (0..5).map(|_| fields.value().flatten().map(<[u8]>::len)).collect();
        assert_eq!(lengths, [Some(4), Some(8), Some(8), Some(1), Some(1)]);
    }

    #[test]
    fn collections_are_shown() {
        let mut bytes = 2_i32.to_be_bytes().to_vec();
        put_long(b"a", &mut bytes);
        put_long(b"b", &mut bytes);
        assert_eq!(Kind::Many(Box::new(Kind::Text)).show(&bytes), "[a, b]");
        bytes[3] = 1;
        assert_eq!(Kind::Map(Box::new(Kind::Text), Box::new(Kind::Text)).show(&bytes), "{a: b}");
        assert_eq!(Kind::Int.show(b"ab"), "0x6162");
    }
}
