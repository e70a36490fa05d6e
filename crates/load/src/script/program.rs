//! What a script becomes: steps that a user runs one after the other, with jumps only forwards.

use std::sync::Arc;

use super::expression::Expression;
use super::statement::Effect;

/// A transaction ready to run.
#[derive(Debug)]
pub(super) struct Program {
    pub(super) label: String,
    pub(super) steps: Vec<Step>,
    /// The variables that have no value when the transaction starts.
    pub(super) own: std::ops::Range<u32>,
}

/// One step of a program.
#[derive(Debug)]
pub(super) enum Step {
    Set(u32, Expression),
    Sleep(Pause),
    /// Goes on elsewhere when the condition does not hold.
    Unless(Expression, usize),
    Jump(usize),
    Begin,
    Commit,
    Rollback,
    /// A prepared statement, its parameters, and the variables that its row sets.
    Prepared(u32, Box<[Binding]>, Option<Stored>),
    /// A text that is always the same.
    Fixed(Arc<str>, Effect, Option<Stored>),
    /// A text that values are put into.
    Written(Box<[Fragment]>, Effect, Option<Stored>),
}

/// How long `\sleep` waits.
#[derive(Debug)]
pub(super) struct Pause {
    pub(super) length: Length,
    pub(super) unit_us: u64,
}

#[derive(Debug)]
pub(super) enum Length {
    Fixed(i64),
    Variable(u32),
}

/// Where a parameter's value comes from.
#[derive(Clone, Copy, Debug)]
pub(super) struct Binding {
    pub(super) slot: u32,
    /// The generator that fills the slot, when one does.
    pub(super) generator: Option<u32>,
}

/// A part of a text.
#[derive(Debug)]
pub(super) enum Fragment {
    Sql(String),
    /// A value as pgbench puts it into a text.
    Value(Binding),
    /// A value as an SQL literal, with quotes where it needs them.
    Literal(Binding),
}

/// The variables that a row sets.
#[derive(Clone, Debug)]
pub(super) struct Stored {
    pub(super) slots: Box<[u32]>,
    /// Whether there must be exactly one row (`\gset`); otherwise the last one counts, if there is any (`\aset`).
    pub(super) required: bool,
}
