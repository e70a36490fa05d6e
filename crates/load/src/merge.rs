//! Puts the workers' parts together again: frames for those who watch, one log for those who judge.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use crate::log::{Frame, Log, MAX_ERRORS, Row};
use crate::recorder::{Batch, Durations, Part};

#[derive(Debug, Default)]
struct Worker {
    /// How many whole seconds it has handed over.
    n_seconds: u32,
    now_s: f64,
    cpu_s: f64,
    open_part: Option<Part>,
    is_gone: bool,
}

/// Everything that the workers handed over so far.
#[derive(Debug)]
pub(crate) struct Merge {
    labels: Arc<[String]>,
    workers: Vec<Worker>,
    rows: Vec<Row>,
    errors: Vec<(f64, String)>,
    parts: BTreeMap<u32, Part>,
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
            parts: BTreeMap::new(),
            durations: vec![Durations::default(); labels.len()],
            next_second: 0,
            frames: VecDeque::new(),
            labels,
        }
    }

    /// Takes what a worker recorded since its last batch.
    pub(crate) fn absorb(&mut self, worker: usize, batch: Batch) {
        let book = &mut self.workers[worker];
        book.n_seconds += batch.parts.len() as u32;
        book.now_s = batch.now_s;
        book.cpu_s = batch.cpu_s;
        book.open_part = Some(batch.open_part);
        self.rows.extend(batch.rows);
        self.errors.extend(batch.errors);
        for part in &batch.parts {
            self.add_part(part);
        }
        self.complete_frames();
    }

    /// The worker will hand over nothing more: its unfinished second counts in the frame of those who go on.
    pub(crate) fn leave(&mut self, worker: usize) {
        self.workers[worker].is_gone = true;
        if let Some(part) = self.workers[worker].open_part.take() {
            self.add_part(&part);
        }
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
        self.rows.sort_by(|a, b| a.end_s.total_cmp(&b.end_s).then(a.stream.cmp(&b.stream)));
        self.errors.sort_by(|a, b| a.0.total_cmp(&b.0));
        self.errors.truncate(MAX_ERRORS);
        Log {
            labels: self.labels.to_vec(),
            rows: self.rows.clone(),
            errors: self.errors.iter().map(|(_, text)| text.clone()).collect(),
            duration_s: self.workers.iter().map(|worker| worker.now_s).fold(0.0, f64::max),
            client_cpu_s: self.workers.iter().map(|worker| worker.cpu_s).sum(),
            is_done: self.is_done(),
        }
    }

    fn add_part(&mut self, part: &Part) {
        let n_labels = self.labels.len();
        self.parts.entry(part.second).or_insert_with(|| Part::new(part.second, n_labels)).merge(part);
    }

    /// A second is a frame once every worker has passed it or is gone, and at least one has passed it.
    fn complete_frames(&mut self) {
        let second = |worker: &Worker| worker.n_seconds;
        while self.workers.iter().all(|worker| worker.is_gone || second(worker) > self.next_second)
            && self.workers.iter().any(|worker| second(worker) > self.next_second)
            && let Some(part) = self.parts.remove(&self.next_second)
        {
            self.next_second += 1;
            for (all, &new) in self.durations.iter_mut().zip(&part.succeeded) {
                all.add(new);
            }
            let frame = self.frame(&part);
            self.frames.push_back(frame);
        }
    }

    fn frame(&self, part: &Part) -> Frame {
        let share = |&(label, elapsed_s): &(u32, f64)| {
            let expected_s = self.durations[label as usize].mean_s().max(elapsed_s);
            if expected_s > 0.0 { elapsed_s.min(1.0) / expected_s } else { 0.0 }
        };
        let credited = part.credit + part.running.iter().map(share).sum::<f64>();
        Frame { second: part.second, n_ok: part.n_ok, n_error: part.n_error, credited }
    }
}
