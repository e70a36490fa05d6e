//! Weighted transactions as a source of operations: pgbench scripts as they are, and the user's own SQL with generated
//! values.
//!
//! Scripts are compiled once: variables become slots, statements become the texts that drivers prepare, conditions become
//! jumps. What users share is read only; a step allocates nothing unless a value must stand in a statement's text.

mod error;
mod expression;
mod names;
mod own;
mod pgbench;
mod program;
mod random;
mod scatter;
mod source;
mod statement;
mod user;
mod value;

pub use error::ScriptError;
pub use own::{Generator, Parameter, Pick, Transaction, Value, Wrap};
pub use source::{Dialect, Mode, Options, Script, ScriptSources, split_weight};

#[cfg(test)]
mod tests;
