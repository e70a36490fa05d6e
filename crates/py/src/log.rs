//! What a run recorded, as numpy reads it.

use pyo3::prelude::*;
use pyo3::types::PyBytes;
use trimtab_load::log::{Log, Row};

/// One second of a run.
#[pyclass(module = "trimtab._native", frozen, get_all)]
pub(crate) struct Frame {
    second: u32,
    n_ok: u64,
    n_error: u64,
    credited: f64,
}

impl From<trimtab_load::log::Frame> for Frame {
    fn from(frame: trimtab_load::log::Frame) -> Self {
        let trimtab_load::log::Frame { second, n_ok, n_error, credited } = frame;
        Self { second, n_ok, n_error, credited }
    }
}

#[pymethods]
impl Frame {
    fn __repr__(&self) -> String {
        let Self { second, n_ok, n_error, credited } = self;
        format!("Frame(second={second}, n_ok={n_ok}, n_error={n_error}, credited={credited})")
    }
}

/// The log as little-endian columns (int32, int32, float64, float64, int64, uint8) for numpy.frombuffer.
#[pyclass(module = "trimtab._native", frozen, get_all)]
pub(crate) struct Columns {
    labels: Vec<String>,
    stream: Py<PyBytes>,
    label: Py<PyBytes>,
    start_s: Py<PyBytes>,
    end_s: Py<PyBytes>,
    rows: Py<PyBytes>,
    outcome: Py<PyBytes>,
    errors: Vec<String>,
    duration_s: f64,
    client_cpu_s: f64,
    is_done: bool,
}

impl Columns {
    pub(crate) fn new(py: Python<'_>, log: Log) -> PyResult<Self> {
        let rows = &log.rows;
        Ok(Self {
            stream: column(py, rows, |row| row.stream.to_le_bytes())?,
            label: column(py, rows, |row| row.label.to_le_bytes())?,
            start_s: column(py, rows, |row| row.start_s.to_le_bytes())?,
            end_s: column(py, rows, |row| row.end_s.to_le_bytes())?,
            rows: column(py, rows, |row| row.rows.to_le_bytes())?,
            outcome: column(py, rows, |row| [row.outcome as u8])?,
            labels: log.labels,
            errors: log.errors,
            duration_s: log.duration_s,
            client_cpu_s: log.client_cpu_s,
            is_done: log.is_done,
        })
    }
}

fn column<const N: usize>(py: Python<'_>, rows: &[Row], bytes: impl Fn(&Row) -> [u8; N]) -> PyResult<Py<PyBytes>> {
    let fill = |buffer: &mut [u8]| {
        for (place, row) in buffer.chunks_exact_mut(N).zip(rows) {
            place.copy_from_slice(&bytes(row));
        }
        Ok(())
    };
    PyBytes::new_with(py, rows.len() * N, fill).map(Bound::unbind)
}
