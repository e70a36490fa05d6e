//! Dates in the headers of cookies.

use crate::calendar::days;

const MONTHS: [&str; 12] = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];

/// Seconds since 1970 of a date in any of the three forms that HTTP knows; `None` when it is none (RFC 6265, section 5.1.1).
pub(super) fn seconds(text: &str) -> Option<i64> {
    let (mut day, mut month, mut year, mut time) = (None, None, None, None);
    for token in text.split(|c: char| !c.is_ascii_alphanumeric() && c != ':').filter(|token| !token.is_empty()) {
        let known = MONTHS.iter().position(|name| token.get(..3).is_some_and(|start| start.eq_ignore_ascii_case(name)));
        if token.contains(':') {
            time = time.or(Some(clock(token)?));
        } else if let Some(found) = known {
            month = month.or(Some(found as i64 + 1));
        } else if let Ok(number) = token.parse::<i64>() {
            if day.is_none() && token.len() <= 2 { day = Some(number) } else { year = year.or(Some(number)) }
        }
    }
    let year = match year? {
        short @ 0..=69 => short + 2000,
        short @ 70..=99 => short + 1900,
        whole @ 1601..=9999 => whole,
        _ => return None,
    };
    let day = day.filter(|day| (1..=31).contains(day))?;
    Some(days(year, month?, day) * 86_400 + time?)
}

/// Seconds of the day.
fn clock(token: &str) -> Option<i64> {
    let mut parts = token.splitn(3, ':').map(|part| part.parse::<i64>().ok());
    let (hours, minutes, seconds) = (parts.next()??, parts.next()??, parts.next()??);
    let is_time = (0..24).contains(&hours) && (0..60).contains(&minutes) && (0..61).contains(&seconds);
    is_time.then_some(hours * 3_600 + minutes * 60 + seconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_in_all_forms_are_read() {
        for text in [
            "Sun, 06 Nov 1994 08:49:37 GMT",
            "Sunday, 06-Nov-94 08:49:37 GMT",
            "Sun Nov  6 08:49:37 1994",
            "Sun, 06-Nov-1994 08:49:37 GMT",
        ] {
            assert_eq!(seconds(text), Some(784_111_777), "{text}");
        }
        assert_eq!(seconds("Thu, 01 Jan 1970 00:00:10 GMT"), Some(10));
        assert_eq!(seconds("Thu, 29 Feb 2024 12:00:00 GMT"), Some(1_709_208_000));
    }

    #[test]
    fn what_is_no_date_is_none() {
        for text in
            ["", "0", "soon", "Sun, 06 Nov 1994", "Sun, 06 Nov 1994 25:00:00", "06 Nov 1994 08:49", "99 Nov 1994 1:1:1"]
        {
            assert_eq!(seconds(text), None, "{text}");
        }
    }
}
