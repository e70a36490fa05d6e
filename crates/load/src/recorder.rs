//! Each worker's own book: the operations that ended, and the parts of the one-second frames.
//!
//! Time comes in as an argument and never runs backwards. An operation that began and ended in several seconds is
//! credited to each of them by its share (the sampling problem of long analytical queries).

use crate::log::{MAX_ERRORS, Outcome, Row};

/// One worker's share of one second.
#[derive(Clone, Debug, Default)]
pub(crate) struct Part {
    pub(crate) second: u32,
    pub(crate) n_ok: u64,
    pub(crate) n_error: u64,
    /// Shares of the operations that succeeded within this second.
    pub(crate) credit: f64,
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
    /// The second that is not over yet.
    pub(crate) open_part: Part,
    pub(crate) rows: Vec<Row>,
    /// (end, text) of failures.
    pub(crate) errors: Vec<(f64, String)>,
    pub(crate) now_s: f64,
    pub(crate) cpu_s: f64,
}

#[derive(Clone, Copy, Debug)]
struct Running {
    label: u32,
    start_s: f64,
}

#[derive(Debug)]
struct Slot {
    stream: u32,
    running: Option<Running>,
}

/// Records what one worker's streams do.
#[derive(Debug)]
pub(crate) struct Recorder {
    slots: Vec<Slot>,
    labels: std::sync::Arc<[String]>,
    open: Part,
    batch: Batch,
    n_errors_kept: usize,
    is_closed: bool,
}

impl Recorder {
    /// `streams` are the run-wide numbers of this worker's streams; a slot is an index into them.
    pub(crate) fn new(streams: &[u32], labels: std::sync::Arc<[String]>) -> Self {
        let slots = streams.iter().map(|&stream| Slot { stream, running: None }).collect();
        let open = Part::new(0, labels.len());
        Self { slots, labels, open, batch: Batch::default(), n_errors_kept: 0, is_closed: false }
    }

    /// An operation starts now.
    pub(crate) fn begin(&mut self, slot: usize, label: u32, now_s: f64) {
        self.roll(now_s);
        if !self.is_closed {
            self.slots[slot].running = Some(Running { label, start_s: now_s });
        }
    }

    /// The slot's operation ends now. Nothing happens after `close`, which has already cancelled it.
    pub(crate) fn finish(&mut self, slot: usize, now_s: f64, result: Result<u64, Ending>) {
        self.roll(now_s);
        if let Some(Running { label, start_s }) = self.slots[slot].running.take() {
            self.enter(slot, label, start_s, now_s, result);
        }
    }

    /// An operation that could not even be sent, since `start_s`.
    pub(crate) fn fail(&mut self, slot: usize, label: u32, start_s: f64, now_s: f64, text: &str) {
        self.roll(now_s);
        if !self.is_closed {
            self.enter(slot, label, start_s, now_s, Err(Ending::Failed(text.to_owned())));
        }
    }

    /// Closes the seconds that are over.
    pub(crate) fn roll(&mut self, now_s: f64) {
        while !self.is_closed && now_s >= self.edge_s() {
            let edge_s = self.edge_s();
            let elapsed = |running: Running| (running.label, edge_s - running.start_s);
            self.open.running = self.slots.iter().filter_map(|slot| slot.running.map(elapsed)).collect();
            let next = Part::new(self.open.second + 1, self.labels.len());
            self.batch.parts.push(std::mem::replace(&mut self.open, next));
        }
    }

    /// The run stops now: what is running is cancelled, and nothing is recorded any more.
    pub(crate) fn close(&mut self, now_s: f64) {
        for slot in 0..self.slots.len() {
            self.finish(slot, now_s, Err(Ending::Cancelled));
        }
        self.roll(now_s);
        self.is_closed = true;
    }

    /// When the open second ends.
    pub(crate) fn edge_s(&self) -> f64 {
        f64::from(self.open.second) + 1.0
    }

    /// Takes out everything recorded since the last time.
    pub(crate) fn drain(&mut self) -> Batch {
        let batch = std::mem::take(&mut self.batch);
        Batch { open_part: self.open.clone(), ..batch }
    }

    fn enter(&mut self, slot: usize, label: u32, start_s: f64, end_s: f64, result: Result<u64, Ending>) {
        let (rows, outcome) = match result {
            Ok(rows) => {
                self.open.succeed(label, start_s, end_s);
                (rows, Outcome::Ok)
            }
            Err(Ending::TimedOut) => (0, Outcome::TimedOut),
            Err(Ending::Cancelled) => (0, Outcome::Cancelled),
            Err(Ending::Failed(text)) => {
                self.open.n_error += 1;
                self.keep_error(label, end_s, &text);
                (0, Outcome::Error)
            }
        };
        self.batch.rows.push(Row { stream: self.slots[slot].stream, label, start_s, end_s, rows, outcome });
    }

    fn keep_error(&mut self, label: u32, end_s: f64, text: &str) {
        if self.n_errors_kept < MAX_ERRORS {
            self.n_errors_kept += 1;
            self.batch.errors.push((end_s, format!("{}: {text}", self.labels[label as usize])));
        }
    }
}

/// How an operation ended that did not succeed.
#[derive(Clone, Debug)]
pub(crate) enum Ending {
    Failed(String),
    TimedOut,
    Cancelled,
}

impl Part {
    pub(crate) fn new(second: u32, n_labels: usize) -> Self {
        Self { second, succeeded: vec![Durations::default(); n_labels], ..Self::default() }
    }

    fn succeed(&mut self, label: u32, start_s: f64, end_s: f64) {
        let duration_s = end_s - start_s;
        let inside_s = end_s - start_s.max(f64::from(self.second));
        self.n_ok += 1;
        self.credit += if duration_s > 0.0 { inside_s / duration_s } else { 1.0 };
        self.succeeded[label as usize].add(Durations { n: 1, sum_s: duration_s });
    }

    /// Adds another worker's part of the same second.
    pub(crate) fn merge(&mut self, other: &Self) {
        self.n_ok += other.n_ok;
        self.n_error += other.n_error;
        self.credit += other.credit;
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

#[cfg(test)]
mod tests {
    use super::*;

    fn recorder(n_streams: u32) -> Recorder {
        let streams: Vec<u32> = (0..n_streams).collect();
        Recorder::new(&streams, vec!["q".to_owned()].into())
    }

    #[test]
    fn an_operation_is_credited_to_its_seconds_by_share() {
        let mut recorder = recorder(1);
        recorder.begin(0, 0, 0.5);
        recorder.finish(0, 2.5, Ok(7));
        recorder.roll(3.0);
        let batch = recorder.drain();
        assert_eq!(batch.parts.iter().map(|part| part.n_ok).collect::<Vec<_>>(), [0, 0, 1]);
        assert_eq!(batch.parts[0].running, [(0, 0.5)]);
        assert_eq!(batch.parts[1].running, [(0, 1.5)]);
        assert_eq!(batch.parts[2].running, []);
        assert_eq!(batch.parts[2].credit, 0.25);
        assert_eq!(batch.rows[0].rows, 7);
    }

    #[test]
    fn failures_and_cut_offs_earn_no_credit() {
        let mut recorder = recorder(1);
        for (start_s, ending) in [(0.0, Ending::Failed("42601 oops".to_owned())), (0.2, Ending::TimedOut)] {
            recorder.begin(0, 0, start_s);
            recorder.finish(0, start_s + 0.1, Err(ending));
        }
        recorder.roll(1.0);
        let batch = recorder.drain();
        assert_eq!((batch.parts[0].n_ok, batch.parts[0].n_error, batch.parts[0].credit), (0, 1, 0.0));
        assert_eq!(batch.errors, [(0.1, "q: 42601 oops".to_owned())]);
        let outcomes: Vec<_> = batch.rows.iter().map(|row| row.outcome).collect();
        assert_eq!(outcomes, [Outcome::Error, Outcome::TimedOut]);
    }

    #[test]
    fn closing_cancels_what_runs_and_nothing_is_recorded_after() {
        let mut recorder = recorder(2);
        recorder.begin(0, 0, 0.25);
        recorder.close(1.5);
        recorder.finish(0, 1.6, Ok(1));
        recorder.begin(1, 0, 1.7);
        recorder.roll(9.0);
        let batch = recorder.drain();
        assert_eq!(batch.rows.len(), 1);
        assert_eq!((batch.rows[0].end_s, batch.rows[0].outcome), (1.5, Outcome::Cancelled));
        assert_eq!(batch.parts.len(), 1);
        assert_eq!(batch.open_part.second, 1);
    }

    #[test]
    fn the_first_errors_are_kept_and_no_more() {
        let mut recorder = recorder(1);
        for i in 0..250 {
            recorder.fail(0, 0, 0.0, f64::from(i) * 1e-3, "refused");
            if i == 80 {
                assert_eq!(recorder.drain().errors.len(), 81);
            }
        }
        let batch = recorder.drain();
        assert_eq!(batch.errors.len(), MAX_ERRORS - 81);
        assert_eq!(batch.rows.len(), 250 - 81);
    }

    #[test]
    fn an_operation_without_length_counts_whole() {
        let mut recorder = recorder(1);
        recorder.begin(0, 0, 0.5);
        recorder.finish(0, 0.5, Ok(0));
        recorder.roll(1.0);
        assert_eq!(recorder.drain().parts[0].credit, 1.0);
    }
}
