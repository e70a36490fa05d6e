//! Rows as the server writes them, in text or in binary, value by value.

use std::fmt::Write;

use super::fields::Fields;

/// What a column's description says about its values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Column {
    kind: u8,
    is_unsigned: bool,
    /// Digits of the fraction of times.
    decimals: u8,
}

impl Column {
    const UNSIGNED: u16 = 1 << 5;

    /// Names come first and have any length; type, flags, decimals and a filler are the last six bytes.
    pub(super) fn read(payload: &[u8]) -> Option<Self> {
        let mut fields = Fields(payload.get(payload.len().checked_sub(6)?..)?);
        let (kind, flags, decimals) = (fields.u8()?, fields.u16()?, fields.u8()?);
        Some(Self { kind, is_unsigned: flags & Self::UNSIGNED != 0, decimals })
    }
}

/// One value that is not NULL, or NULL.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Value<'a> {
    Null,
    Bytes(&'a [u8]),
    Int(i64),
    Unsigned(u64),
    Float(f32),
    Double(f64),
    /// Year, month, day; the server leaves out what is 0 at the end, here and below.
    Date(&'a [u8]),
    /// The same with a time of the day, and the digits of its fraction.
    Time(&'a [u8], u8),
    /// Sign, days, hours and so on, and the digits of its fraction.
    Span(&'a [u8], u8),
}

impl Value<'_> {
    /// Bytes of its text; `None` for NULL.
    pub(super) fn text_length(self) -> Option<usize> {
        match self {
            Self::Bytes(bytes) => Some(bytes.len()),
            other => other.into_text().map(|text| text.len()),
        }
    }

    /// As the server would write it in text; `None` for NULL.
    pub(super) fn into_text(self) -> Option<String> {
        match self {
            Self::Null => None,
            Self::Bytes(bytes) => Some(String::from_utf8_lossy(bytes).into_owned()),
            Self::Int(value) => Some(value.to_string()),
            Self::Unsigned(value) => Some(value.to_string()),
            Self::Float(value) => Some(value.to_string()),
            Self::Double(value) => Some(value.to_string()),
            Self::Date(bytes) => Some(date_text(bytes)),
            Self::Time(bytes, decimals) => Some(time_text(bytes, decimals)),
            Self::Span(bytes, decimals) => Some(span_text(bytes, decimals)),
        }
    }
}

fn date_text(bytes: &[u8]) -> String {
    let at = |index: usize| bytes.get(index).copied().unwrap_or(0);
    format!("{:04}-{:02}-{:02}", u16::from_le_bytes([at(0), at(1)]), at(2), at(3))
}

fn time_text(bytes: &[u8], decimals: u8) -> String {
    let at = |index: usize| bytes.get(index).copied().unwrap_or(0);
    let mut text = date_text(bytes);
    // Writing to a String cannot fail.
    let _ = write!(text, " {:02}:{:02}:{:02}", at(4), at(5), at(6));
    put_fraction(bytes.get(7..), decimals, &mut text);
    text
}

fn span_text(bytes: &[u8], decimals: u8) -> String {
    let at = |index: usize| bytes.get(index).copied().unwrap_or(0);
    let days = u32::from_le_bytes([at(1), at(2), at(3), at(4)]);
    let sign = if at(0) == 0 { "" } else { "-" };
    let mut text = format!("{sign}{:02}:{:02}:{:02}", u64::from(days) * 24 + u64::from(at(5)), at(6), at(7));
    put_fraction(bytes.get(8..), decimals, &mut text);
    text
}

/// Microseconds, to as many digits as the column has.
fn put_fraction(bytes: Option<&[u8]>, decimals: u8, text: &mut String) {
    let microseconds = bytes.and_then(<[u8]>::first_chunk).map_or(0, |bytes| u32::from_le_bytes(*bytes));
    let n_digits = usize::from(decimals.min(6));
    if n_digits > 0 {
        let digits = format!("{microseconds:06}");
        text.push('.');
        text.push_str(&digits[..n_digits]);
    }
}

/// The values of a row, one for each column; `None` where the row ends too early.
#[derive(Clone, Debug)]
pub(super) struct Values<'a> {
    columns: &'a [Column],
    index: usize,
    fields: Fields<'a>,
    /// Of a binary row: a bit for each column, behind two that are not used.
    nulls: Option<&'a [u8]>,
}

impl<'a> Values<'a> {
    pub(super) fn new(payload: &'a [u8], columns: &'a [Column], is_binary: bool) -> Option<Self> {
        let mut fields = Fields(payload);
        let mut nulls = None;
        if is_binary {
            fields.u8()?;
            nulls = Some(fields.bytes((columns.len() + 9) / 8)?);
        }
        Some(Self { columns, index: 0, fields, nulls })
    }

    fn read(&mut self, column: Column) -> Option<Value<'a>> {
        let bit = self.index + 2;
        match self.nulls {
            Some(nulls) if nulls[bit / 8] & (1 << (bit % 8)) != 0 => return Some(Value::Null),
            Some(_) => {}
            None if self.fields.0.first() == Some(&0xfb) => {
                self.fields.u8()?;
                return Some(Value::Null);
            }
            None => return self.fields.text().map(Value::Bytes),
        }
        let fields = &mut self.fields;
        let (signed, unsigned) = match column.kind {
            1 => fields.array().map(|bytes| (i64::from(i8::from_le_bytes(bytes)), u64::from(bytes[0])))?,
            2 | 13 => fields.array().map(|b| (i64::from(i16::from_le_bytes(b)), u64::from(u16::from_le_bytes(b))))?,
            3 | 9 => fields.array().map(|b| (i64::from(i32::from_le_bytes(b)), u64::from(u32::from_le_bytes(b))))?,
            8 => fields.array().map(|b| (i64::from_le_bytes(b), u64::from_le_bytes(b)))?,
            4 => return fields.array().map(|bytes| Value::Float(f32::from_le_bytes(bytes))),
            5 => return fields.array().map(|bytes| Value::Double(f64::from_le_bytes(bytes))),
            6 => return Some(Value::Null),
            10 => return fields.text().map(Value::Date),
            7 | 12 => return fields.text().map(|bytes| Value::Time(bytes, column.decimals)),
            11 => return fields.text().map(|bytes| Value::Span(bytes, column.decimals)),
            _ => return fields.text().map(Value::Bytes),
        };
        Some(if column.is_unsigned { Value::Unsigned(unsigned) } else { Value::Int(signed) })
    }
}

impl<'a> Iterator for Values<'a> {
    type Item = Option<Value<'a>>;

    fn next(&mut self) -> Option<Self::Item> {
        let column = *self.columns.get(self.index)?;
        let value = self.read(column);
        self.index += 1;
        Some(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn column(kind: u8, is_unsigned: bool) -> Column {
        Column { kind, is_unsigned, decimals: if kind == 12 { 6 } else { 0 } }
    }

    fn texts(payload: &[u8], columns: &[Column], is_binary: bool) -> Option<Vec<Option<String>>> {
        Values::new(payload, columns, is_binary)?.map(|value| value.map(Value::into_text)).collect()
    }

    #[test]
    fn binary_values_become_their_texts() {
        let kinds = [(1, false), (1, true), (2, false), (3, true), (8, true), (4, false), (5, false), (253, false)];
        let times = [(10, false), (12, false), (11, false), (253, false)];
        let columns: Vec<Column> =
            kinds.into_iter().chain(times).map(|(kind, is_unsigned)| column(kind, is_unsigned)).collect();
        let mut row = vec![0, 0, 0b0010_0000];
        row.extend([0xff, 0xff]);
        row.extend((-2_i16).to_le_bytes());
        row.extend(u32::MAX.to_le_bytes());
        row.extend(u64::MAX.to_le_bytes());
        row.extend(0.5_f32.to_le_bytes());
        row.extend(0.1_f64.to_le_bytes());
        row.extend(b"\x02ab");
        row.extend(b"\x04\xe8\x07\x02\x03");
        row.extend(b"\x0b\xe8\x07\x02\x03\x04\x05\x06\x01\x00\x00\x00");
        row.extend(b"\x08\x01\x01\x00\x00\x00\x02\x03\x04");
        let expected = [
            "-1",
            "255",
            "-2",
            "4294967295",
            "18446744073709551615",
            "0.5",
            "0.1",
            "ab",
            "2024-02-03",
            "2024-02-03 04:05:06.000001",
            "-26:03:04",
        ];
        let mut expected: Vec<_> = expected.into_iter().map(|text| Some(text.to_owned())).collect();
        expected.push(None);
        assert_eq!(texts(&row, &columns, true), Some(expected));
        for n in 0..row.len() {
            assert_eq!(texts(&row[..n], &columns, true), None, "{n}");
        }
    }

    #[test]
    fn times_have_the_digits_that_their_columns_have_also_when_they_are_zero() {
        let shown = |kind: u8, decimals: u8, bytes: &[u8]| {
            let row = [&[0, 0, bytes.len() as u8][..], bytes].concat();
            let found = texts(&row, &[Column { kind, is_unsigned: false, decimals }], true)?;
            found.into_iter().next().flatten()
        };
        let (day, second, span) = (b"\xe8\x07\x02\x03", b"\xe8\x07\x02\x03\x04\x05\x06", b"\0\0\0\0\0\x02\x03\x04");
        let part = 123_000_u32.to_le_bytes();
        let cases: [(u8, u8, &[u8], &str); 9] = [
            (10, 0, day, "2024-02-03"),
            (12, 0, day, "2024-02-03 00:00:00"),
            (7, 3, day, "2024-02-03 00:00:00.000"),
            (12, 6, second, "2024-02-03 04:05:06.000000"),
            (12, 3, &[&second[..], &part].concat(), "2024-02-03 04:05:06.123"),
            (12, 0, b"", "0000-00-00 00:00:00"),
            (11, 0, b"", "00:00:00"),
            (11, 2, span, "02:03:04.00"),
            (11, 3, &[&span[..], &part].concat(), "02:03:04.123"),
        ];
        for (kind, decimals, bytes, expected) in cases {
            assert_eq!(shown(kind, decimals, bytes).as_deref(), Some(expected), "{kind} {decimals}");
        }
    }

    #[test]
    fn text_rows_are_read() {
        let columns = [column(3, false), column(253, false), column(253, false)];
        let expected = vec![Some("12".to_owned()), None, Some(String::new())];
        assert_eq!(texts(b"\x0212\xfb\0", &columns, false), Some(expected));
        assert_eq!(texts(b"\x0212\xfb", &columns, false), None);
    }
}
