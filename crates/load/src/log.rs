//! What a run leaves behind: one row per operation, and the one-second frames.

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
    /// Index of the stream that ran it.
    pub stream: u32,
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

/// Everything that a run recorded so far.
#[derive(Clone, Debug)]
pub struct Log {
    /// Operation names; [`Row::label`] indexes into them.
    pub labels: Vec<String>,
    /// Operations ordered by their end.
    pub rows: Vec<Row>,
    /// Texts of the first errors, at most [`MAX_ERRORS`].
    pub errors: Vec<String>,
    /// Length of the run so far, in seconds.
    pub duration_s: f64,
    /// CPU seconds that the worker threads used.
    pub client_cpu_s: f64,
    /// Whether the run has ended.
    pub is_done: bool,
}

/// What one whole second of the run showed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Frame {
    /// The second's number, from 0.
    pub second: u32,
    /// Operations that succeeded within it.
    pub n_ok: u64,
    /// Operations that failed within it (time-outs and cancellations are no failures).
    pub n_error: u64,
    /// Successful operations, each by the share of its run inside the second; those still running are estimated.
    pub credited: f64,
}

/// How many error texts a run keeps.
pub const MAX_ERRORS: usize = 100;
