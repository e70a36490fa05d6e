//! What a client does and when: its operations in order, and the moment when the next one is due.
//!
//! Pure functions of what happened before: no clock is read here, so that every schedule can be tested without one.

use std::sync::Arc;

/// One operation: the name under which it is recorded, and what the driver is asked.
#[derive(Debug)]
pub struct Operation<R> {
    /// Name in the log; operations with the same label are one type.
    pub label: String,
    /// What the driver runs.
    pub request: R,
}

/// One client of a closed loop: it waits for each answer, thinks, and goes on with its next operation.
#[derive(Debug)]
pub struct Stream<R> {
    /// Its operations in order.
    pub operations: Vec<Arc<Operation<R>>>,
    /// Whether it starts again after the last one.
    pub repeat: bool,
    /// Seconds between an answer and the next operation.
    pub think_s: f64,
}

impl<R> Clone for Stream<R> {
    fn clone(&self) -> Self {
        Self { operations: self.operations.clone(), repeat: self.repeat, think_s: self.think_s }
    }
}

/// A stream's place in its operations.
#[derive(Debug)]
pub(crate) struct Cursor<R> {
    stream: Stream<R>,
    labels: Vec<u32>,
    next: usize,
}

impl<R> Cursor<R> {
    /// `labels` are the label indexes of the stream's operations.
    pub(crate) fn new(stream: Stream<R>, labels: Vec<u32>) -> Self {
        Self { stream, labels, next: 0 }
    }

    /// The label index and the operation to run now; `None` once the stream is finished.
    pub(crate) fn current(&self) -> Option<(u32, Arc<Operation<R>>)> {
        let operation = self.stream.operations.get(self.next)?;
        Some((self.labels[self.next], Arc::clone(operation)))
    }

    /// Goes on behind the current operation, from the start again when the stream repeats.
    pub(crate) fn advance(&mut self) {
        self.next += 1;
        if self.next >= self.stream.operations.len() && self.stream.repeat {
            self.next = 0;
        }
    }

    /// When the operation after one that ended at `end_s` is due.
    pub(crate) fn due_s(&self, end_s: f64) -> f64 {
        end_s + self.stream.think_s
    }
}

/// The labels of all streams in order of their first use, and for each stream the indexes of its operations' labels.
pub(crate) fn index_labels<R>(streams: &[Stream<R>]) -> (Vec<String>, Vec<Vec<u32>>) {
    let mut labels: Vec<String> = Vec::new();
    let mut known = std::collections::HashMap::new();
    let indexes = streams
        .iter()
        .map(|stream| {
            let index_of = |operation: &Arc<Operation<R>>| {
                *known.entry(operation.label.clone()).or_insert_with(|| {
                    labels.push(operation.label.clone());
                    labels.len() as u32 - 1
                })
            };
            stream.operations.iter().map(index_of).collect()
        })
        .collect();
    (labels, indexes)
}

/// Waiting times before each attempt to reconnect: doubling, bounded, starting again after a success.
#[derive(Debug)]
pub(crate) struct Backoff {
    next_s: f64,
}

impl Backoff {
    const FIRST_S: f64 = 0.05;
    const LONGEST_S: f64 = 1.0;

    pub(crate) fn new() -> Self {
        Self { next_s: Self::FIRST_S }
    }

    /// Seconds to wait before the next attempt.
    pub(crate) fn wait_s(&mut self) -> f64 {
        let wait_s = self.next_s;
        self.next_s = (2.0 * wait_s).min(Self::LONGEST_S);
        wait_s
    }

    /// Called after a success of the operation itself: a server that accepts and then drops does not reset it.
    pub(crate) fn reset(&mut self) {
        self.next_s = Self::FIRST_S;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stream(labels: &[&str], repeat: bool) -> Stream<()> {
        let operation = |label: &&str| Arc::new(Operation { label: (*label).to_owned(), request: () });
        Stream { operations: labels.iter().map(operation).collect(), repeat, think_s: 0.5 }
    }

    fn walk(repeat: bool, n: usize) -> Vec<String> {
        let stream = stream(&["a", "b"], repeat);
        let (_, mut indexes) = index_labels(std::slice::from_ref(&stream));
        let mut cursor = Cursor::new(stream, indexes.remove(0));
        let mut seen = Vec::new();
        while let Some((_, operation)) = cursor.current()
            && seen.len() < n
        {
            seen.push(operation.label.clone());
            cursor.advance();
        }
        seen
    }

    #[test]
    fn a_stream_runs_its_operations_in_order() {
        assert_eq!(walk(true, 5), ["a", "b", "a", "b", "a"]);
        assert_eq!(walk(false, 5), ["a", "b"]);
    }

    #[test]
    fn thinking_starts_at_the_answer() {
        let cursor = Cursor::new(stream(&["a"], true), vec![0]);
        assert_eq!(cursor.due_s(2.0), 2.5);
    }

    #[test]
    fn labels_are_shared_between_streams() {
        let (labels, indexes) = index_labels(&[stream(&["x", "y", "x"], true), stream(&["z", "y"], true)]);
        assert_eq!(labels, ["x", "y", "z"]);
        assert_eq!(indexes, [vec![0, 1, 0], vec![2, 1]]);
    }

    #[test]
    fn back_off_doubles_to_a_bound_and_starts_again() {
        let mut backoff = Backoff::new();
        let waits: Vec<f64> = (0..7).map(|_| backoff.wait_s()).collect();
        assert_eq!(waits, [0.05, 0.1, 0.2, 0.4, 0.8, 1.0, 1.0]);
        backoff.reset();
        assert_eq!(backoff.wait_s(), 0.05);
    }
}
