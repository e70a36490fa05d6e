//! Each worker's own book: the operations that ended, in histograms and totals of one second.
//!
//! Time comes in as an argument (nanoseconds since the run's start) and never runs backwards. An operation that began and
//! ended in several seconds is credited to each of them by its share (the sampling problem of long analytical queries).

use std::sync::Arc;

use crate::counts::{Counts, index_of, index_of_time};
use crate::cpu::{self, Priority, RunQueue};
use crate::driver::Failure;
use crate::log::{ErrorCounts, Group, MAX_ERRORS, Outcome, Row, What};

const SECOND_NS: u64 = 1_000_000_000;

/// One worker's share of one second, or of a part of it: shares of the same second add up.
#[derive(Clone, Debug, Default)]
pub(crate) struct Part {
    pub(crate) second: u32,
    pub(crate) n_ok: u64,
    pub(crate) n_error: u64,
    pub(crate) n_timed_out: u64,
    pub(crate) offered: u64,
    pub(crate) shed: u64,
    /// Shares within this second of the operations that succeeded within it.
    pub(crate) credit: f64,
    pub(crate) client_cpu_s: f64,
    pub(crate) steal_s: f64,
    /// Seconds that the worker's thread was ready to run and had no core.
    pub(crate) wait_s: f64,
    /// Operations that waited for a free user at the second's end.
    pub(crate) backlog: u64,
    /// Per label: successes within this second and the sum of their durations.
    pub(crate) succeeded: Vec<Durations>,
    /// (label, elapsed seconds) of the operations still running at the second's end.
    pub(crate) running: Vec<(u32, f64)>,
}

/// A count of operations and the sum of their durations in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Durations {
    pub(crate) n: u64,
    pub(crate) sum_s: f64,
}

/// What a worker hands over: everything recorded since the last time.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    pub(crate) parts: Vec<Part>,
    /// How many of the run's seconds are over.
    pub(crate) n_seconds: u32,
    /// (second, share) that operations which ended later had in earlier seconds.
    pub(crate) credits: Vec<(u32, f64)>,
    pub(crate) groups: Vec<Group>,
    pub(crate) rows: Vec<Row>,
    /// (end, text) of failures.
    pub(crate) errors: Vec<(u64, String)>,
    pub(crate) error_counts: ErrorCounts,
    pub(crate) now_ns: u64,
    /// Bytes that the worker's own buffers hold.
    pub(crate) memory_bytes: usize,
    /// Whether the waits in `parts` are known.
    pub(crate) knows_waits: bool,
    pub(crate) priority: Priority,
}

/// What a recorder does beside its duty.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Extras {
    /// Keep a row of every operation.
    pub(crate) keeps_rows: bool,
    /// Read the machine's steal time every second: one worker does it for all.
    pub(crate) reads_steal: bool,
    /// The server's own work is done on this thread: what it uses and waits for says nothing of the load.
    pub(crate) works_here: bool,
    /// What the worker's thread has, for the log.
    pub(crate) priority: Priority,
}

/// A successful end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Success {
    pub(crate) rows: u64,
    pub(crate) tries: u32,
}

/// How an operation ended that did not succeed.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Ending<'a> {
    Failed(&'a Failure),
    TimedOut,
    Cancelled,
}

#[derive(Clone, Copy, Debug)]
struct Running {
    label: u32,
    sent_ns: u64,
}

#[derive(Debug)]
struct Slot {
    user: u32,
    running: Option<Running>,
}

/// Records what one worker's users do.
#[derive(Debug)]
pub(crate) struct Recorder {
    slots: Vec<Slot>,
    labels: Arc<[String]>,
    extras: Extras,
    /// `What::N` per label.
    counts: Vec<Counts>,
    open: Part,
    edge_ns: u64,
    batch: Batch,
    backlog: u64,
    cpu_s: f64,
    steal_s: f64,
    run_queue: RunQueue,
    wait_s: Option<f64>,
    n_errors_kept: usize,
    is_closed: bool,
}

impl Recorder {
    /// `users` are the run-wide numbers of this worker's users; a slot is an index into them. To be called on its thread.
    pub(crate) fn new(users: &[u32], labels: Arc<[String]>, extras: Extras) -> Self {
        let mut counts = Vec::new();
        counts.resize_with(labels.len().max(1) * What::N, Counts::default);
        let run_queue = if extras.works_here { RunQueue::default() } else { RunQueue::of_this_thread() };
        Self {
            slots: users.iter().map(|&user| Slot { user, running: None }).collect(),
            extras,
            counts,
            open: Part::new(0, labels.len()),
            labels,
            edge_ns: SECOND_NS,
            batch: Batch::default(),
            backlog: 0,
            cpu_s: cpu::thread_cpu_s(),
            steal_s: if extras.reads_steal { cpu::steal_s() } else { 0.0 },
            wait_s: run_queue.wait_s(),
            run_queue,
            n_errors_kept: 0,
            is_closed: false,
        }
    }

    /// An operation is sent now.
    pub(crate) fn begin(&mut self, slot: usize, label: u32, now_ns: u64) {
        self.roll(now_ns);
        if !self.is_closed {
            self.slots[slot].running = Some(Running { label, sent_ns: now_ns });
        }
    }

    /// The slot's operation, which was due at `due_ns`, ends now. Nothing happens after `close`, which has already
    /// cancelled it.
    pub(crate) fn finish(&mut self, slot: usize, due_ns: u64, now_ns: u64, result: Result<Success, Ending<'_>>) {
        self.roll(now_ns);
        if let Some(running) = self.slots[slot].running.take() {
            self.enter(slot, running, due_ns, now_ns, result);
        }
    }

    /// An operation that could not even be sent, since `start_ns`.
    pub(crate) fn fail(&mut self, slot: usize, label: u32, start_ns: u64, now_ns: u64, failure: &Failure) {
        self.roll(now_ns);
        if !self.is_closed {
            let running = Running { label, sent_ns: start_ns };
            self.enter(slot, running, start_ns, now_ns, Err(Ending::Failed(failure)));
        }
    }

    /// Our timer woke so late although a user was free.
    pub(crate) fn late(&mut self, lateness_ns: u64) {
        self.count(What::Lateness, 0, index_of_time(lateness_ns));
    }

    /// Our timer fired so late, whether or not anybody waited for it.
    pub(crate) fn woke(&mut self, delay_ns: u64) {
        self.count(What::WakeUp, 0, index_of_time(delay_ns));
    }

    /// So many operations fell due (open loop) or were sent (closed loop).
    pub(crate) fn offer(&mut self, n: u64) {
        self.open.offered += n;
    }

    /// So many operations were dropped unsent.
    pub(crate) fn shed(&mut self, n: u64) {
        self.open.shed += n;
    }

    /// So many operations wait for a free user.
    pub(crate) fn set_backlog(&mut self, n: usize) {
        self.backlog = n as u64;
    }

    /// Closes the seconds that are over.
    #[inline]
    pub(crate) fn roll(&mut self, now_ns: u64) {
        if now_ns >= self.edge_ns && !self.is_closed {
            self.close_seconds(now_ns);
        }
    }

    /// The run stops now: what is running is cancelled, and nothing is recorded any more.
    pub(crate) fn close(&mut self, now_ns: u64) {
        for slot in 0..self.slots.len() {
            self.finish(slot, now_ns, now_ns, Err(Ending::Cancelled));
        }
        self.roll(now_ns);
        self.flush();
        self.is_closed = true;
    }

    /// Takes out everything recorded since the last time.
    pub(crate) fn drain(&mut self) -> Batch {
        if !self.is_closed {
            self.flush();
        }
        let memory_bytes = self.memory_bytes();
        let (knows_waits, priority) = (self.wait_s.is_some(), self.extras.priority);
        let n_seconds = self.open.second;
        Batch { n_seconds, memory_bytes, knows_waits, priority, ..std::mem::take(&mut self.batch) }
    }

    fn memory_bytes(&self) -> usize {
        let counts = self.counts.iter().map(|counts| size_of::<Counts>() + counts.memory_bytes()).sum::<usize>();
        counts + self.slots.capacity() * size_of::<Slot>() + self.labels.len() * size_of::<Durations>()
    }

    fn close_seconds(&mut self, now_ns: u64) {
        let n_over = (now_ns - self.edge_ns) / SECOND_NS + 1;
        // The CPU time of seconds of which nothing was heard is shared among them.
        self.measure_machine();
        self.open.client_cpu_s /= n_over as f64;
        self.open.steal_s /= n_over as f64;
        self.open.wait_s /= n_over as f64;
        let Part { client_cpu_s, steal_s, wait_s, .. } = self.open;
        for _ in 0..n_over {
            let edge_ns = self.edge_ns;
            let elapsed = |running: Running| (running.label, seconds(edge_ns - running.sent_ns));
            self.open.running = self.slots.iter().filter_map(|slot| slot.running.map(elapsed)).collect();
            self.open.backlog = self.backlog;
            self.put_part(self.open.second + 1);
            self.edge_ns += SECOND_NS;
            (self.open.client_cpu_s, self.open.steal_s, self.open.wait_s) = (client_cpu_s, steal_s, wait_s);
        }
        (self.open.client_cpu_s, self.open.steal_s, self.open.wait_s) = (0.0, 0.0, 0.0);
    }

    /// Hands over what the open second has so far.
    fn flush(&mut self) {
        self.measure_machine();
        self.put_part(self.open.second);
    }

    /// Puts the open part and the counts into the batch; `second` is the next part's.
    fn put_part(&mut self, second: u32) {
        let part = std::mem::replace(&mut self.open, Part::new(second, self.labels.len()));
        for (i, counts) in self.counts.iter_mut().enumerate() {
            if let Some(counts) = counts.take() {
                let (label, what) = ((i / What::N) as u32, What::ALL[i % What::N]);
                self.batch.groups.push(Group { what, second: part.second, label, counts });
            }
        }
        self.batch.parts.push(part);
    }

    fn measure_machine(&mut self) {
        if !self.extras.works_here {
            let cpu_s = cpu::thread_cpu_s();
            self.open.client_cpu_s += cpu_s - std::mem::replace(&mut self.cpu_s, cpu_s);
        }
        if let Some(wait_s) = self.run_queue.wait_s() {
            self.open.wait_s += wait_s - self.wait_s.replace(wait_s).unwrap_or(wait_s);
        }
        if self.extras.reads_steal {
            let steal_s = cpu::steal_s();
            self.open.steal_s += steal_s - std::mem::replace(&mut self.steal_s, steal_s);
        }
    }

    fn enter(
        &mut self,
        slot: usize,
        Running { label, sent_ns }: Running,
        due_ns: u64,
        end_ns: u64,
        result: Result<Success, Ending<'_>>,
    ) {
        let response = index_of_time(end_ns - due_ns);
        let (rows, outcome) = match result {
            Ok(Success { rows, tries }) => {
                self.count(What::Response, label, response);
                self.count(What::Service, label, index_of_time(end_ns - sent_ns));
                self.count(What::Queue, label, index_of_time(sent_ns - due_ns));
                self.count(What::Attempts, label, index_of(u64::from(tries)));
                self.succeed(label, sent_ns, end_ns);
                (rows, Outcome::Ok)
            }
            Err(Ending::Cancelled) => {
                self.count(What::Unfinished, label, index_of_time(end_ns - sent_ns));
                (0, Outcome::Cancelled)
            }
            Err(Ending::TimedOut) => {
                self.open.n_timed_out += 1;
                self.count(What::Error, label, response);
                (0, Outcome::TimedOut)
            }
            Err(Ending::Failed(failure)) => {
                self.open.n_error += 1;
                self.batch.error_counts.add(failure);
                self.count(What::Error, label, response);
                self.keep_error(label, end_ns, failure);
                (0, Outcome::Error)
            }
        };
        if self.extras.keeps_rows {
            let (user, start_s, end_s) = (self.slots[slot].user, seconds(sent_ns), seconds(end_ns));
            self.batch.rows.push(Row { user, label, start_s, end_s, rows, outcome });
        }
    }

    fn count(&mut self, what: What, label: u32, bucket: u16) {
        if !self.is_closed {
            self.counts[label as usize * What::N + what as usize].record(bucket);
        }
    }

    fn succeed(&mut self, label: u32, sent_ns: u64, end_ns: u64) {
        let second_ns = self.edge_ns - SECOND_NS;
        self.open.n_ok += 1;
        self.open.succeeded[label as usize].add(Durations { n: 1, sum_s: seconds(end_ns - sent_ns) });
        if sent_ns >= second_ns {
            self.open.credit += 1.0;
            return;
        }
        let per_ns = 1.0 / (end_ns - sent_ns) as f64;
        self.open.credit += (end_ns - second_ns) as f64 * per_ns;
        let mut from_ns = sent_ns;
        while from_ns < second_ns {
            let second = from_ns / SECOND_NS;
            let until_ns = (second + 1) * SECOND_NS;
            self.batch.credits.push((second as u32, (until_ns - from_ns) as f64 * per_ns));
            from_ns = until_ns;
        }
    }

    fn keep_error(&mut self, label: u32, end_ns: u64, failure: &Failure) {
        if self.n_errors_kept < MAX_ERRORS {
            self.n_errors_kept += 1;
            self.batch.errors.push((end_ns, format!("{}: {failure}", self.labels[label as usize])));
        }
    }
}

impl Part {
    pub(crate) fn new(second: u32, n_labels: usize) -> Self {
        Self { second, succeeded: vec![Durations::default(); n_labels], ..Self::default() }
    }

    /// Adds another part of the same second.
    pub(crate) fn merge(&mut self, other: &Self) {
        self.n_ok += other.n_ok;
        self.n_error += other.n_error;
        self.n_timed_out += other.n_timed_out;
        self.offered += other.offered;
        self.shed += other.shed;
        self.credit += other.credit;
        self.client_cpu_s += other.client_cpu_s;
        self.steal_s += other.steal_s;
        self.wait_s += other.wait_s;
        self.backlog += other.backlog;
        self.running.extend_from_slice(&other.running);
        for (mine, &theirs) in self.succeeded.iter_mut().zip(&other.succeeded) {
            mine.add(theirs);
        }
    }
}

impl Durations {
    pub(crate) fn add(&mut self, other: Self) {
        self.n += other.n;
        self.sum_s += other.sum_s;
    }

    /// 0 when there were none.
    pub(crate) fn mean_s(self) -> f64 {
        if self.n == 0 { 0.0 } else { self.sum_s / self.n as f64 }
    }
}

pub(crate) fn seconds(ns: u64) -> f64 {
    ns as f64 * 1e-9
}

#[cfg(test)]
mod tests;
