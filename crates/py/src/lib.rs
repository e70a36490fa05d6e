//! The Python module `trimtab._native`: the load engine and the histogram, without a thought of their own.

use pyo3::prelude::*;

mod browser;
mod columns;
mod driver;
mod histogram;
mod http;
mod load;
mod log;
mod model;
mod scripts;
mod source;
mod ycsb;

/// The load engine and the HDR histogram.
#[pymodule(gil_used = true)]
mod _native {
    use pyo3::prelude::*;

    #[pymodule_export]
    use crate::browser::Site;
    #[pymodule_export]
    use crate::driver::{Cql, CqlConsole, Mongodb, Mysql, Postgres, WiredTiger};
    #[pymodule_export]
    use crate::histogram::Histogram;
    #[pymodule_export]
    use crate::http::{Http, Page, Pages};
    #[pymodule_export]
    use crate::load::Load;
    #[pymodule_export]
    use crate::log::{Buckets, Frame, Rows, RunLog, Seconds};
    #[pymodule_export]
    use crate::model::Model;
    #[pymodule_export]
    use crate::scripts::{Script, Scripts, Statement, read_statements};
    #[pymodule_export]
    use crate::source::{Operation, Stream, Streams};
    #[pymodule_export]
    use crate::ycsb::{Ycsb, YcsbRows};

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__build__", option_env!("TRIMTAB_BUILD").unwrap_or("source"))?;
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}

/// A year stands for "no limit": the timers go to about two.
const LONGEST_S: f64 = 31_536_000.0;

fn seconds(name: &str, value_s: f64) -> PyResult<std::time::Duration> {
    if value_s >= 0.0 {
        Ok(std::time::Duration::from_secs_f64(value_s.min(LONGEST_S)))
    } else {
        Err(pyo3::exceptions::PyValueError::new_err(format!("{name}={value_s} is not a time in seconds")))
    }
}
