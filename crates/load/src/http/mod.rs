//! What HTTP drivers are asked, and what comes back: a request for a page and the page, in buffers that are reused.

mod date;
mod jar;
mod location;

pub use self::jar::Jar;
pub(crate) use self::location::is_sendable;
pub use self::location::{Origin, redirect};

use crate::protocol::Protocol;

/// HTTP servers.
#[derive(Clone, Copy, Debug)]
pub enum Http {}

impl Protocol for Http {
    type Request = HttpRequest;
    type Answer = HttpAnswer;
}

/// What is done with the resource.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Method {
    /// Read it.
    #[default]
    Get,
    /// Read what is said about it.
    Head,
    /// Send it a form or other data.
    Post,
    /// Replace it.
    Put,
    /// Remove it.
    Delete,
}

impl Method {
    /// From its name as users write it.
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Get, Self::Head, Self::Post, Self::Put, Self::Delete].into_iter().find(|method| method.name() == name)
    }

    /// As it is sent.
    pub fn name(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Head => "HEAD",
            Self::Post => "POST",
            Self::Put => "PUT",
            Self::Delete => "DELETE",
        }
    }

    /// Whether the same request sent twice means the same as sent once.
    pub fn is_idempotent(self) -> bool {
        self != Self::Post
    }

    /// Whether its requests have a body.
    pub fn has_body(self) -> bool {
        matches!(self, Self::Post | Self::Put)
    }

    /// What is done where a redirect with this status leads (RFC 9110, section 15.4, as browsers have it).
    #[must_use]
    pub fn redirected(self, status: u16) -> Self {
        match (status, self) {
            (301 | 302, Self::Post) => Self::Get,
            (303, Self::Post | Self::Put | Self::Delete) => Self::Get,
            _ => self,
        }
    }
}

/// One step of an operation for an HTTP server.
#[derive(Debug)]
pub struct HttpRequest {
    /// What is done.
    pub method: Method,
    /// Path and query as they are sent; begins with "/".
    pub target: String,
    /// Further header lines, each with its line end.
    pub headers: String,
    /// The value of the header `Cookie`; empty for none.
    pub cookies: String,
    /// What is sent, where the method sends something.
    pub body: Vec<u8>,
    /// Lowest and highest status that is a success; another is a failure.
    pub status: (u16, u16),
    /// Whether the page is wanted; else it is read and forgotten.
    pub keeps_body: bool,
    /// Whether the connection at hand is closed first, as if another browser came.
    pub is_fresh: bool,
    /// Whether the connection ends behind the answer, which the server is told before.
    pub is_last: bool,
}

/// Statuses of success, and of what a client may follow.
pub const SUCCESS: (u16, u16) = (200, 399);

impl Default for HttpRequest {
    fn default() -> Self {
        Self {
            method: Method::Get,
            target: String::from("/"),
            headers: String::new(),
            cookies: String::new(),
            body: Vec::new(),
            status: SUCCESS,
            keeps_body: false,
            is_fresh: false,
            is_last: false,
        }
    }
}

/// What came back.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HttpAnswer {
    /// The status; 200 is a success.
    pub status: u16,
    /// The page, when the request asked for it.
    pub body: Vec<u8>,
    /// How long the page was.
    pub n_bytes: u64,
    /// Where the page is now, for a redirect; empty without.
    pub location: String,
    /// The values of all `Set-Cookie`, one a line.
    pub cookies: String,
}

impl HttpAnswer {
    /// Forgets everything, and keeps the memory.
    pub fn clear(&mut self) {
        self.status = 0;
        self.body.clear();
        self.n_bytes = 0;
        self.location.clear();
        self.cookies.clear();
    }

    /// Whether the client is sent elsewhere; one that is not told where is not.
    pub fn is_redirect(&self) -> bool {
        matches!(self.status, 301 | 302 | 303 | 307 | 308) && !self.location.is_empty()
    }
}

/// Checks a header line of the user's.
///
/// # Errors
/// Why it cannot be sent.
pub fn check_header(name: &str, value: &str) -> Result<(), String> {
    let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    if name.is_empty() || !name.bytes().all(is_token) {
        return Err(format!("headers: no header can be named {name:?}"));
    }
    // They decide where a message ends and whether its connection goes on, which is for the driver to know.
    let own = ["connection", "content-length", "transfer-encoding", "expect", "te", "upgrade", "cookie"];
    if own.iter().any(|known| name.eq_ignore_ascii_case(known)) {
        return Err(format!("headers: {name} is set by the load itself"));
    }
    if value.bytes().any(|byte| byte < 0x20 && byte != b'\t' || byte == 0x7f) {
        return Err(format!("headers: the value of {name} holds a control character"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn methods_have_their_names() {
        for name in ["GET", "HEAD", "POST", "PUT", "DELETE"] {
            assert_eq!(Method::from_name(name).expect("known").name(), name);
        }
        assert_eq!(Method::from_name("get"), None);
    }

    #[test]
    fn what_is_sent_again_depends_on_status_and_method() {
        let methods = [Method::Get, Method::Head, Method::Post, Method::Put, Method::Delete];
        for (status, expected) in [
            (301, [Method::Get, Method::Head, Method::Get, Method::Put, Method::Delete]),
            (302, [Method::Get, Method::Head, Method::Get, Method::Put, Method::Delete]),
            (303, [Method::Get, Method::Head, Method::Get, Method::Get, Method::Get]),
            (307, methods),
            (308, methods),
        ] {
            assert_eq!(methods.map(|method| method.redirected(status)), expected, "{status}");
        }
    }
}
