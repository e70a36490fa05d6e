//! What a run leaves behind: histograms and totals per second, one-second frames, and rows for those who want them.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::counts;
use crate::cpu::Priority;
use crate::driver::Failure;

/// How one operation ended. The numbers are part of the Python interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Outcome {
    /// It succeeded.
    Ok = 0,
    /// The server or the connection failed it.
    Error = 1,
    /// It was cut off by its own time-out.
    TimedOut = 2,
    /// It was still running when the load stopped.
    Cancelled = 3,
}

/// One operation as it happened; times are seconds since the run's start.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Row {
    /// Number of the user who ran it.
    pub user: u32,
    /// Index into the labels of the run.
    pub label: u32,
    /// When it was sent.
    pub start_s: f64,
    /// When its last answer came, or when it was cut off.
    pub end_s: f64,
    /// Rows returned or touched.
    pub rows: u64,
    /// How it ended.
    pub outcome: Outcome,
}

/// What is counted in a histogram. Times are microseconds; an operation counts in the second of its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum What {
    /// From when an operation was due until its end; successes only.
    Response = 0,
    /// From its sending until its end; successes only.
    Service = 1,
    /// From when it was due until its end; failures and time-outs only.
    Error = 2,
    /// From when it was due until its sending, without the generator's own lateness; successes only.
    Queue = 3,
    /// The generator's own lateness: a user was free, and its timer woke late. Has label 0.
    Lateness = 4,
    /// How often a successful operation was tried; not a time.
    Attempts = 5,
    /// How late the generator's timer fired, whether or not anybody waited for it; at least 20 times a second. Has label 0.
    WakeUp = 6,
    /// Since its sending, of an operation that still ran when the run stopped.
    Unfinished = 7,
}

impl What {
    /// How many there are.
    pub(crate) const N: usize = 8;
    /// All of them; the position is the number.
    pub(crate) const ALL: [Self; Self::N] = [
        Self::Response,
        Self::Service,
        Self::Error,
        Self::Queue,
        Self::Lateness,
        Self::Attempts,
        Self::WakeUp,
        Self::Unfinished,
    ];

    /// The names that Python uses, in the order of `ALL`.
    pub const NAMES: [&str; 8] =
        ["response", "service", "error", "queue", "lateness", "attempts", "wakeup", "unfinished"];

    /// By the name that Python uses.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::NAMES.iter().position(|&known| known == name).map(|i| Self::ALL[i])
    }
}

/// Counts of one worker, second and label in the form of [`counts::Counts::take`].
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Group {
    pub(crate) what: What,
    pub(crate) second: u32,
    pub(crate) label: u32,
    pub(crate) counts: Arc<[u8]>,
}

/// One bucket of a histogram of one second and label.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bucket {
    /// The second, from 0.
    pub second: u32,
    /// Index into the labels of the run.
    pub label: u32,
    /// Stands for all values of the bucket: the middle one below half a millisecond, else the largest.
    pub value: f64,
    /// How many values were in it.
    pub count: u64,
}

/// Totals of one second; the run's last one may be shorter.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Second {
    /// Operations that fell due (open loop) or were sent (closed loop).
    pub offered: u64,
    /// Operations that were dropped because too many waited, or because they had waited too long.
    pub shed: u64,
    /// Successes that ended within it.
    pub n_ok: u64,
    /// Failures within it, failed attempts to reconnect among them.
    pub n_error: u64,
    /// Operations that were cut off within it.
    pub n_timed_out: u64,
    /// Successful operations, each by the share of its run inside the second.
    pub credited: f64,
    /// CPU seconds of all worker threads.
    pub client_cpu_s: f64,
    /// CPU seconds that the hypervisor took from this machine, all processors together.
    pub steal_s: f64,
}

/// How often each class of failure came; the engine's own time-outs are counted elsewhere.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ErrorCounts {
    plain: [u64; 14],
    /// By class those that the application has a word for.
    named: BTreeMap<(usize, Box<str>), u64>,
}

/// Failures with further words count as those without one.
const WORDS_MAX: usize = 64;

impl ErrorCounts {
    /// Names in the order of the classes' numbers.
    pub const NAMES: [&'static str; 14] = [
        "connect",
        "timeout",
        "serialization",
        "constraint",
        "read_only",
        "resource",
        "statement",
        "permission",
        "protocol",
        "http_4xx",
        "http_5xx",
        "validation",
        "other",
        "error_page",
    ];

    pub(crate) fn add(&mut self, failure: &Failure) {
        let class = failure.class as usize;
        match &failure.word {
            Some(word) => self.add_named((class, word.clone()), 1),
            None => self.plain[class] += 1,
        }
    }

    fn add_named(&mut self, name: (usize, Box<str>), count: u64) {
        if self.named.len() < WORDS_MAX || self.named.contains_key(&name) {
            *self.named.entry(name).or_default() += count;
        } else {
            self.plain[name.0] += count;
        }
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        for (mine, theirs) in self.plain.iter_mut().zip(other.plain) {
            *mine += theirs;
        }
        for (name, count) in &other.named {
            self.add_named(name.clone(), *count);
        }
    }

    /// (name, count) of those that came; behind the name of the class stands the application's word, where there is one.
    pub fn iter(&self) -> impl Iterator<Item = (String, u64)> {
        let plain = Self::NAMES.into_iter().zip(self.plain).map(|(name, count)| (name.to_owned(), count));
        let named = self.named.iter().map(|((class, word), count)| (format!("{} {word}", Self::NAMES[*class]), *count));
        plain.chain(named).filter(|&(_, count)| count > 0)
    }
}

/// Everything that a run recorded so far.
#[derive(Clone, Debug, Default)]
pub struct Log {
    /// Operation names; labels are indexes into them.
    pub labels: Vec<String>,
    /// Operations ordered by their end; empty unless rows are kept.
    pub rows: Vec<Row>,
    /// Totals of every second that has begun.
    pub seconds: Vec<Second>,
    /// Texts of the first errors, at most [`MAX_ERRORS`].
    pub errors: Vec<String>,
    /// Failures by class.
    pub error_counts: ErrorCounts,
    /// Length of the run so far, in seconds.
    pub duration_s: f64,
    /// CPU seconds that the worker threads used since the run's start.
    pub client_cpu_s: f64,
    /// Per worker thread and second: seconds that it was ready to run and had no core; empty where the system does not say.
    pub waits_s: Vec<Vec<f64>>,
    /// What every worker thread had at least.
    pub priority: Priority,
    /// Bytes that the engine's buffers and histograms hold.
    pub memory_bytes: usize,
    /// Whether the run has ended.
    pub is_done: bool,
    pub(crate) groups: Vec<Group>,
}

impl Log {
    /// The histograms of `what`, ordered by second, label and value.
    #[must_use]
    pub fn buckets(&self, what: What) -> Vec<Bucket> {
        let mut groups: Vec<&Group> = self.groups.iter().filter(|group| group.what == what).collect();
        groups.sort_by_key(|group| (group.second, group.label));
        let mut buckets = Vec::new();
        for same in groups.chunk_by(|a, b| (a.second, a.label) == (b.second, b.label)) {
            let mut merged: BTreeMap<u16, u64> = BTreeMap::new();
            for (index, count) in same.iter().flat_map(|group| counts::decode(&group.counts)) {
                *merged.entry(index).or_default() += u64::from(count);
            }
            let (second, label) = (same[0].second, same[0].label);
            let bucket = |(index, count)| Bucket { second, label, value: counts::value_of(index), count };
            buckets.extend(merged.into_iter().map(bucket));
        }
        buckets
    }
}

/// What one whole second of the run showed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Frame {
    /// The second's number, from 0.
    pub second: u32,
    /// Operations that succeeded within it.
    pub n_ok: u64,
    /// Operations that failed within it (time-outs and cancellations are counted elsewhere).
    pub n_error: u64,
    /// Operations that were cut off within it.
    pub n_timed_out: u64,
    /// Operations that were dropped unsent within it.
    pub n_shed: u64,
    /// Successful operations, each by the share of its run inside the second; those still running are estimated.
    pub credited: f64,
    /// Percentiles of the response times of the successes; 0 without any.
    pub response_us: Percentiles,
    /// 99th percentile of the generator's own lateness; 0 when no timer was waited for.
    pub lateness_p99_us: u64,
    /// 99th percentile of how late the generator's timer fired.
    pub wakeup_p99_us: u64,
    /// Seconds that the worker thread which waited longest was ready to run and had no core; `None` where the system does not say.
    pub wait_s: Option<f64>,
    /// Operations that waited for a free user at the second's end.
    pub backlog: u64,
    /// CPU seconds of all worker threads within it.
    pub client_cpu_s: f64,
    /// CPU seconds that the hypervisor took from this machine within it, all processors together.
    pub steal_s: f64,
    /// (microseconds, count) of the percentiles' histograms, in order, so that those of several processes can be added.
    pub response: Vec<(u64, u64)>,
    /// As `response`.
    pub lateness: Vec<(u64, u64)>,
    /// As `response`.
    pub wakeup: Vec<(u64, u64)>,
}

/// Percentiles in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Percentiles {
    /// The median.
    pub p50: u64,
    /// The 95th.
    pub p95: u64,
    /// The 99th.
    pub p99: u64,
}

/// How many error texts a run keeps.
pub const MAX_ERRORS: usize = 100;
