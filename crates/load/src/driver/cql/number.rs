//! Numbers as the protocol writes them that have no fixed size.

use super::fields::put_long;

/// The day 1970-01-01; those before it are below.
const MIDDLE: i64 = 1 << 31;

/// The protocol's number of a day that is counted from 1970-01-01.
pub(super) fn day(days: i64) -> Option<u32> {
    u32::try_from(days.checked_add(MIDDLE)?).ok()
}

/// Appends a whole number with its length: two's complement in as few bytes as hold it, the highest first.
pub(super) fn put_varint(value: i128, out: &mut Vec<u8>) {
    let bytes = value.to_be_bytes();
    put_long(&bytes[n_spare(bytes)..], out);
}

/// Appends a decimal number with its length: how many of its digits stand behind the point, and all of them.
pub(super) fn put_decimal(digits: i128, n_behind: u32, out: &mut Vec<u8>) {
    let bytes = digits.to_be_bytes();
    let needed = &bytes[n_spare(bytes)..];
    out.extend((needed.len() as u32 + 4).to_be_bytes());
    out.extend(n_behind.to_be_bytes());
    out.extend(needed);
}

/// How many bytes at the front only repeat the sign of those behind them.
fn n_spare(bytes: [u8; 16]) -> usize {
    let is_spare = |pair: &&[u8]| matches!(pair, [0, 0..=0x7f] | [0xff, 0x80..=0xff]);
    bytes.windows(2).take_while(is_spare).count()
}

/// The digits of a decimal number as a whole one, and how many of them stand behind the point; `None` for what is none, or
/// has more than 38 digits.
pub(super) fn decimal(text: &str) -> Option<(i128, u32)> {
    let (whole, behind) = text.split_once('.').unwrap_or((text, ""));
    let digits = behind.bytes().all(|byte| byte.is_ascii_digit()).then(|| format!("{whole}{behind}"))?;
    Some((digits.parse().ok()?, u32::try_from(behind.len()).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_numbers_take_as_few_bytes_as_hold_them() {
        let cases: [(i128, &[u8]); 8] = [
            (0, &[0]),
            (127, &[0x7f]),
            (128, &[0, 0x80]),
            (-1, &[0xff]),
            (-128, &[0x80]),
            (-129, &[0xff, 0x7f]),
            (256, &[1, 0]),
            (i128::MIN, &i128::MIN.to_be_bytes()),
        ];
        for (value, expected) in cases {
            let mut out = Vec::new();
            put_varint(value, &mut out);
            assert_eq!((&out[..4], &out[4..]), (&(expected.len() as u32).to_be_bytes()[..], expected), "{value}");
        }
    }

    #[test]
    fn decimal_numbers_are_read_digit_by_digit() {
        for (text, expected) in [("12.50", (1250, 2)), ("-0.007", (-7, 3)), (".5", (5, 1)), ("3", (3, 0))] {
            assert_eq!(decimal(text), Some(expected), "{text}");
        }
        for text in ["", ".", "1.-5", "1.2.3", "1e5", "NaN", "1 ", "99999999999999999999999999999999999999999"] {
            assert_eq!(decimal(text), None, "{text}");
        }
    }

    #[test]
    fn days_are_counted_from_the_middle() {
        assert_eq!((day(0), day(-MIDDLE), day(MIDDLE)), (Some(1 << 31), Some(0), None));
    }
}
