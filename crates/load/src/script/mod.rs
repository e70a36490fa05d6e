//! Weighted transactions as a source of operations: pgbench scripts as they are, and the user's own SQL with generated
//! values.
//!
//! Scripts are compiled once: variables become slots, statements become the texts that drivers prepare, conditions become
//! jumps. What users share is read only; a step allocates nothing unless a value must stand in a statement's text.

mod compiled;
mod error;
mod expression;
mod names;
mod options;
mod own;
mod pgbench;
mod program;
mod random;
mod scatter;
mod source;
mod statement;
mod user;
mod value;
mod word;

pub use error::ScriptError;
pub use options::{Mode, Options};
pub use own::{Generator, Parameter, Pick, Statement, Transaction, Value, Wrap, read_statements};
pub use source::{Script, ScriptSources};
pub use statement::Reach;

pub use crate::sql::Dialect;

#[cfg(test)]
mod tests;
