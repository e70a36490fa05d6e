//! Where a server is.

use crate::driver::socket::Address;
use crate::driver::tls::Tls;

/// A server's address and how its connections are encrypted.
pub(super) struct Door {
    pub(super) address: Address,
    /// `None`: never encrypted.
    pub(super) tls: Option<Tls>,
}

impl Door {
    /// Whether the connection does not leave the machine's kernel.
    pub(super) fn is_local(&self) -> bool {
        matches!(self.address, Address::Unix(_))
    }

    pub(super) fn host(&self) -> &str {
        match &self.address {
            Address::Unix(_) => "",
            Address::Tcp(name) => &name.host,
        }
    }
}
