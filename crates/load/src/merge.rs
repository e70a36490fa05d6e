//! Puts the workers' parts together again: frames for those who watch, one log for those who judge.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use crate::counts;
use crate::cpu::Priority;
use crate::log::{ErrorCounts, Frame, Group, Log, MAX_ERRORS, Percentiles, Row, Second, What};
use crate::recorder::{Batch, Durations, Part, seconds};

#[derive(Debug, Default)]
struct Worker {
    /// How many seconds of the run are over for it.
    n_seconds: u32,
    now_ns: u64,
    memory_bytes: usize,
    is_gone: bool,
    priority: Priority,
    /// Of each second; `None` where the system does not say.
    waits_s: Option<Vec<f64>>,
}

/// A second that is not a frame yet.
#[derive(Debug)]
struct Pending {
    part: Part,
    response: BTreeMap<u16, u64>,
    lateness: BTreeMap<u16, u64>,
    wakeup: BTreeMap<u16, u64>,
}

/// Everything that the workers handed over so far.
#[derive(Debug)]
pub(crate) struct Merge {
    labels: Arc<[String]>,
    workers: Vec<Worker>,
    rows: Vec<Row>,
    errors: Vec<(u64, String)>,
    error_counts: ErrorCounts,
    groups: Vec<Group>,
    seconds: Vec<Second>,
    pending: BTreeMap<u32, Pending>,
    /// Per label, of all seconds that became frames.
    durations: Vec<Durations>,
    next_second: u32,
    frames: VecDeque<Frame>,
}

impl Merge {
    pub(crate) fn new(n_workers: usize, labels: Arc<[String]>) -> Self {
        Self {
            workers: (0..n_workers).map(|_| Worker::default()).collect(),
            rows: Vec::new(),
            errors: Vec::new(),
            error_counts: ErrorCounts::default(),
            groups: Vec::new(),
            seconds: Vec::new(),
            pending: BTreeMap::new(),
            durations: vec![Durations::default(); labels.len()],
            next_second: 0,
            frames: VecDeque::new(),
            labels,
        }
    }

    /// Takes what a worker recorded since its last batch.
    pub(crate) fn absorb(&mut self, worker: usize, batch: Batch) {
        let book = &mut self.workers[worker];
        book.n_seconds = batch.n_seconds;
        book.now_ns = batch.now_ns;
        book.memory_bytes = batch.memory_bytes;
        book.priority = batch.priority;
        book.wait(&batch);
        self.rows.extend(batch.rows);
        self.errors.extend(batch.errors);
        self.error_counts.merge(&batch.error_counts);
        for part in &batch.parts {
            self.second(part.second).add(part);
            self.pending(part.second).part.merge(part);
        }
        for (second, share) in batch.credits {
            self.second(second).credited += share;
        }
        for group in &batch.groups {
            let pending = self.pending(group.second);
            let merged = match group.what {
                What::Response => &mut pending.response,
                What::Lateness => &mut pending.lateness,
                What::WakeUp => &mut pending.wakeup,
                _ => continue,
            };
            for (index, count) in counts::decode(&group.counts) {
                *merged.entry(index).or_default() += u64::from(count);
            }
        }
        self.groups.extend(batch.groups);
        self.complete_frames();
    }

    /// The worker will hand over nothing more.
    pub(crate) fn leave(&mut self, worker: usize) {
        self.workers[worker].is_gone = true;
        self.complete_frames();
    }

    pub(crate) fn is_gone(&self, worker: usize) -> bool {
        self.workers[worker].is_gone
    }

    pub(crate) fn is_done(&self) -> bool {
        self.workers.iter().all(|worker| worker.is_gone)
    }

    pub(crate) fn next_frame(&mut self) -> Option<Frame> {
        self.frames.pop_front()
    }

    /// Everything so far, ordered by the operations' ends.
    pub(crate) fn log(&mut self) -> Log {
        self.rows.sort_by(|a, b| a.end_s.total_cmp(&b.end_s).then(a.user.cmp(&b.user)));
        self.errors.sort_by_key(|error| error.0);
        self.errors.truncate(MAX_ERRORS);
        let duration_s = seconds(self.workers.iter().map(|worker| worker.now_ns).max().unwrap_or(0));
        Log {
            labels: self.labels.to_vec(),
            rows: self.rows.clone(),
            waits_s: self.waits_until(self.n_seconds(duration_s)),
            priority: self.workers.iter().map(|worker| worker.priority).min().unwrap_or_default(),
            seconds: self.seconds[..self.n_seconds(duration_s)].to_vec(),
            errors: self.errors.iter().map(|(_, text)| text.clone()).collect(),
            error_counts: self.error_counts.clone(),
            duration_s,
            client_cpu_s: self.seconds.iter().map(|second| second.client_cpu_s).sum(),
            memory_bytes: self.memory_bytes(),
            is_done: self.is_done(),
            groups: self.groups.clone(),
        }
    }

    /// Without the empty second that begins at the run's very end.
    fn n_seconds(&self, duration_s: f64) -> usize {
        let is_used = |second: &Second| second.offered + second.n_ok + second.n_error + second.n_timed_out > 0;
        let n_used = self.seconds.iter().rposition(is_used).map_or(0, |last| last + 1);
        n_used.max(duration_s.ceil() as usize).min(self.seconds.len())
    }

    /// One row of `n` seconds for each worker; none when that of one is not known.
    fn waits_until(&self, n: usize) -> Vec<Vec<f64>> {
        let row = |worker: &Worker| {
            let mut waits_s = worker.waits_s.clone()?;
            waits_s.resize(n, 0.0);
            Some(waits_s)
        };
        self.workers.iter().map(row).collect::<Option<_>>().unwrap_or_default()
    }

    /// That of the worker which waited longest.
    fn longest_wait_s(&self, second: u32) -> Option<f64> {
        let wait_s = |worker: &Worker| Some(worker.waits_s.as_ref()?.get(second as usize).copied().unwrap_or(0.0));
        self.workers.iter().filter_map(wait_s).reduce(f64::max)
    }

    fn memory_bytes(&self) -> usize {
        let workers: usize = self.workers.iter().map(|worker| worker.memory_bytes).sum();
        let groups: usize = self.groups.iter().map(|group| group.counts.len()).sum();
        workers
            + groups
            + self.groups.capacity() * size_of::<Group>()
            + self.rows.capacity() * size_of::<Row>()
            + self.seconds.capacity() * size_of::<Second>()
    }

    fn second(&mut self, second: u32) -> &mut Second {
        let i = second as usize;
        if self.seconds.len() <= i {
            self.seconds.resize(i + 1, Second::default());
        }
        &mut self.seconds[i]
    }

    fn pending(&mut self, second: u32) -> &mut Pending {
        let n_labels = self.labels.len();
        self.pending.entry(second).or_insert_with(|| Pending {
            part: Part::new(second, n_labels),
            response: BTreeMap::new(),
            lateness: BTreeMap::new(),
            wakeup: BTreeMap::new(),
        })
    }

    /// A second is a frame once every worker has passed it or is gone, and at least one has passed it.
    fn complete_frames(&mut self) {
        let second = |worker: &Worker| worker.n_seconds;
        while self.workers.iter().all(|worker| worker.is_gone || second(worker) > self.next_second)
            && self.workers.iter().any(|worker| second(worker) > self.next_second)
            && let Some(pending) = self.pending.remove(&self.next_second)
        {
            self.next_second += 1;
            for (all, &new) in self.durations.iter_mut().zip(&pending.part.succeeded) {
                all.add(new);
            }
            let frame = self.frame(&pending);
            self.frames.push_back(frame);
        }
    }

    fn frame(&self, Pending { part, response, lateness, wakeup }: &Pending) -> Frame {
        let share = |&(label, elapsed_s): &(u32, f64)| {
            let expected_s = self.durations[label as usize].mean_s().max(elapsed_s);
            if expected_s > 0.0 { elapsed_s.min(1.0) / expected_s } else { 0.0 }
        };
        let [p50, p95, p99] = [0.50, 0.95, 0.99].map(|quantile| value_at(response, quantile));
        Frame {
            second: part.second,
            n_ok: part.n_ok,
            n_error: part.n_error,
            n_timed_out: part.n_timed_out,
            n_shed: part.shed,
            credited: part.credit + part.running.iter().map(share).sum::<f64>(),
            response_us: Percentiles { p50, p95, p99 },
            lateness_p99_us: value_at(lateness, 0.99),
            wakeup_p99_us: value_at(wakeup, 0.99),
            wait_s: self.longest_wait_s(part.second),
            backlog: part.backlog,
            client_cpu_s: part.client_cpu_s,
            steal_s: part.steal_s,
            response: pairs(response),
            lateness: pairs(lateness),
            wakeup: pairs(wakeup),
        }
    }
}

impl Worker {
    fn wait(&mut self, batch: &Batch) {
        if !batch.knows_waits {
            return;
        }
        let waits_s = self.waits_s.get_or_insert_default();
        for part in &batch.parts {
            let i = part.second as usize;
            waits_s.resize(waits_s.len().max(i + 1), 0.0);
            waits_s[i] += part.wait_s;
        }
    }
}

impl Second {
    fn add(&mut self, part: &Part) {
        self.offered += part.offered;
        self.shed += part.shed;
        self.n_ok += part.n_ok;
        self.n_error += part.n_error;
        self.n_timed_out += part.n_timed_out;
        self.credited += part.credit;
        self.client_cpu_s += part.client_cpu_s;
        self.steal_s += part.steal_s;
    }
}

fn pairs(counts: &BTreeMap<u16, u64>) -> Vec<(u64, u64)> {
    counts.iter().map(|(&index, &count)| (counts::whole_value_of(index), count)).collect()
}

/// The smallest value that `quantile` of all do not exceed; 0 without any.
fn value_at(counts: &BTreeMap<u16, u64>, quantile: f64) -> u64 {
    let n: u64 = counts.values().sum();
    let rank = ((quantile * n as f64).ceil() as u64).max(1);
    let mut n_below = 0;
    for (&index, &count) in counts {
        n_below += count;
        if n_below >= rank {
            return counts::whole_value_of(index);
        }
    }
    0
}

#[cfg(test)]
mod tests;
