//! The Python module `trimtab._native`: the load engine and the histogram, without a thought of their own.

use pyo3::prelude::*;

mod histogram;
mod log;
mod sql;

/// The load engine and the HDR histogram.
#[pymodule(gil_used = true)]
mod _native {
    use pyo3::prelude::*;

    #[pymodule_export]
    use crate::histogram::Histogram;
    #[pymodule_export]
    use crate::log::{Columns, Frame};
    #[pymodule_export]
    use crate::sql::{Operation, SqlLoad, Stream};

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
