//! The load engine: drives users' operations against a server and records every one of them.
//!
//! Worker threads each run a current-thread runtime that owns its connections, its users' random numbers and its
//! [`log`]; nothing on the way of an operation is shared between threads. What the workers recorded is merged by the
//! [`engine`].

pub mod browser;
pub mod driver;
pub mod engine;
pub mod fixed;
pub mod histogram;
pub mod http;
pub mod log;
pub mod model;
pub mod pages;
pub mod pairs;
pub mod protocol;
pub mod random;
pub mod script;
pub mod source;
pub mod sql;
pub mod ycsb;

mod calendar;
mod counts;
mod cpu;
mod merge;
mod queue;
mod recorder;
mod room;
mod schedule;
mod timer;
mod user;
mod weights;
mod worker;

pub use cpu::Priority;
