//! Where a redirect leads.

use std::borrow::Cow;
use std::fmt::{self, Write};

/// Scheme, host and port of a site, as they stand in its pages' addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// Whether the scheme is "https".
    pub is_encrypted: bool,
    /// The host in lower case; an IPv6 address without its brackets.
    pub host: String,
    /// The port.
    pub port: u16,
}

impl Origin {
    /// Whether "host" or "host:port" of an address with this scheme names it.
    fn is(&self, is_encrypted: bool, authority: &str) -> bool {
        let usual = if is_encrypted { 443 } else { 80 };
        let authority = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
        let (host, port) = match authority.rsplit_once(':') {
            Some((host, port)) if !port.ends_with(']') => (host, port.parse().ok()),
            _ => (authority, Some(usual)),
        };
        let host = host.trim_start_matches('[').trim_end_matches(']');
        self.is_encrypted == is_encrypted && self.host.eq_ignore_ascii_case(host) && port == Some(self.port)
    }
}

impl fmt::Display for Origin {
    /// As the addresses of its pages begin.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { is_encrypted, host, port } = self;
        let (scheme, usual) = if *is_encrypted { ("https", 443) } else { ("http", 80) };
        let (open, close) = if host.contains(':') { ("[", "]") } else { ("", "") };
        write!(f, "{scheme}://{open}{host}{close}")?;
        if *port == usual { Ok(()) } else { write!(f, ":{port}") }
    }
}

/// Writes into `target` what `location`, which came with the page `from`, names, as it can be sent; false when that is not on this
/// site.
pub fn redirect(origin: &Origin, from: &str, location: &str, target: &mut String) -> bool {
    let location = sendable(location.split('#').next().unwrap_or(""));
    let location = &*location;
    let is_http = |scheme: &str| scheme.eq_ignore_ascii_case("http");
    let is_https = |scheme: &str| scheme.eq_ignore_ascii_case("https");
    let (is_encrypted, rest) = match location.split_once("://") {
        Some((scheme, rest)) if is_http(scheme) || is_https(scheme) => (is_https(scheme), Some(rest)),
        // In a query it is no scheme.
        Some((scheme, _)) if scheme.chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c)) => return false,
        _ => (origin.is_encrypted, location.strip_prefix("//")),
    };
    let path = match rest {
        Some(rest) => {
            let end = rest.find(['/', '?']).unwrap_or(rest.len());
            if !origin.is(is_encrypted, &rest[..end]) {
                return false;
            }
            &rest[end..]
        }
        None => location,
    };
    let base = from.split('?').next().unwrap_or("/");
    target.clear();
    if path.starts_with('/') {
        push_path("", path, target);
    } else if rest.is_some() {
        target.push('/');
        target.push_str(path);
    } else if path.is_empty() || path.starts_with('?') {
        target.push_str(if path.is_empty() { from } else { base });
        target.push_str(path);
    } else {
        push_path(&base[..base.rfind('/').unwrap_or(0)], path, target);
    }
    true
}

/// Whether a byte of an address is sent as it is.
pub(crate) fn is_sendable(byte: u8) -> bool {
    byte.is_ascii_graphic() && !b"\"<>\\^`{|}#".contains(&byte)
}

/// An address with %XX in place of what cannot be sent, as browsers write it.
fn sendable(address: &str) -> Cow<'_, str> {
    if address.bytes().all(is_sendable) {
        return Cow::Borrowed(address);
    }
    let mut sent = String::with_capacity(address.len() * 3);
    for byte in address.bytes() {
        // Writing to a String cannot fail.
        _ = if is_sendable(byte) { write!(sent, "{}", char::from(byte)) } else { write!(sent, "%{byte:02X}") };
    }
    Cow::Owned(sent)
}

/// Appends a path below `directory` without its dots (RFC 3986, section 5.2.4), and its query as it is.
fn push_path(directory: &str, path: &str, target: &mut String) {
    let (path, query) = path.find('?').map_or((path, ""), |start| path.split_at(start));
    let start = target.len();
    let own = path.strip_prefix('/').unwrap_or(path).split('/');
    let mut parts = directory.split('/').skip(1).chain(own).peekable();
    while let Some(part) = parts.next() {
        let is_last = parts.peek().is_none();
        match part {
            "." => {}
            ".." => target.truncate(target[start..].rfind('/').map_or(start, |end| start + end)),
            part => {
                target.push('/');
                target.push_str(part);
                continue;
            }
        }
        if is_last {
            target.push('/');
        }
    }
    if target.len() == start {
        target.push('/');
    }
    target.push_str(query);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn led(from: &str, location: &str) -> Option<String> {
        let origin = Origin { is_encrypted: false, host: "shop".to_owned(), port: 8080 };
        let mut target = String::from("old");
        redirect(&origin, from, location, &mut target).then_some(target)
    }

    #[test]
    fn locations_lead_to_pages_of_the_site() {
        let cases = [
            ("http://shop:8080/a?b=c#d", "/a?b=c"),
            ("HTTP://Shop:8080", "/"),
            ("http://shop:8080?x", "/?x"),
            ("//shop:8080/a", "/a"),
            ("/a/b", "/a/b"),
            ("/a/../../b/./c/", "/b/c/"),
            ("/..", "/"),
            ("/a/.", "/a/"),
            ("x/y?z=../..", "/dir/x/y?z=../.."),
            ("../up", "/up"),
            ("./", "/dir/"),
            ("?n=2", "/dir/page?n=2"),
            ("", "/dir/page?n=1"),
            ("#top", "/dir/page?n=1"),
            ("next?to=http://other/", "/dir/next?to=http://other/"),
            ("/caf\u{e9} au lait/?q=\"\u{20ac}\"&a=%20", "/caf%C3%A9%20au%20lait/?q=%22%E2%82%AC%22&a=%20"),
        ];
        for (location, expected) in cases {
            assert_eq!(led("/dir/page?n=1", location).as_deref(), Some(expected), "{location}");
        }
    }

    #[test]
    fn other_sites_are_not_followed() {
        for location in [
            "http://shop/",
            "https://shop:8080/",
            "http://other:8080/",
            "//other/",
            "ftp://shop:8080/",
            "http://shop:x/",
        ] {
            assert_eq!(led("/", location), None, "{location}");
        }
        let origin = Origin { is_encrypted: true, host: "::1".to_owned(), port: 443 };
        let mut target = String::new();
        assert!(redirect(&origin, "/", "https://[::1]/a", &mut target));
        assert!(redirect(&origin, "/", "https://[::1]:443/a", &mut target));
        assert_eq!((target.as_str(), origin.to_string().as_str()), ("/a", "https://[::1]"));
    }
}
