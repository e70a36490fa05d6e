//! Dates and times of the proleptic Gregorian calendar as ISO text.

use std::fmt::Write;

const DAY_US: i64 = 86_400_000_000;
/// Days before each month in a year that starts in March.
const MARCH_MONTHS: [i64; 12] = [0, 31, 61, 92, 122, 153, 184, 214, 245, 275, 306, 337];
/// Days of 400, 100, 4 and 1 years.
const CYCLE: i64 = 146_097;
const CENTURY: i64 = 36_524;
const LEAP_CYCLE: i64 = 1_461;
const YEAR: i64 = 365;
/// From 0000-03-01 to 1970-01-01.
const EPOCH: i64 = 719_468;

/// Days since 1970-01-01. Years start in March here, so that the leap day is the last of its year.
pub(crate) fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = if month < 3 { year - 1 } else { year };
    let month = (month + 9) % 12;
    let leaps = year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    year * YEAR + leaps + MARCH_MONTHS[month as usize] + day - 1 - EPOCH
}

/// Year, month and day of a day since 1970-01-01.
fn civil(days: i64) -> (i64, i64, i64) {
    let since = days + EPOCH;
    let (cycle, rest) = (since.div_euclid(CYCLE), since.rem_euclid(CYCLE));
    // The last day of a cycle belongs to its fourth century, the leap day to its fourth year.
    let century = (rest / CENTURY).min(3);
    let rest = rest - century * CENTURY;
    let (four, rest) = (rest / LEAP_CYCLE, rest % LEAP_CYCLE);
    let one = (rest / YEAR).min(3);
    let rest = rest - one * YEAR;
    let month = MARCH_MONTHS.iter().rposition(|&before| before <= rest).unwrap_or(0);
    let day = rest - MARCH_MONTHS[month] + 1;
    let year = cycle * 400 + century * 100 + four * 4 + one + i64::from(month >= 10);
    (year, (month as i64 + 2) % 12 + 1, day)
}

/// Reads `YYYY-MM-DD` as days since 1970-01-01.
pub(crate) fn parse_date(text: &str) -> Result<i64, String> {
    let wrong = || format!("{text:?} is no date like 2024-02-29");
    let numbers = numbers::<3>(text, '-').ok_or_else(wrong)?;
    let [year, month, day] = numbers;
    let days = days(year, month.clamp(1, 12), day);
    // A day that the month does not have comes back as another one.
    if civil(days) == (year, month, day) { Ok(days) } else { Err(wrong()) }
}

/// Reads `YYYY-MM-DD HH:MM:SS[.ffffff]` (or a `T`, or a date alone) as microseconds since 1970-01-01.
pub(crate) fn parse_timestamp(text: &str) -> Result<i64, String> {
    let wrong = || format!("{text:?} is no time like 2024-02-29 13:30:00");
    let Some((date, time)) = text.split_once([' ', 'T']) else {
        return parse_date(text).map(|days| days * DAY_US).map_err(|_| wrong());
    };
    let (clock, fraction) = time.split_once('.').unwrap_or((time, "0"));
    let [hour, minute, second] = numbers::<3>(clock, ':').ok_or_else(wrong)?;
    let is_fraction = (1..=6).contains(&fraction.len()) && fraction.bytes().all(|byte| byte.is_ascii_digit());
    if hour > 23 || minute > 59 || second > 59 || !is_fraction {
        return Err(wrong());
    }
    let microseconds: i64 = format!("{fraction:0<6}").parse().map_err(|_| wrong())?;
    let days = parse_date(date).map_err(|_| wrong())?;
    Ok(days * DAY_US + ((hour * 60 + minute) * 60 + second) * 1_000_000 + microseconds)
}

/// Exactly N unsigned numbers of at most four digits.
fn numbers<const N: usize>(text: &str, separator: char) -> Option<[i64; N]> {
    let is_number = |part: &str| (1..=4).contains(&part.len()) && part.bytes().all(|byte| byte.is_ascii_digit());
    let parts: Vec<&str> = text.split(separator).collect();
    let parsed: Vec<i64> = parts.iter().filter(|part| is_number(part)).filter_map(|part| part.parse().ok()).collect();
    parsed.try_into().ok().filter(|_| parts.len() == N)
}

/// Appends a day as ISO text.
pub(crate) fn write_date(text: &mut String, day: i64) {
    let (year, month, day) = civil(day);
    _ = write!(text, "{year:04}-{month:02}-{day:02}");
}

/// Appends a time as ISO text with microseconds.
pub(crate) fn write_timestamp(text: &mut String, microseconds: i64) {
    write_date(text, microseconds.div_euclid(DAY_US));
    let rest = microseconds.rem_euclid(DAY_US);
    let (second, fraction) = (rest / 1_000_000, rest % 1_000_000);
    _ = write!(text, " {:02}:{:02}:{:02}.{fraction:06}", second / 3600, second / 60 % 60, second % 60);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_day_of_nine_centuries_comes_back() {
        let mut text = String::new();
        let mut previous = String::new();
        for day in parse_date("1599-12-31").unwrap()..=parse_date("2500-01-01").unwrap() {
            text.clear();
            write_date(&mut text, day);
            assert_eq!(parse_date(&text), Ok(day));
            assert!(text > previous, "{text} {previous}");
            previous.clone_from(&text);
        }
        assert_eq!(parse_date("1970-01-01"), Ok(0));
        assert_eq!(parse_date("2000-02-29"), Ok(11_016));
    }

    #[test]
    fn times_come_back_to_the_microsecond() {
        for time in ["2024-02-29 13:30:07.000123", "1969-12-31 23:59:59.999999"] {
            let mut text = String::new();
            write_timestamp(&mut text, parse_timestamp(time).unwrap());
            assert_eq!(text, time);
        }
        assert_eq!(parse_timestamp("1970-01-02"), Ok(DAY_US));
        assert_eq!(parse_timestamp("1970-01-01T00:00:01.5"), Ok(1_500_000));
    }

    #[test]
    fn what_is_no_date_or_time() {
        for text in ["2023-02-29", "2024-13-01", "2024-00-01", "24/1/1", "2024-1", "", "2024-01-01-01", "x-1-1"] {
            assert_eq!(parse_date(text), Err(format!("{text:?} is no date like 2024-02-29")));
        }
        for text in ["2024-01-01 24:00:00", "2024-01-01 1:2", "2024-01-01 00:00:00.", "2024-02-30 00:00:00"] {
            assert_eq!(parse_timestamp(text), Err(format!("{text:?} is no time like 2024-02-29 13:30:00")));
        }
    }
}
