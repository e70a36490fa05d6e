//! Operations that are known beforehand: every user has a list of its own and goes through it in order.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use crate::protocol::Protocol;
use crate::source::{Source, Sources, SqlSources, Step};
use crate::sql::{Expect, SqlCommand, SqlRequest};

/// Something that a request can be made of, again and again.
pub trait Fill<R>: Clone + Send + Sync + 'static {
    /// Writes all fields of `request`.
    fn fill(&self, request: &mut R);
}

impl Fill<SqlRequest> for SqlCommand {
    fn fill(&self, request: &mut SqlRequest) {
        request.command = self.clone();
        request.params.clear();
        request.expect = Expect::default();
        request.wants_row = false;
    }
}

/// One operation: the name under which it is recorded, and its steps.
#[derive(Debug)]
pub struct Operation<C> {
    /// Name in the log; operations with the same label are one type.
    pub label: String,
    /// What is asked, one after the other.
    pub commands: Vec<C>,
}

/// What one user does.
#[derive(Clone, Debug)]
pub struct Stream<C> {
    /// Its operations in order.
    pub operations: Vec<Arc<Operation<C>>>,
    /// Whether it starts again after the last one.
    pub repeat: bool,
    /// Pause between an answer and the next operation (closed loop).
    pub think: Duration,
}

/// One stream per user.
#[derive(Debug)]
pub struct FixedSources<C> {
    streams: Vec<Labelled<C>>,
    labels: Vec<String>,
}

/// A stream with the label indexes of its operations.
#[derive(Clone, Debug)]
struct Labelled<C> {
    stream: Arc<Stream<C>>,
    labels: Arc<[u32]>,
}

impl<C> FixedSources<C> {
    /// # Errors
    /// A text naming the stream that has no operations.
    pub fn new(streams: Vec<Stream<C>>) -> Result<Self, String> {
        if streams.is_empty() {
            return Err("streams: a load needs at least one".to_owned());
        }
        if let Some(i) = streams.iter().position(|stream| stream.operations.is_empty()) {
            return Err(format!("streams: stream {i} has no operations"));
        }
        let mut labels: Vec<String> = Vec::new();
        let mut known: HashMap<String, u32> = HashMap::new();
        let mut index_of = |operation: &Arc<Operation<C>>| {
            *known.entry(operation.label.clone()).or_insert_with(|| {
                labels.push(operation.label.clone());
                labels.len() as u32 - 1
            })
        };
        let indexed = |stream: Stream<C>| {
            let labels = stream.operations.iter().map(&mut index_of).collect();
            Labelled { stream: Arc::new(stream), labels }
        };
        let streams = streams.into_iter().map(indexed).collect();
        Ok(Self { streams, labels })
    }
}

impl<P: Protocol, C: Fill<P::Request>> Sources<P> for FixedSources<C> {
    fn labels(&self) -> Vec<String> {
        self.labels.clone()
    }

    fn source(&self, user: u32, _seed: u64) -> Box<dyn Source<P>> {
        let Labelled { stream, labels } = &self.streams[user as usize % self.streams.len()];
        Box::new(FixedSource { stream: Arc::clone(stream), labels: Arc::clone(labels), next: 0, current: 0, step: 0 })
    }

    fn n_users(&self) -> Option<u32> {
        Some(self.streams.len() as u32)
    }
}

impl SqlSources for FixedSources<SqlCommand> {
    fn statements(&self) -> Vec<String> {
        Vec::new()
    }
}

/// A user's place in its stream.
struct FixedSource<C> {
    stream: Arc<Stream<C>>,
    labels: Arc<[u32]>,
    next: usize,
    current: usize,
    step: usize,
}

impl<P: Protocol, C: Fill<P::Request>> Source<P> for FixedSource<C> {
    fn begin(&mut self) -> Option<u32> {
        let n = self.stream.operations.len();
        if self.next >= n && self.stream.repeat {
            self.next = 0;
        }
        let label = *self.labels.get(self.next)?;
        (self.current, self.step) = (self.next, 0);
        self.next += 1;
        Some(label)
    }

    fn step(&mut self, request: &mut P::Request) -> Step {
        let Some(command) = self.stream.operations[self.current].commands.get(self.step) else {
            return Step::End;
        };
        self.step += 1;
        command.fill(request);
        Step::Request
    }

    fn rewind(&mut self) {
        self.step = 0;
    }

    fn think(&mut self) -> Duration {
        self.stream.think
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    enum Numbers {}

    impl Protocol for Numbers {
        type Request = u32;
        type Answer = ();
    }

    impl Fill<u32> for u32 {
        fn fill(&self, request: &mut u32) {
            *request = *self;
        }
    }

    fn stream(operations: &[(&str, &[u32])], repeat: bool) -> Stream<u32> {
        let operation = |&(label, commands): &(&str, &[u32])| {
            Arc::new(Operation { label: label.to_owned(), commands: commands.to_vec() })
        };
        let think = Duration::from_millis(5);
        Stream { operations: operations.iter().map(operation).collect(), repeat, think }
    }

    /// (label, requests) of the next operation.
    fn walked(source: &mut Box<dyn Source<Numbers>>) -> Option<(u32, Vec<u32>)> {
        let label = source.begin()?;
        let (mut request, mut requests) = (0, Vec::new());
        while source.step(&mut request) == Step::Request {
            requests.push(request);
        }
        source.end(true);
        Some((label, requests))
    }

    fn sources(streams: Vec<Stream<u32>>) -> FixedSources<u32> {
        FixedSources::new(streams).expect("legal streams")
    }

    #[test]
    fn a_stream_runs_its_operations_in_order() {
        for (repeat, third) in [(true, Some((0, vec![1, 2]))), (false, None)] {
            let mut source: Box<dyn Source<Numbers>> =
                sources(vec![stream(&[("a", &[1, 2]), ("b", &[3])], repeat)]).source(0, 1);
            assert_eq!(walked(&mut source), Some((0, vec![1, 2])));
            assert_eq!(walked(&mut source), Some((1, vec![3])));
            assert_eq!(walked(&mut source), third);
            assert_eq!(source.think(), Duration::from_millis(5));
        }
    }

    #[test]
    fn rewinding_takes_the_steps_again() {
        let mut source: Box<dyn Source<Numbers>> =
            sources(vec![stream(&[("a", &[1, 2]), ("b", &[3])], false)]).source(0, 1);
        let mut request = 0;
        source.begin();
        assert_eq!((source.step(&mut request), request), (Step::Request, 1));
        source.rewind();
        assert_eq!((source.step(&mut request), request), (Step::Request, 1));
        assert_eq!((source.step(&mut request), request), (Step::Request, 2));
        assert_eq!(source.step(&mut request), Step::End);
    }

    #[test]
    fn labels_are_shared_between_streams() {
        let sources =
            sources(vec![stream(&[("x", &[1]), ("y", &[1])], true), stream(&[("z", &[1]), ("y", &[1])], true)]);
        assert_eq!(sources.labels, ["x", "y", "z"]);
        let mut second: Box<dyn Source<Numbers>> = sources.source(1, 1);
        assert_eq!((second.begin(), second.begin()), (Some(2), Some(1)));
        assert_eq!(Sources::<Numbers>::n_users(&sources), Some(2));
    }

    #[test]
    fn streams_without_operations_are_refused() {
        let refused = |streams: Vec<Stream<u32>>| FixedSources::new(streams).expect_err("nothing to do");
        assert_eq!(refused(vec![]), "streams: a load needs at least one");
        let text = refused(vec![stream(&[("a", &[1])], true), stream(&[], true)]);
        assert_eq!(text, "streams: stream 1 has no operations");
    }
}
