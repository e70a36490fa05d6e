//! The expressions of `\set`, `\if` and `\elif`: pgbench's language, with variables resolved when the script is read.

mod evaluate;
mod functions;
mod lexer;
mod parser;
mod tree;

pub(super) use evaluate::State;
pub(super) use parser::parse;
pub(super) use tree::Expression;

#[cfg(test)]
mod tests;
