//! Columns of numbers as numpy reads them.

use pyo3::prelude::*;
use pyo3::types::PyBytes;

/// One number of every row, little-endian.
pub(crate) fn column<T, const N: usize>(
    py: Python<'_>,
    rows: &[T],
    bytes: impl Fn(&T) -> [u8; N],
) -> PyResult<Py<PyBytes>> {
    let fill = |buffer: &mut [u8]| {
        for (place, row) in buffer.chunks_exact_mut(N).zip(rows) {
            place.copy_from_slice(&bytes(row));
        }
        Ok(())
    };
    PyBytes::new_with(py, rows.len() * N, fill).map(Bound::unbind)
}
