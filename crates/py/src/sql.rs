//! The closed-loop SQL load as Python sees it.
//!
//! Every wait lets other Python threads run, and comes back often enough for Ctrl-C to be heard.

use std::sync::Arc;
use std::time::{Duration, Instant};

use pyo3::exceptions::{PyConnectionError, PyOSError, PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use trimtab_load::driver::postgres::{Access, Postgres, SqlRequest};
use trimtab_load::engine::{Limits, Load, LoadError};
use trimtab_load::schedule;

use crate::log::{Columns, Frame};

/// Signals are looked for this often.
const SLICE: Duration = Duration::from_millis(50);

/// A cancelled operation may take this long to come back; then its connection is dropped.
const CANCEL_GRACE: Duration = Duration::from_secs(2);

/// One operation: its label, its statements, and whether they run in one transaction.
#[pyclass(module = "trimtab._native", frozen)]
pub(crate) struct Operation {
    inner: Arc<schedule::Operation<SqlRequest>>,
}

#[pymethods]
impl Operation {
    #[new]
    #[pyo3(signature = (label, statements, *, transaction = false))]
    fn new(label: String, statements: Vec<String>, transaction: bool) -> PyResult<Self> {
        if statements.is_empty() {
            return Err(PyValueError::new_err(format!("operation {label}: it has no statements")));
        }
        if statements.iter().any(|statement| statement.contains('\0')) {
            return Err(PyValueError::new_err(format!("operation {label}: a statement holds a NUL character")));
        }
        let request = SqlRequest { statements, in_transaction: transaction };
        Ok(Self { inner: Arc::new(schedule::Operation { label, request }) })
    }
}

/// One client: its operations in order, run again from the start when `repeat`, with a think time between.
#[pyclass(module = "trimtab._native", frozen)]
pub(crate) struct Stream {
    inner: schedule::Stream<SqlRequest>,
}

#[pymethods]
impl Stream {
    #[new]
    #[pyo3(signature = (operations, *, repeat = true, think_s = 0.0))]
    fn new(operations: Vec<Bound<'_, Operation>>, repeat: bool, think_s: f64) -> PyResult<Self> {
        let think_s = seconds("think_s", think_s)?.as_secs_f64();
        let operations = operations.iter().map(|operation| Arc::clone(&operation.get().inner)).collect();
        Ok(Self { inner: schedule::Stream { operations, repeat, think_s } })
    }
}

/// A closed-loop SQL load over the PostgreSQL protocol, running on threads of its own.
#[pyclass(module = "trimtab._native", frozen)]
pub(crate) struct SqlLoad {
    load: Load,
}

#[pymethods]
impl SqlLoad {
    #[new]
    #[pyo3(signature = (
        *,
        host,
        port,
        user,
        database,
        password,
        streams,
        duration_s,
        operation_timeout_s,
        connect_timeout_s = 10.0,
        threads = 1,
        application_name = "trimtab",
        settings = Vec::new(),
    ))]
    #[allow(clippy::too_many_arguments)]
    fn new(
        py: Python<'_>,
        host: String,
        port: u16,
        user: String,
        database: String,
        password: Option<String>,
        streams: Vec<Bound<'_, Stream>>,
        duration_s: f64,
        operation_timeout_s: f64,
        connect_timeout_s: f64,
        threads: usize,
        application_name: &str,
        settings: Vec<(String, String)>,
    ) -> PyResult<Self> {
        let limits = Limits {
            duration: seconds("duration_s", duration_s)?,
            operation_timeout: seconds("operation_timeout_s", operation_timeout_s)?,
            connect_timeout: seconds("connect_timeout_s", connect_timeout_s)?,
            cancel_grace: CANCEL_GRACE,
        };
        let application_name = application_name.to_owned();
        let access = Access { host, port, user, database, password, application_name, settings };
        let driver = Postgres::new(&access).map_err(PyValueError::new_err)?;
        let streams = streams.iter().map(|stream| stream.get().inner.clone()).collect();
        let launch = || Load::launch(&driver, streams, limits, threads);
        let load = Self { load: py.detach(launch).map_err(python_error)? };
        while !py.detach(|| load.load.wait_connected(SLICE)).map_err(python_error)? {
            py.check_signals()?;
        }
        Ok(load)
    }

    fn frame(&self, py: Python<'_>, timeout_s: f64) -> PyResult<Option<Frame>> {
        let deadline = Instant::now() + seconds("timeout_s", timeout_s)?;
        loop {
            let rest = deadline.saturating_duration_since(Instant::now());
            let frame = py.detach(|| self.load.next_frame(rest.min(SLICE)));
            let is_over = frame.is_some() || rest.is_zero() || py.detach(|| self.load.is_done());
            if is_over {
                // The last frame may have come between the two questions.
                let frame = frame.or_else(|| py.detach(|| self.load.next_frame(Duration::ZERO)));
                return Ok(frame.map(Frame::from));
            }
            py.check_signals()?;
        }
    }

    #[getter]
    fn is_done(&self, py: Python<'_>) -> bool {
        py.detach(|| self.load.is_done())
    }

    fn columns(&self, py: Python<'_>) -> PyResult<Columns> {
        let log = py.detach(|| self.load.log());
        Columns::new(py, log)
    }

    fn stop(&self, py: Python<'_>) -> PyResult<Columns> {
        let log = py.detach(|| self.load.stop()).map_err(python_error)?;
        Columns::new(py, log)
    }
}

fn python_error(error: LoadError) -> PyErr {
    let text = error.to_string();
    match error {
        LoadError::Invalid(_) => PyValueError::new_err(text),
        LoadError::Connect(_) => PyConnectionError::new_err(text),
        LoadError::System(_) => PyOSError::new_err(text),
        LoadError::Worker => PyRuntimeError::new_err(text),
    }
}

/// A year stands for "no limit": the timers go to about two.
const LONGEST_S: f64 = 31_536_000.0;

fn seconds(name: &str, value_s: f64) -> PyResult<Duration> {
    if value_s >= 0.0 {
        Ok(Duration::from_secs_f64(value_s.min(LONGEST_S)))
    } else {
        Err(PyValueError::new_err(format!("{name}={value_s} is not a time in seconds")))
    }
}
