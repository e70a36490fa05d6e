//! Expressions as they are computed.

use super::super::value::Scalar;
use super::functions::Function;

/// A parsed expression.
#[derive(Debug)]
pub(in super::super) enum Expression {
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
