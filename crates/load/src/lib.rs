//! The load engine: drives streams of operations against a server and records every operation.
//!
//! Worker threads each run a current-thread runtime that owns its connections and its [`recorder`]; nothing on the way
//! of an operation is shared between threads. What the workers recorded is merged by the [`engine`].

pub mod driver;
pub mod engine;
pub mod histogram;
pub mod log;
pub mod recorder;
pub mod schedule;
pub mod script;
pub mod source;
pub mod sql;

mod cpu;
mod merge;
mod worker;
