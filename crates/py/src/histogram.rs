//! The histogram as Python sees it.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

/// HDR histogram of microseconds, 1 us to 1 hour, 3 significant digits; larger values are clamped and counted.
#[pyclass(module = "trimtab._native")]
#[derive(Default)]
pub(crate) struct Histogram {
    inner: trimtab_load::histogram::Histogram,
}

#[pymethods]
impl Histogram {
    #[new]
    fn new() -> Self {
        Self::default()
    }

    #[pyo3(signature = (value_us, count = 1))]
    fn record(&mut self, value_us: u64, count: u64) {
        self.inner.record(value_us, count);
    }

    fn record_all(&mut self, values_us: Vec<u64>) {
        for value_us in values_us {
            self.inner.record(value_us, 1);
        }
    }

    fn merge(slf: &Bound<'_, Self>, other: &Bound<'_, Self>) {
        // A copy, because `other` may be this very histogram.
        let other = other.borrow().inner.clone();
        slf.borrow_mut().inner.merge(&other);
    }

    /// The value that `percentile` per cent of the values do not exceed, in microseconds; 0 when empty.
    fn percentile(&self, percentile: f64) -> PyResult<u64> {
        if (0.0..=100.0).contains(&percentile) {
            Ok(self.inner.percentile(percentile))
        } else {
            Err(PyValueError::new_err(format!("percentile={percentile} is not between 0 and 100")))
        }
    }

    fn mean(&self) -> f64 {
        self.inner.mean()
    }

    fn max(&self) -> u64 {
        self.inner.max()
    }

    fn __len__(&self) -> usize {
        usize::try_from(self.inner.len()).unwrap_or(usize::MAX)
    }

    #[getter]
    fn clamped(&self) -> u64 {
        self.inner.n_clamped()
    }

    /// V2-deflate bytes.
    fn encode<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.inner.encode())
    }

    /// Raises ValueError for bytes that are no histogram.
    #[staticmethod]
    fn decode(data: &[u8]) -> PyResult<Self> {
        trimtab_load::histogram::Histogram::decode(data)
            .map(|inner| Self { inner })
            .map_err(|reason| PyValueError::new_err(format!("not an HDR histogram: {reason}")))
    }
}
