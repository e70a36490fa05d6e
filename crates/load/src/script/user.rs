//! One user that runs scripts.

use std::sync::Arc;
use std::time::Duration;

use super::compiled::Compiled;
use super::expression::State;
use super::own::{User, fill};
use super::program::{Binding, Fragment, Length, Pause, Step as ProgramStep, Stored};
use super::statement::Effect;
use super::value::{Scalar, Slot};
use crate::driver::{ErrorClass, Failure};
use crate::random::Random;
use crate::source::{Source, Step};
use crate::sql::{Dialect, Expect, Sql, SqlAnswer, SqlCommand, SqlRequest};
use crate::weights::pick;

/// One user of a run.
pub(super) struct ScriptSource {
    shared: Arc<Compiled>,
    run: Run,
}

/// What is a user's own: variables, random stream, and where it is. What is shared is passed to its methods, so that no
/// count of references is touched on the way of an operation.
struct Run {
    state: State,
    user: User,
    program: usize,
    /// The step that comes next.
    next: usize,
    /// The step whose row is awaited.
    awaited: Option<usize>,
    in_transaction: bool,
    failure: Option<String>,
    start: Start,
}

/// What a transaction started with: what [`Source::rewind`] goes back to.
struct Start {
    slots: Vec<Slot>,
    rng: Random,
    counters: Vec<i64>,
}

/// A step's statement, ready in the request.
struct Sent<'a> {
    stored: Option<&'a Stored>,
    effect: Effect,
}

impl ScriptSource {
    pub(super) fn new(shared: Arc<Compiled>, state: State, user: User) -> Self {
        let start = Start { slots: state.slots.clone(), rng: state.rng, counters: user.counters.clone() };
        let (in_transaction, awaited, failure) = (false, None, None);
        let run = Run { state, user, program: 0, next: 0, awaited, in_transaction, failure, start };
        Self { shared, run }
    }
}

impl Run {
    fn restart(&mut self) {
        self.next = 0;
        self.awaited = None;
        self.in_transaction = false;
        self.failure = None;
    }

    /// The next step, or why the transaction fails.
    fn advance(&mut self, shared: &Compiled, request: &mut SqlRequest) -> Result<Step, String> {
        if let Some(failure) = self.failure.take() {
            return Err(failure);
        }
        let steps = &shared.programs[self.program].steps;
        while let Some(step) = steps.get(self.next) {
            let here = self.next;
            self.next += 1;
            match step {
                ProgramStep::Set(slot, expression) => {
                    self.state.slots[*slot as usize].value = expression.evaluate(&mut self.state)?;
                }
                ProgramStep::Unless(condition, target) => {
                    if !condition.evaluate(&mut self.state)?.is_true() {
                        self.next = *target;
                    }
                }
                ProgramStep::Jump(target) => self.next = *target,
                ProgramStep::Sleep(pause) => return self.pause(pause).map(Step::Sleep),
                _ => {
                    let sent = self.send(shared, step, request)?;
                    self.await_answer(here, &sent, request);
                    return Ok(Step::Request);
                }
            }
        }
        if self.in_transaction {
            return Err("the script ended inside a transaction: BEGIN without COMMIT, END or ROLLBACK".to_owned());
        }
        Ok(Step::End)
    }

    fn await_answer(&mut self, here: usize, sent: &Sent<'_>, request: &mut SqlRequest) {
        match sent.effect {
            Effect::Opens => self.in_transaction = true,
            Effect::Closes => self.in_transaction = false,
            Effect::Nothing => {}
        }
        self.awaited = sent.stored.map(|_| here);
        request.wants_row = sent.stored.is_some();
        // As pgbench: \gset takes the only row, \aset the last one of however many there are.
        let is_only = sent.stored.is_some_and(|stored| stored.required);
        request.keeps_last = !is_only;
        request.expect = Expect { rows: is_only.then_some((1, 1)), ..Expect::default() };
    }

    fn pause(&self, pause: &Pause) -> Result<Duration, String> {
        let length = match pause.length {
            Length::Fixed(length) => length,
            Length::Variable(slot) => match self.state.slots[slot as usize].operand()? {
                Scalar::Unset => return Err("\\sleep: the variable is not set".to_owned()),
                value => value.to_int()?,
            },
        };
        // A negative time is none, as in pgbench.
        Ok(Duration::from_micros((length.max(0) as u64).saturating_mul(pause.unit_us)))
    }

    /// Puts a step's statement into the request.
    fn send<'s>(
        &mut self,
        shared: &Compiled,
        step: &'s ProgramStep,
        request: &mut SqlRequest,
    ) -> Result<Sent<'s>, String> {
        request.params.clear();
        let plain = |effect| Sent { stored: None, effect };
        let (command, sent) = match step {
            ProgramStep::Begin => (SqlCommand::Begin, plain(Effect::Opens)),
            ProgramStep::Commit => (SqlCommand::Commit, plain(Effect::Closes)),
            ProgramStep::Rollback => (SqlCommand::Rollback, plain(Effect::Closes)),
            ProgramStep::Prepared(number, bindings, stored) => {
                for binding in bindings {
                    self.value(shared, *binding)?.push(&mut request.params, shared.dialect);
                }
                (SqlCommand::Prepared(*number), Sent { stored: stored.as_ref(), effect: Effect::Nothing })
            }
            ProgramStep::Fixed(text, effect, stored) => {
                (SqlCommand::Text(Arc::clone(text)), Sent { stored: stored.as_ref(), effect: *effect })
            }
            ProgramStep::Written(fragments, effect, stored) => {
                let text = self.text(shared, fragments)?;
                (SqlCommand::Text(text.into()), Sent { stored: stored.as_ref(), effect: *effect })
            }
            _ => unreachable!("the other steps send nothing"),
        };
        request.command = command;
        Ok(sent)
    }

    fn value(&mut self, shared: &Compiled, binding: Binding) -> Result<&Slot, String> {
        if let Some(generator) = binding.generator {
            fill(&shared.generators, generator, binding.slot, &mut self.state, &mut self.user);
        }
        match &self.state.slots[binding.slot as usize] {
            Slot { value: Scalar::Unset, .. } => Err("a statement uses a variable before it is set".to_owned()),
            slot => Ok(slot),
        }
    }

    fn text(&mut self, shared: &Compiled, fragments: &[Fragment]) -> Result<String, String> {
        let mut text = String::new();
        for fragment in fragments {
            match fragment {
                Fragment::Sql(sql) => text.push_str(sql),
                Fragment::Value(binding) => self.value(shared, *binding)?.write(&mut text),
                Fragment::Literal(binding) => {
                    let dialect: Dialect = shared.dialect;
                    self.value(shared, *binding)?.write_literal(&mut text, dialect);
                }
            }
        }
        Ok(text)
    }

    /// Sets the variables that a row names.
    fn store(&mut self, stored: &Stored, answer: &SqlAnswer) {
        let wanted = stored.slots.len();
        match answer.has_row().then(|| answer.columns()) {
            Some(row) if row.len() == wanted => {
                for (slot, column) in stored.slots.iter().zip(row) {
                    let slot = &mut self.state.slots[*slot as usize];
                    match column {
                        Some(text) => slot.set_text(text),
                        None => slot.value = Scalar::Null,
                    }
                }
            }
            Some(row) => {
                self.failure = Some(format!("\\gset: {} columns came back, the statement names {wanted}", row.len()));
            }
            None if stored.required => self.failure = Some("\\gset: no row came back".to_owned()),
            None => {}
        }
    }
}

impl Source<Sql> for ScriptSource {
    fn begin(&mut self) -> Option<u32> {
        let Self { shared, run } = self;
        run.program = match &shared.cumulative[..] {
            [_] => 0,
            cumulative => pick(cumulative, &mut run.state.rng),
        };
        let own = &shared.programs[run.program].own;
        for slot in &mut run.state.slots[own.start as usize..own.end as usize] {
            slot.value = Scalar::Unset;
        }
        run.start.slots.clone_from(&run.state.slots);
        run.start.counters.clone_from(&run.user.counters);
        run.start.rng = run.state.rng;
        run.restart();
        Some(run.program as u32)
    }

    fn step(&mut self, request: &mut SqlRequest) -> Step {
        self.run.advance(&self.shared, request).unwrap_or_else(|failure| {
            self.run.failure = Some(failure);
            Step::Fail
        })
    }

    fn failure(&mut self) -> Failure {
        Failure::without_code(ErrorClass::Statement, self.run.failure.take().unwrap_or_default())
    }

    fn answer(&mut self, answer: &SqlAnswer) {
        let Some(awaited) = self.run.awaited.take() else { return };
        let step = &self.shared.programs[self.run.program].steps[awaited];
        let (ProgramStep::Prepared(.., Some(stored))
        | ProgramStep::Fixed(.., Some(stored))
        | ProgramStep::Written(.., Some(stored))) = step
        else {
            return;
        };
        self.run.store(stored, answer);
    }

    fn rewind(&mut self) {
        let run = &mut self.run;
        run.state.slots.clone_from(&run.start.slots);
        run.user.counters.clone_from(&run.start.counters);
        run.state.rng = run.start.rng;
        run.restart();
    }
}
