//! The load as Python sees it.
//!
//! Every wait lets other Python threads run, and comes back often enough for Ctrl-C to be heard.

use std::sync::Arc;
use std::time::{Duration, Instant};

use pyo3::exceptions::{PyConnectionError, PyOSError, PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use trimtab_load::engine;
use trimtab_load::engine::{Limits, LoadError, Plan, Share};
use trimtab_load::source::{Sources, SqlSources};
use trimtab_load::sql::Sql;

use crate::driver::{Cql, Mongodb, Mysql, Postgres, WiredTiger};
use crate::http::Http;
use crate::log::{Frame, RunLog};
use crate::model::Model;
use crate::seconds;
use crate::source::{Asked, SourceArgument};

/// Signals are looked for this often.
const SLICE: Duration = Duration::from_millis(50);

/// A cancelled operation may take this long to come back; then its connection is dropped.
const CANCEL_GRACE: Duration = Duration::from_secs(2);

/// Any class that can be a load's `driver`.
#[derive(FromPyObject)]
enum DriverArgument<'py> {
    Postgres(Bound<'py, Postgres>),
    Mysql(Bound<'py, Mysql>),
    Cql(Bound<'py, Cql>),
    Http(Bound<'py, Http>),
    Mongodb(Bound<'py, Mongodb>),
    WiredTiger(Bound<'py, WiredTiger>),
}

/// A load that runs on threads of its own.
#[pyclass(module = "trimtab._native", frozen)]
pub(crate) struct Load {
    load: engine::Load,
    plan: Plan,
    share: Share,
}

#[pymethods]
impl Load {
    #[new]
    #[pyo3(signature = (
        *,
        driver,
        source,
        users = None,
        model = None,
        duration_s,
        operation_timeout_s,
        connect_timeout_s = 10.0,
        threads = 1,
        first_thread = 0,
        all_threads = None,
        is_held = false,
        seed = 0,
        keep_rows = false,
        max_tries = 1,
    ))]
    #[allow(clippy::too_many_arguments)]
    fn new(
        py: Python<'_>,
        driver: DriverArgument<'_>,
        source: SourceArgument<'_>,
        users: Option<u32>,
        model: Option<&Bound<'_, Model>>,
        duration_s: f64,
        operation_timeout_s: f64,
        connect_timeout_s: f64,
        threads: usize,
        first_thread: usize,
        all_threads: Option<usize>,
        is_held: bool,
        seed: u64,
        keep_rows: bool,
        max_tries: u32,
    ) -> PyResult<Self> {
        let limits = Limits {
            duration: seconds("duration_s", duration_s)?,
            operation_timeout: seconds("operation_timeout_s", operation_timeout_s)?,
            connect_timeout: seconds("connect_timeout_s", connect_timeout_s)?,
            cancel_grace: CANCEL_GRACE,
        };
        let asked = source.asked();
        let n_users = users.or_else(|| if let Asked::Sql(sources) = &asked { sources.n_users() } else { None });
        let n_users = n_users.ok_or_else(|| PyValueError::new_err("users: say how many there are"))?;
        let model = model.map_or_else(closed, |model| model.get().inner.clone());
        let plan = Plan { model, n_users, limits, seed, keeps_rows: keep_rows, max_tries };
        let of = |n_all| Share { n_threads: threads, first: first_thread, n_all };
        let share = all_threads.map_or_else(|| Share::whole(threads, n_users), of);
        let load = Self { load: launch(py, &driver, &asked, &plan, share)?, share, plan };
        while !py.detach(|| load.load.wait_ready(SLICE)).map_err(python_error)? {
            py.check_signals()?;
        }
        if !is_held {
            load.load.start();
        }
        Ok(load)
    }

    /// Starts the clock of a load that is held.
    fn start(&self, py: Python<'_>) {
        py.detach(|| self.load.start());
    }

    /// The next one-second frame; None when the run has ended or none came within `timeout_s`.
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

    /// Everything that ended so far, without stopping.
    fn log(&self, py: Python<'_>) -> RunLog {
        let log = py.detach(|| self.load.log());
        RunLog::new(log, &self.plan, self.share)
    }

    /// Cancels what is in flight, waits for it, and returns the whole log; idempotent.
    fn stop(&self, py: Python<'_>) -> PyResult<RunLog> {
        let log = py.detach(|| self.load.stop()).map_err(python_error)?;
        Ok(RunLog::new(log, &self.plan, self.share))
    }
}

impl Drop for Load {
    /// Waits for the threads, and lets other Python threads run meanwhile.
    fn drop(&mut self) {
        // At the interpreter's end there are none.
        let _ = Python::try_attach(|py| py.detach(|| self.load.stop().is_ok()));
    }
}

fn closed() -> trimtab_load::model::Model {
    trimtab_load::model::Model::Closed(trimtab_load::model::Think::default())
}

fn launch(
    py: Python<'_>,
    driver: &DriverArgument<'_>,
    asked: &Asked<'_>,
    plan: &Plan,
    share: Share,
) -> PyResult<engine::Load> {
    let launched = match (driver, asked) {
        (DriverArgument::Postgres(driver), Asked::Sql(sources)) => {
            let driver = driver.get().prepared(sources.statements())?;
            py.detach(|| engine::Load::launch(&driver, plain(sources), plan, share))
        }
        (DriverArgument::Mysql(driver), Asked::Sql(sources)) => {
            let driver = driver.get().prepared(sources.statements())?;
            py.detach(|| engine::Load::launch(&driver, plain(sources), plan, share))
        }
        (DriverArgument::Cql(driver), Asked::Sql(sources)) => {
            let driver = driver.get().prepared(sources.statements())?;
            py.detach(|| engine::Load::launch(&driver, plain(sources), plan, share))
        }
        (DriverArgument::Mongodb(driver), Asked::Pairs(sources)) => {
            let driver = &driver.get().driver;
            py.detach(|| engine::Load::launch(driver, Arc::clone(sources), plan, share))
        }
        (DriverArgument::WiredTiger(driver), Asked::Pairs(sources)) => {
            let driver = &driver.get().driver;
            py.detach(|| engine::Load::launch(driver, Arc::clone(sources), plan, share))
        }
        (DriverArgument::Http(driver), Asked::Pages(pages)) => {
            let driver = &driver.get().driver;
            let sources = pages.sources(driver)?;
            py.detach(|| engine::Load::launch(driver, sources, plan, share))
        }
        (DriverArgument::Http(driver), Asked::Site(site)) => {
            let driver = &driver.get().driver;
            let sources = site.sources(driver)?;
            py.detach(|| engine::Load::launch(driver, sources, plan, share))
        }
        (DriverArgument::Http(_), Asked::Sql(_)) => Err(wrong_pair("a web server", "statements")),
        (DriverArgument::Mongodb(_) | DriverArgument::WiredTiger(_), Asked::Sql(_)) => {
            Err(wrong_pair("a store of records", "statements"))
        }
        (_, Asked::Pages(_) | Asked::Site(_)) => Err(wrong_pair("a database server", "pages")),
        (_, Asked::Pairs(_)) => Err(wrong_pair("another server", "records by key")),
    };
    launched.map_err(python_error)
}

fn plain(sources: &Arc<dyn SqlSources>) -> Arc<dyn Sources<Sql>> {
    Arc::<dyn SqlSources>::clone(sources)
}

fn wrong_pair(driver: &str, source: &str) -> LoadError {
    LoadError::Invalid(format!("driver and source do not fit: {driver} cannot be asked for {source}"))
}

fn python_error(error: LoadError) -> PyErr {
    let text = error.to_string();
    match error {
        LoadError::Invalid(_) | LoadError::Prepare(_) => PyValueError::new_err(text),
        LoadError::Connect(_) => PyConnectionError::new_err(text),
        LoadError::System(error) => match error.raw_os_error() {
            Some(number) => PyOSError::new_err((number, text)),
            None => PyOSError::new_err(text),
        },
        LoadError::Worker => PyRuntimeError::new_err(text),
    }
}
