//! How a site is reached.

use std::fmt;
use std::io;

use crate::driver::Failure;
use crate::driver::channel::Channel;
use crate::driver::socket::Address;
use crate::driver::tls::{Tls, TlsFiles, TlsMode};
use crate::http::{Origin, check_header};

/// How to reach an HTTP server.
#[derive(Clone, Default)]
pub struct Access {
    /// Host name or address.
    pub host: String,
    /// TCP port.
    pub port: u16,
    /// Header lines of every request, (name, value); a `Host` stands for the name of the site where that is not `host`.
    pub headers: Vec<(String, String)>,
    /// `Disable`: http; else https.
    pub tls: TlsMode,
    /// Whom to trust, and what to show.
    pub tls_files: TlsFiles,
}

impl fmt::Debug for Access {
    /// Without the headers: one may be a password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { host, port, tls, .. } = self;
        write!(f, "Access({host}:{port}, tls {tls:?})")
    }
}

/// A server, and what is the same in all requests to it.
pub(super) struct Site {
    address: Address,
    tls: Option<Tls>,
    pub(super) origin: Origin,
    /// Header lines of every request.
    pub(super) headers: String,
}

impl Site {
    pub(super) fn new(access: &Access) -> Result<Self, String> {
        let tls = Tls::new(access.tls, &access.tls_files)?;
        let own = |name: &str| access.headers.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
        let usual = if tls.is_some() { 443 } else { 80 };
        let name = match own("host") {
            Some((_, name)) => name.clone(),
            None if access.host.contains(':') => with_port(&format!("[{}]", access.host), access.port, usual),
            None => with_port(&access.host, access.port, usual),
        };
        check_header("Host", &name)?;
        let mut headers = format!("Host: {name}\r\n");
        for (usual, value) in [("User-Agent", concat!("trimtab/", env!("CARGO_PKG_VERSION"))), ("Accept", "*/*")] {
            if own(usual).is_none() {
                headers.push_str(&format!("{usual}: {value}\r\n"));
            }
        }
        for (name, value) in &access.headers {
            check_header(name, value)?;
            if !name.eq_ignore_ascii_case("host") {
                headers.push_str(&format!("{name}: {value}\r\n"));
            }
        }
        let origin = origin(&name, tls.is_some());
        let address = Address::tcp(&access.host, access.port);
        Ok(Self { address, tls, origin, headers })
    }

    /// Opens a connection.
    pub(super) async fn open(&self) -> Result<Channel, Failure> {
        let cannot = |error: io::Error| Failure::lost(&format!("cannot connect to {}", self.address), &error);
        Channel::open(&self.address, self.tls.as_ref()).await.map_err(cannot)
    }
}

fn with_port(host: &str, port: u16, usual: u16) -> String {
    if port == usual { host.to_owned() } else { format!("{host}:{port}") }
}

/// What the addresses of pages on a site with this name begin with.
fn origin(name: &str, is_encrypted: bool) -> Origin {
    let usual = if is_encrypted { 443 } else { 80 };
    let (host, port) = match name.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => (host, port.parse().unwrap_or(usual)),
        _ => (name, usual),
    };
    let host = host.trim_start_matches('[').trim_end_matches(']').to_ascii_lowercase();
    Origin { is_encrypted, host, port }
}
