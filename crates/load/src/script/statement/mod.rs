//! SQL texts: their lexical units, kinds and result columns, and statements with placeholders.

mod columns;
mod kind;
mod lexer;
mod reach;
mod template;

pub(super) use columns::columns;
pub(super) use kind::{Effect, Kind, classify};
pub(super) use lexer::{Unit, Units};
pub use reach::Reach;
pub(super) use reach::{executed, reach};
pub(super) use template::{Part, Template};
