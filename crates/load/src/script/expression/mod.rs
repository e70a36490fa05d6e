//! The expressions of `\set`, `\if` and `\elif`: pgbench's language, with variables resolved when the script is read.

mod evaluate;
mod functions;
mod lexer;
mod parser;

pub(super) use evaluate::State;
pub(super) use lexer::is_name;
pub(super) use parser::parse;

use functions::Function;

use super::value::Scalar;

/// A parsed expression.
#[derive(Debug)]
pub(super) enum Expression {
    Constant(Scalar),
    /// The variable in this slot.
    Variable(u32),
    /// All arguments are computed before the call.
    Call(Function, Box<[Expression]>),
    /// The second operand is computed only when it matters.
    And(Box<[Expression; 2]>),
    Or(Box<[Expression; 2]>),
    /// Conditions with their values, and the value when none holds.
    Case(Box<[(Expression, Expression)]>, Box<Expression>),
}

#[cfg(test)]
mod tests;
