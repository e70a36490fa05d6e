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
        self.take_at(text, target, || {
            SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs() as i64)
        });
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
        let is_over = match (age_s, end_s) {
            (Some(age_s), _) => age_s <= 0,
            (None, Some(end_s)) => end_s <= now_s(),
            (None, None) => false,
        };
        self.put(name, value, path, is_secure, is_over);
    }

    fn put(&mut self, name: &str, value: &str, path: &str, is_secure: bool, is_over: bool) {
        let place = self.cookies.iter().position(|cookie| cookie.name == name && cookie.path == path);
        match place {
            Some(place) if is_over => _ = self.cookies.remove(place),
            Some(place) => {
                let cookie = &mut self.cookies[place];
                cookie.value.clear();
                cookie.value.push_str(value);
                cookie.is_secure = is_secure;
            }
            None if is_over || self.cookies.len() >= COOKIES_MAX => {}
            None => {
                // Those with longer paths go first.
                let place = self.cookies.iter().position(|cookie| cookie.path.len() < path.len());
                let (name, value, path) = (name.to_owned(), value.to_owned(), path.to_owned());
                let cookie = Cookie { name, value, path, is_secure };
                self.cookies.insert(place.unwrap_or(self.cookies.len()), cookie);
            }
        }
    }

    /// Writes the value of `Cookie` for a request to `target`, over what `text` held.
    pub fn write(&self, target: &str, is_encrypted: bool, text: &mut String) {
        text.clear();
        let path = target.split('?').next().unwrap_or("/");
        for cookie in &self.cookies {
            if is_below(path, &cookie.path) && (is_encrypted || !cookie.is_secure) {
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

    fn sent(jar: &Jar, target: &str) -> String {
        let mut text = String::from("old");
        jar.write(target, false, &mut text);
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
}
