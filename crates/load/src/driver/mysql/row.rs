//! Rows as the server writes them, in text or in binary, value by value.

use std::fmt::Write;

use super::fields::Fields;

/// What a column's description says about its values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Column {
    kind: u8,
    is_unsigned: bool,
}

impl Column {
    const UNSIGNED: u16 = 1 << 5;

    /// Names come first and have any length; type, flags, decimals and a filler are the last six bytes.
    pub(super) fn read(payload: &[u8]) -> Option<Self> {
        let mut fields = Fields(payload.get(payload.len().checked_sub(6)?..)?);
        let kind = fields.u8()?;
        Some(Self { kind, is_unsigned: fields.u16()? & Self::UNSIGNED != 0 })
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
    /// Year, month, day, and what follows as the server cut it short.
    Time(&'a [u8]),
    /// Sign, days, hours and so on.
    Span(&'a [u8]),
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
            Self::Time(bytes) => Some(time_text(bytes)),
            Self::Span(bytes) => Some(span_text(bytes)),
        }
    }
}

fn time_text(bytes: &[u8]) -> String {
    let at = |index: usize| bytes.get(index).copied().unwrap_or(0);
    let mut text = format!("{:04}-{:02}-{:02}", u16::from_le_bytes([at(0), at(1)]), at(2), at(3));
    if bytes.len() > 4 {
        // Writing to a String cannot fail.
        let _ = write!(text, " {:02}:{:02}:{:02}", at(4), at(5), at(6));
    }
    put_fraction(bytes.get(7..), &mut text);
    text
}

fn span_text(bytes: &[u8]) -> String {
    let at = |index: usize| bytes.get(index).copied().unwrap_or(0);
    let days = u32::from_le_bytes([at(1), at(2), at(3), at(4)]);
    let sign = if at(0) == 0 { "" } else { "-" };
    let mut text = format!("{sign}{:02}:{:02}:{:02}", u64::from(days) * 24 + u64::from(at(5)), at(6), at(7));
    put_fraction(bytes.get(8..), &mut text);
    text
}

fn put_fraction(bytes: Option<&[u8]>, text: &mut String) {
    if let Some(&[a, b, c, d]) = bytes {
        let _ = write!(text, ".{:06}", u32::from_le_bytes([a, b, c, d]));
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
            7 | 10 | 12 => return fields.text().map(Value::Time),
            11 => return fields.text().map(Value::Span),
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
        Column { kind, is_unsigned }
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
    fn text_rows_are_read() {
        let columns = [column(3, false), column(253, false), column(253, false)];
        let expected = vec![Some("12".to_owned()), None, Some(String::new())];
        assert_eq!(texts(b"\x0212\xfb\0", &columns, false), Some(expected));
        assert_eq!(texts(b"\x0212\xfb", &columns, false), None);
    }
}
