//! MongoDB's OP_MSG, spoken directly: one write and one read for a short command, on the worker's own thread; documents are read in
//! place. Records are documents whose `_id` is the key; fields are named field0, field1 and so on.

mod auth;
mod bson;
mod session;
mod wire;

use std::sync::Arc;

use self::bson::Value;
pub use self::session::MongodbSession;
use self::wire::{Wire, judged};
use super::channel::Channel;
use super::socket::Address;
use super::tls::Tls;
use super::{Access, Driver, ErrorClass, Failure, refused};
use crate::pairs::Pairs;

/// A server that speaks OP_MSG: MongoDB from 3.6 on. `Access::settings` may name `authSource`.
#[derive(Clone)]
pub struct Mongodb {
    door: Arc<Door>,
    collection: Arc<str>,
}

/// How connections are made.
struct Door {
    access: Access,
    address: Address,
    tls: Option<Tls>,
    /// The database whose users we are among.
    users_of: String,
}

impl Mongodb {
    /// Reads the certificates; connects nothing yet. The load's records are in `collection` of the access's database.
    ///
    /// # Errors
    /// A text naming the file without a usable certificate, or the setting that is not known.
    pub fn new(access: Access, collection: &str) -> Result<Self, String> {
        let tls = Tls::new(access.tls, &access.tls_files)?;
        let mut users_of = "admin".to_owned();
        for (name, value) in &access.settings {
            match name.as_str() {
                "authSource" => users_of.clone_from(value),
                _ => return Err(format!("settings: {name} is not known; there is authSource")),
            }
        }
        let address = Address::new(&access.host, access.port);
        Ok(Self { door: Arc::new(Door { access, address, tls, users_of }), collection: collection.into() })
    }
}

impl Driver for Mongodb {
    type Protocol = Pairs;
    type Session = MongodbSession;

    async fn connect(&self) -> Result<MongodbSession, Failure> {
        let Door { access, address, tls, users_of } = &*self.door;
        let cannot = |error: std::io::Error| Failure::lost(&format!("cannot connect to {address}"), &error);
        let mut wire = Wire::new(Channel::open(address, tls.as_ref()).await.map_err(cannot)?);
        greet(&mut wire).await.map_err(refused)?;
        if !access.user.is_empty() {
            let password = access.password.as_deref().unwrap_or_default();
            auth::enter(&mut wire, &access.user, password, users_of).await.map_err(refused)?;
        }
        Ok(MongodbSession::new(wire, access.database.as_str().into(), Arc::clone(&self.collection)))
    }
}

/// Asks what the server is; one that takes no writes is no place for a load.
async fn greet(wire: &mut Wire) -> Result<(), Failure> {
    let hello = wire
        .ask("admin", |out| {
            out.int("hello", 1);
            out.document("client");
            out.document("driver");
            out.text("name", "trimtab");
            out.text("version", env!("CARGO_PKG_VERSION"));
            out.close();
            out.document("os");
            out.text("type", std::env::consts::OS);
            out.close();
            out.close();
        })
        .await?;
    let hello = judged(hello)?;
    if hello.get("isWritablePrimary").and_then(Value::number) == Some(0.0) {
        let message = "the server is not the primary of its replica set: it takes no writes";
        return Err(Failure::without_code(ErrorClass::ReadOnly, message));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
