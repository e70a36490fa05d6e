//! Languages of requests and answers.

/// What is said over a connection: drivers of one language serve the same sources.
///
/// Request and answer are buffers of the user that are reused from step to step, so that a step allocates nothing.
pub trait Protocol: 'static {
    /// What one step of an operation asks of the server.
    type Request: Default + Send + Sync + 'static;
    /// What came back for it, as far as the request asked for it.
    type Answer: Default + Send + 'static;
}
