//! The user's own SQL: transactions of statements with named placeholders, and generators of their values.

mod compile;
mod draw;
mod generator;
mod text;

pub(super) use compile::{Tables, compile};
pub(super) use draw::{Drawn, User, fill};
pub use generator::{Generator, Parameter, Pick, Transaction, Value, Wrap};
pub use text::{Statement, read_statements};
