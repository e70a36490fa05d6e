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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recorder::{Ending, Recorder};

    /// A small generator of our own, so that every run of the test is the same.
    struct Dice(u64);

    impl Dice {
        fn below(&mut self, n: u64) -> u64 {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (self.0 >> 33) % n
        }
    }

    fn labels() -> Arc<[String]> {
        vec!["a".to_owned(), "b".to_owned(), "c".to_owned()].into()
    }

    /// Plays the same operations on `n_workers` workers and merges them, in batches of the worker's own rhythm.
    fn played(seed: u64, n_workers: usize, n_streams: usize) -> (Vec<Frame>, Log) {
        let mut merge = Merge::new(n_workers, labels());
        let streams_of = |worker: usize| (worker..n_streams).step_by(n_workers).map(|stream| stream as u32);
        let mut recorders: Vec<Recorder> =
            (0..n_workers).map(|worker| Recorder::new(&streams_of(worker).collect::<Vec<_>>(), labels())).collect();
        let mut busy: Vec<bool> = vec![false; n_streams];
        let (mut dice, mut now_s) = (Dice(seed), 0.0);
        for step in 0..4_000 {
            now_s += dice.below(5_000) as f64 * 1e-6;
            let stream = dice.below(n_streams as u64) as usize;
            let (label, fate, rows) = (dice.below(3) as u32, dice.below(8), dice.below(9));
            let (worker, slot) = (stream % n_workers, stream / n_workers);
            let recorder = &mut recorders[worker];
            let ending = if fate == 0 { Err(Ending::Failed(format!("error {step}"))) } else { Ok(rows) };
            busy[stream] = !busy[stream];
            if !busy[stream] {
                recorder.finish(slot, now_s, ending);
            } else {
                recorder.begin(slot, label, now_s);
            }
            if dice.below(50) == 0 {
                recorder.roll(now_s);
                merge.absorb(worker, Batch { now_s, cpu_s: 0.5, ..recorder.drain() });
            }
        }
        for (worker, recorder) in recorders.iter_mut().enumerate() {
            recorder.close(now_s);
            merge.absorb(worker, Batch { now_s, cpu_s: 0.5, ..recorder.drain() });
            merge.leave(worker);
        }
        (std::iter::from_fn(|| merge.next_frame()).collect(), merge.log())
    }

    #[test]
    fn merging_parts_equals_the_whole() {
        for seed in 0..20 {
            let (whole_frames, whole) = played(seed, 1, 12);
            assert!(whole_frames.len() >= 8, "{}", whole_frames.len());
            for n_workers in [2, 3, 5] {
                let (frames, log) = played(seed, n_workers, 12);
                assert_eq!(log.rows, whole.rows);
                assert_eq!(log.errors, whole.errors);
                assert_eq!(frames.len(), whole_frames.len());
                for (frame, expected) in frames.iter().zip(&whole_frames) {
                    assert_eq!((frame.second, frame.n_ok), (expected.second, expected.n_ok));
                    assert_eq!(frame.n_error, expected.n_error);
                    assert!((frame.credited - expected.credited).abs() < 1e-9, "{frame:?} {expected:?}");
                }
            }
        }
    }

    #[test]
    fn a_frame_waits_for_the_slowest_worker_and_not_for_one_that_left() {
        let mut merge = Merge::new(3, labels());
        let mut recorders: Vec<Recorder> = (0..3).map(|stream| Recorder::new(&[stream], labels())).collect();
        for (recorder, end_s) in recorders.iter_mut().zip([0.5, 0.6, 0.7]) {
            recorder.begin(0, 0, 0.25);
            recorder.finish(0, end_s, Ok(1));
        }
        recorders[0].close(0.75);
        merge.absorb(0, recorders[0].drain());
        merge.leave(0);
        recorders[1].roll(2.0);
        merge.absorb(1, recorders[1].drain());
        assert_eq!(merge.next_frame(), None);
        recorders[2].roll(1.0);
        merge.absorb(2, recorders[2].drain());
        let frame = merge.next_frame().expect("all have passed the first second or left");
        assert_eq!((frame.second, frame.n_ok, frame.credited), (0, 3, 3.0));
        assert_eq!(merge.next_frame(), None);
        assert!(!merge.is_done());
    }

    #[test]
    fn running_operations_count_by_what_their_label_takes() {
        let mut merge = Merge::new(1, labels());
        let mut recorder = Recorder::new(&[0, 1], labels());
        recorder.begin(0, 0, 0.0);
        recorder.finish(0, 0.8, Ok(1));
        recorder.begin(0, 0, 0.8);
        recorder.begin(1, 1, 0.9);
        recorder.roll(2.0);
        merge.absorb(0, recorder.drain());
        let credited: Vec<f64> = std::iter::from_fn(|| merge.next_frame()).map(|frame| frame.credited).collect();
        let expected = [1.0 + 0.2 / 0.8 + 0.1 / 0.1, 1.0 / 1.2 + 1.0 / 1.1];
        for (credited, expected) in credited.iter().zip(expected) {
            assert!((credited - expected).abs() < 1e-9, "{credited} {expected}");
        }
    }
}
