//! Scripts ready to run: all that the users of a run share.

use super::names::Names;
use super::own::Drawn;
use super::program::Program;
use crate::sql::Dialect;

/// All that the users of a run share.
#[derive(Debug)]
pub(super) struct Compiled {
    pub(super) dialect: Dialect,
    pub(super) programs: Vec<Program>,
    /// The share of each program and all before it.
    pub(super) cumulative: Box<[f64]>,
    pub(super) generators: Vec<Drawn>,
    pub(super) names: Names,
    pub(super) statements: Vec<String>,
    pub(super) n_counters: u32,
    pub(super) users: u32,
}
