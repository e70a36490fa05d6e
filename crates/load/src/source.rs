//! Where operations come from: a [`Sources`] makes one [`Source`] per user, on the thread that runs the user.

use std::time::Duration;

use crate::driver::{ErrorClass, Failure};
use crate::protocol::Protocol;
use crate::sql::Sql;

/// Makes the sources of all users of a run. Shared by all workers.
pub trait Sources<P: Protocol>: Send + Sync + 'static {
    /// Names of all operation types; a source speaks of them by index.
    fn labels(&self) -> Vec<String>;

    /// The source of user number `user`, made on the thread that runs it. `seed` is the run's: users differ by their
    /// numbers, and the same seed gives the same operations.
    fn source(&self, user: u32, seed: u64) -> Box<dyn Source<P>>;

    /// How many users there must be, when that is not free to choose.
    fn n_users(&self) -> Option<u32> {
        None
    }

    /// Whether users connect with their first requests, as people do, and not before the run.
    fn connects_late(&self) -> bool {
        false
    }

    /// Whether users do what is due at moments of their own also in a closed loop, so that a late generator is not their doing.
    fn keeps_time(&self) -> bool {
        false
    }
}

/// Sources whose statements the driver prepares on every connection before the run.
pub trait SqlSources: Sources<Sql> {
    /// The texts that [`crate::sql::SqlCommand::Prepared`] counts, with placeholders in the server's dialect.
    fn statements(&self) -> Vec<String>;
}

/// What one user does: operations (transactions), each of one or more steps.
///
/// The engine calls `begin`, then `step` until it says `End` or `Fail`, handing each request's answer to `answer`; then `end`.
/// After a failure that may be retried it calls `rewind` and takes the steps again; after another one it calls `end`.
pub trait Source<P: Protocol> {
    /// How long after the run's start the user comes, in a closed loop: users who all come at once ask in step for long.
    fn delay(&mut self) -> Duration {
        Duration::ZERO
    }

    /// Chooses the next operation and gives its label; `None` when the user has nothing more to do.
    fn begin(&mut self) -> Option<u32>;

    /// The next step of the operation; fills in `request` when it says `Request` (all of its fields: the buffer is that of
    /// an earlier step).
    fn step(&mut self, request: &mut P::Request) -> Step;

    /// Why the last step was `Fail`.
    fn failure(&mut self) -> Failure {
        Failure::without_code(ErrorClass::Other, "the operation cannot go on")
    }

    /// What came back for the request of the last step.
    fn answer(&mut self, _answer: &P::Answer) {}

    /// Goes back to the first step of the same operation, with the same random choices.
    fn rewind(&mut self);

    /// The operation is over.
    fn end(&mut self, _is_ok: bool) {}

    /// Whether the next operation belongs to what the user is at: also in an open loop it then comes after the user's thinking
    /// and not by the schedule, whose operations are only those with which users begin something.
    fn is_engaged(&self) -> bool {
        false
    }

    /// How long the user thinks now, before its next operation, in a closed loop; beside what the load model says.
    fn think(&mut self) -> Duration {
        Duration::ZERO
    }
}

/// What a user does next within an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Send the request.
    Request,
    /// Wait (`\sleep`); counts as part of the operation.
    Sleep(Duration),
    /// The operation is complete.
    End,
    /// The operation has failed on this side (a division by zero in `\set`); `failure` says why.
    Fail,
}
