//! What holds for all scripts of a run.

use crate::sql::Dialect;

/// How statements are sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// Prepared before the run, with parameters; what cannot be prepared goes as text.
    #[default]
    Prepared,
    /// As text with the values in it. For statements that cannot be prepared before the run, because they use tables that
    /// the script itself makes.
    Simple,
}

/// What holds for all scripts of a run.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The server's dialect.
    pub dialect: Dialect,
    /// How statements are sent.
    pub mode: Mode,
    /// Variables of pgbench scripts (`-D name=value`); `scale` is 1 and `default_seed` follows from the seed unless given.
    pub variables: Vec<(String, String)>,
    /// How many users the run has: unique serials take turns among so many.
    pub users: u32,
}
