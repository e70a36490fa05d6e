//! What a run recorded, as numpy reads it.

use std::collections::BTreeMap;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use trimtab_load::engine::{Plan, Share};
use trimtab_load::log;
use trimtab_load::log::What;

use crate::columns::column;

/// One second of a run.
#[pyclass(module = "trimtab._native", frozen, get_all)]
pub(crate) struct Frame {
    second: u32,
    n_ok: u64,
    n_error: u64,
    n_timed_out: u64,
    n_shed: u64,
    credited: f64,
    response_p50_us: u64,
    response_p95_us: u64,
    response_p99_us: u64,
    lateness_p99_us: u64,
    wakeup_p99_us: u64,
    wait_s: Option<f64>,
    backlog: u64,
    client_cpu_s: f64,
    steal_s: f64,
    response: Vec<(u64, u64)>,
    lateness: Vec<(u64, u64)>,
    wakeup: Vec<(u64, u64)>,
}

impl From<log::Frame> for Frame {
    fn from(frame: log::Frame) -> Self {
        Self {
            second: frame.second,
            n_ok: frame.n_ok,
            n_error: frame.n_error,
            n_timed_out: frame.n_timed_out,
            n_shed: frame.n_shed,
            credited: frame.credited,
            response_p50_us: frame.response_us.p50,
            response_p95_us: frame.response_us.p95,
            response_p99_us: frame.response_us.p99,
            lateness_p99_us: frame.lateness_p99_us,
            wakeup_p99_us: frame.wakeup_p99_us,
            wait_s: frame.wait_s,
            backlog: frame.backlog,
            client_cpu_s: frame.client_cpu_s,
            steal_s: frame.steal_s,
            response: frame.response,
            lateness: frame.lateness,
            wakeup: frame.wakeup,
        }
    }
}

#[pymethods]
impl Frame {
    fn __repr__(&self) -> String {
        let Self { second, n_ok, n_error, credited, response_p99_us, .. } = self;
        format!(
            "Frame(second={second}, n_ok={n_ok}, n_error={n_error}, credited={credited}, response_p99_us={response_p99_us})"
        )
    }
}

/// Everything that a run recorded so far.
#[pyclass(module = "trimtab._native", frozen)]
pub(crate) struct RunLog {
    log: log::Log,
    n_threads: usize,
    users: u32,
    is_open: bool,
}

impl RunLog {
    pub(crate) fn new(log: log::Log, plan: &Plan, share: Share) -> Self {
        let (users, is_open) = (share.n_users(plan.n_users), plan.model.is_open());
        Self { log, n_threads: share.n_threads, users, is_open }
    }
}

#[pymethods]
impl RunLog {
    #[getter]
    fn labels(&self) -> Vec<String> {
        self.log.labels.clone()
    }

    #[getter]
    fn duration_s(&self) -> f64 {
        self.log.duration_s
    }

    #[getter]
    fn is_done(&self) -> bool {
        self.log.is_done
    }

    #[getter]
    fn errors(&self) -> Vec<String> {
        self.log.errors.clone()
    }

    #[getter]
    fn error_classes(&self) -> BTreeMap<String, u64> {
        self.log.error_counts.iter().collect()
    }

    #[getter]
    fn n_threads(&self) -> usize {
        self.n_threads
    }

    #[getter]
    fn users(&self) -> u32 {
        self.users
    }

    #[getter]
    fn is_open(&self) -> bool {
        self.is_open
    }

    #[getter]
    fn client_cpu_s(&self) -> f64 {
        self.log.client_cpu_s
    }

    #[getter]
    fn priority(&self) -> &'static str {
        self.log.priority.name()
    }

    #[getter]
    fn memory_bytes(&self) -> usize {
        self.log.memory_bytes
    }

    /// Every operation in order of its end; empty unless the load keeps rows.
    fn rows(&self, py: Python<'_>) -> PyResult<Rows> {
        let rows = &self.log.rows;
        Ok(Rows {
            stream: column(py, rows, |row| row.user.to_le_bytes())?,
            label: column(py, rows, |row| row.label.to_le_bytes())?,
            start_s: column(py, rows, |row| row.start_s.to_le_bytes())?,
            end_s: column(py, rows, |row| row.end_s.to_le_bytes())?,
            rows: column(py, rows, |row| row.rows.to_le_bytes())?,
            outcome: column(py, rows, |row| [row.outcome as u8])?,
        })
    }

    /// The kinds of histograms that there are.
    #[getter]
    fn histograms(&self) -> Vec<&'static str> {
        What::NAMES.to_vec()
    }

    /// The histograms of one kind, ordered by second, label and value.
    fn buckets(&self, py: Python<'_>, what: &str) -> PyResult<Buckets> {
        let unknown = || PyValueError::new_err(format!("what={what:?} is no histogram of a run"));
        let what = What::named(what).ok_or_else(unknown)?;
        let buckets = py.detach(|| self.log.buckets(what));
        Ok(Buckets {
            second: column(py, &buckets, |bucket| bucket.second.to_le_bytes())?,
            label: column(py, &buckets, |bucket| bucket.label.to_le_bytes())?,
            value_us: column(py, &buckets, |bucket| bucket.value.to_le_bytes())?,
            count: column(py, &buckets, |bucket| bucket.count.to_le_bytes())?,
        })
    }

    /// Totals of every second that has begun; the last one may be shorter.
    fn seconds(&self, py: Python<'_>) -> PyResult<Seconds> {
        let seconds = &self.log.seconds;
        Ok(Seconds {
            offered: column(py, seconds, |second| second.offered.to_le_bytes())?,
            shed: column(py, seconds, |second| second.shed.to_le_bytes())?,
            ok: column(py, seconds, |second| second.n_ok.to_le_bytes())?,
            error: column(py, seconds, |second| second.n_error.to_le_bytes())?,
            timed_out: column(py, seconds, |second| second.n_timed_out.to_le_bytes())?,
            credited: column(py, seconds, |second| second.credited.to_le_bytes())?,
            client_cpu_s: column(py, seconds, |second| second.client_cpu_s.to_le_bytes())?,
            steal_s: column(py, seconds, |second| second.steal_s.to_le_bytes())?,
            wait_s: column(py, &self.log.waits_s.concat(), |wait_s| wait_s.to_le_bytes())?,
        })
    }
}

/// Operations as little-endian columns (int32, int32, float64, float64, int64, uint8) for numpy.frombuffer.
#[pyclass(module = "trimtab._native", frozen, get_all)]
pub(crate) struct Rows {
    stream: Py<PyBytes>,
    label: Py<PyBytes>,
    start_s: Py<PyBytes>,
    end_s: Py<PyBytes>,
    rows: Py<PyBytes>,
    outcome: Py<PyBytes>,
}

/// Histograms as little-endian columns (int32, int32, float64, int64), one row per bucket.
#[pyclass(module = "trimtab._native", frozen, get_all)]
pub(crate) struct Buckets {
    second: Py<PyBytes>,
    label: Py<PyBytes>,
    value_us: Py<PyBytes>,
    count: Py<PyBytes>,
}

/// Totals per second as little-endian columns (int64; the last four float64). `wait_s` has a row for each thread, one after
/// the other, and is empty where the system does not say.
#[pyclass(module = "trimtab._native", frozen, get_all)]
pub(crate) struct Seconds {
    offered: Py<PyBytes>,
    shed: Py<PyBytes>,
    ok: Py<PyBytes>,
    error: Py<PyBytes>,
    timed_out: Py<PyBytes>,
    credited: Py<PyBytes>,
    client_cpu_s: Py<PyBytes>,
    steal_s: Py<PyBytes>,
    wait_s: Py<PyBytes>,
}
