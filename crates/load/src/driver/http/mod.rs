//! HTTP/1.1, spoken directly: one write and one read for a short page, on the worker's own thread; bodies that nobody wants
//! are skipped in place.
//!
//! A session opens its connection anew when the server has closed it in good order, as a browser does: servers end idle
//! connections after some seconds, and others after some number of pages.

mod access;
mod body;
mod encode;
mod head;
mod session;

use std::sync::Arc;

use self::access::Site;
use super::{Driver, Failure};
use crate::http::{Http, Origin};

pub use self::access::Access;
pub use self::session::HttpSession;

/// The HTTP driver.
#[derive(Clone)]
pub struct HttpDriver {
    site: Arc<Site>,
}

impl HttpDriver {
    /// Checks the headers and reads the certificates; connects nothing yet.
    ///
    /// # Errors
    /// A text naming the header that cannot be sent, or the file without a usable certificate.
    pub fn new(access: &Access) -> Result<Self, String> {
        Site::new(access).map(|site| Self { site: Arc::new(site) })
    }

    /// Scheme, host and port as they stand in the addresses of the site's own pages.
    pub fn origin(&self) -> &Origin {
        &self.site.origin
    }
}

impl Driver for HttpDriver {
    type Protocol = Http;
    type Session = HttpSession;

    /// A server that cannot be reached is known before the run.
    async fn connect(&self) -> Result<HttpSession, Failure> {
        let mut session = HttpSession::new(Arc::clone(&self.site));
        session.open().await?;
        Ok(session)
    }

    fn late(&self) -> Option<HttpSession> {
        Some(HttpSession::new(Arc::clone(&self.site)))
    }
}

#[cfg(test)]
mod tests;
