//! A user's cookies for one site.

use std::time::{SystemTime, UNIX_EPOCH};

use super::date;

/// Keeps cookies as a browser does, for the one site that it is used with; whatever `Domain` says is that site's.
#[derive(Clone, Debug, Default)]
pub struct Jar {
    cookies: Vec<Cookie>,
}

#[derive(Clone, Debug)]
struct Cookie {
    name: String,
    value: String,
    path: String,
    is_secure: bool,
    /// Seconds since 1970 from which on it is gone; `None`: when the session is over.
    end_s: Option<i64>,
}

/// What one `Set-Cookie` says.
struct Given<'a> {
    name: &'a str,
    value: &'a str,
    path: &'a str,
    is_secure: bool,
    end_s: Option<i64>,
}

/// A browser keeps fewer; a server that sets more has gone wrong.
const COOKIES_MAX: usize = 300;

impl Jar {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.cookies.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.cookies.is_empty()
    }

    /// Forgets all.
    pub fn clear(&mut self) {
        self.cookies.clear();
    }

    /// Takes the value of one `Set-Cookie` that came with the page `target`. What is no cookie is ignored, as browsers do.
    pub fn take(&mut self, text: &str, target: &str) {
        self.take_at(text, target, seconds_now);
    }

    fn take_at(&mut self, text: &str, target: &str, now_s: impl Fn() -> i64) {
        let (pair, attributes) = text.split_once(';').unwrap_or((text, ""));
        let Some((name, value)) = pair.split_once('=').map(|(name, value)| (name.trim(), value.trim())) else { return };
        if name.is_empty() {
            return;
        }
        let (mut path, mut is_secure, mut age_s, mut end_s) = (directory(target), false, None, None);
        for attribute in attributes.split(';') {
            let (key, value) = attribute.split_once('=').unwrap_or((attribute, ""));
            let (key, value) = (key.trim(), value.trim());
            if key.eq_ignore_ascii_case("path") && value.starts_with('/') {
                path = value;
            } else if key.eq_ignore_ascii_case("secure") {
                is_secure = true;
            } else if key.eq_ignore_ascii_case("max-age") {
                age_s = value.parse::<i64>().ok();
            } else if key.eq_ignore_ascii_case("expires") {
                end_s = date::seconds(value);
            }
        }
        let end_s = match age_s {
            Some(..=0) => Some(i64::MIN),
            // The second at hand has begun already: no cookie is gone before its time.
            Some(age_s) => Some(now_s().saturating_add(age_s).saturating_add(1)),
            None => end_s,
        };
        if self.cookies.len() >= COOKIES_MAX {
            let now_s = now_s();
            self.cookies.retain(|cookie| cookie.end_s.is_none_or(|end_s| end_s > now_s));
        }
        let is_over = end_s.is_some_and(|end_s| end_s <= now_s());
        self.put(Given { name, value, path, is_secure, end_s }, is_over);
    }

    fn put(&mut self, Given { name, value, path, is_secure, end_s }: Given<'_>, is_over: bool) {
        let place = self.cookies.iter().position(|cookie| cookie.name == name && cookie.path == path);
        match place {
            Some(place) if is_over => _ = self.cookies.remove(place),
            Some(place) => {
                let cookie = &mut self.cookies[place];
                cookie.value.clear();
                cookie.value.push_str(value);
                (cookie.is_secure, cookie.end_s) = (is_secure, end_s);
            }
            None if is_over || self.cookies.len() >= COOKIES_MAX => {}
            None => {
                // Those with longer paths go first.
                let place = self.cookies.iter().position(|cookie| cookie.path.len() < path.len());
                let (name, value, path) = (name.to_owned(), value.to_owned(), path.to_owned());
                let cookie = Cookie { name, value, path, is_secure, end_s };
                self.cookies.insert(place.unwrap_or(self.cookies.len()), cookie);
            }
        }
    }

    /// Writes the value of `Cookie` for a request to `target`, over what `text` held.
    pub fn write(&self, target: &str, is_encrypted: bool, text: &mut String) {
        self.write_at(target, is_encrypted, text, seconds_now);
    }

    fn write_at(&self, target: &str, is_encrypted: bool, text: &mut String, now_s: impl Fn() -> i64) {
        text.clear();
        let path = target.split('?').next().unwrap_or("/");
        for cookie in &self.cookies {
            let is_over = cookie.end_s.is_some_and(|end_s| end_s <= now_s());
            if is_below(path, &cookie.path) && (is_encrypted || !cookie.is_secure) && !is_over {
                if !text.is_empty() {
                    text.push_str("; ");
                }
                text.push_str(&cookie.name);
                text.push('=');
                text.push_str(&cookie.value);
            }
        }
    }
}

fn seconds_now() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs() as i64)
}

/// The path of the page without its last part (RFC 6265, section 5.1.4).
fn directory(target: &str) -> &str {
    let path = target.split('?').next().unwrap_or("/");
    match path.rfind('/') {
        None | Some(0) => "/",
        Some(end) => &path[..end],
    }
}

fn is_below(path: &str, above: &str) -> bool {
    path.strip_prefix(above).is_some_and(|rest| rest.is_empty() || above.ends_with('/') || rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW_S: i64 = 1_000_000_000;

    fn sent(jar: &Jar, target: &str) -> String {
        let mut text = String::from("old");
        jar.write_at(target, false, &mut text, || NOW_S);
        text
    }

    #[test]
    fn cookies_are_sent_where_they_belong() {
        let mut jar = Jar::default();
        jar.take("a=1", "/shop/cart?x=/y");
        jar.take("b=two words ; Path=/; HttpOnly; SameSite=Lax", "/shop/cart");
        jar.take("c=3; path=/shop/cart; Secure", "/shop/cart");
        assert_eq!(sent(&jar, "/shop/cart"), "a=1; b=two words");
        assert_eq!(sent(&jar, "/shop/?q"), "a=1; b=two words");
        assert_eq!(sent(&jar, "/shopping"), "b=two words");
        assert_eq!(sent(&jar, "/"), "b=two words");
        let mut text = String::new();
        jar.write("/shop/cart/1", true, &mut text);
        assert_eq!(text, "c=3; a=1; b=two words");
    }

    #[test]
    fn a_cookie_is_replaced_and_removed() {
        let mut jar = Jar::default();
        let now_s = || 1_000_000_000;
        for (text, expected) in [
            ("id=1; Path=/", "id=1"),
            ("id=2; Path=/; Expires=Wed, 09 Jun 2100 10:18:14 GMT", "id=2"),
            ("id=; Path=/; Expires=Thu, 01 Jan 1970 00:00:10 GMT; Max-Age=60", "id="),
            ("id=3; Path=/; Expires=whenever", "id=3"),
            ("id=3; Path=/; Expires=Thu, 01 Jan 1970 00:00:10 GMT", ""),
            ("id=4; Path=/", "id=4"),
            ("id=4; Path=/; Max-Age=0", ""),
            ("gone=1; Max-Age=-1", ""),
        ] {
            jar.take_at(text, "/", now_s);
            assert_eq!(sent(&jar, "/"), expected, "{text}");
        }
        assert!(jar.is_empty());
    }

    #[test]
    fn a_cookie_is_sent_until_its_time_is_over() {
        let (mut jar, start_s) = (Jar::default(), NOW_S);
        for text in ["age=1; Max-Age=10", "date=2; Expires=Sun, 09 Sep 2001 01:47:00 GMT", "session=3"] {
            jar.take_at(text, "/", || start_s);
        }
        let mut text = String::new();
        for (later_s, expected) in [
            (0, "age=1; date=2; session=3"),
            (10, "age=1; date=2; session=3"),
            (11, "date=2; session=3"),
            (19, "date=2; session=3"),
            (20, "session=3"),
            (1 << 40, "session=3"),
        ] {
            jar.write_at("/", false, &mut text, || start_s + later_s);
            assert_eq!(text, expected, "{later_s} s later");
        }
        jar.take_at("age=4; Max-Age=9223372036854775807", "/", || start_s);
        jar.write_at("/", false, &mut text, || start_s + (1 << 40));
        assert_eq!(text, "age=4; session=3");
    }

    #[test]
    fn what_is_no_cookie_is_ignored() {
        let mut jar = Jar::default();
        for text in ["", ";", "a", "=b", ";;=", "; Path=/"] {
            jar.take(text, "/");
        }
        assert!(jar.is_empty());
        for number in 0..1_000 {
            jar.take(&format!("n{number}=1"), "/");
        }
        assert_eq!(jar.len(), COOKIES_MAX);
    }

    #[test]
    fn cookies_whose_time_is_over_make_room_for_others() {
        let mut jar = Jar::default();
        for number in 0..2 * COOKIES_MAX as i64 {
            jar.take_at(&format!("n{number}=1; Max-Age=5"), "/", || NOW_S + number);
        }
        let mut text = String::new();
        jar.write_at("/", false, &mut text, || NOW_S + 2 * COOKIES_MAX as i64 - 1);
        assert_eq!(text, "n594=1; n595=1; n596=1; n597=1; n598=1; n599=1");
    }
}
