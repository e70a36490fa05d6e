//! Servers as Python names them.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pyo3::exceptions::{PyConnectionError, PyPermissionError, PyTimeoutError, PyValueError};
use pyo3::prelude::*;
use trimtab_load::driver::{
    Access, ErrorClass, Failure, TlsFiles, TlsMode, cql, mongodb, mysql, postgresql, wiredtiger,
};

use crate::seconds;

/// A PostgreSQL server and how to enter it; `host` is the directory of its Unix socket when it starts with "/".
#[pyclass(module = "trimtab._native", frozen)]
pub(crate) struct Postgres {
    access: postgresql::Access,
}

#[pymethods]
impl Postgres {
    #[new]
    #[pyo3(signature = (
        *,
        host,
        port,
        user,
        database,
        password = None,
        application_name = "trimtab",
        settings = Vec::new(),
        tls = "disable",
        root_certificates = None,
        certificate = None,
        key = None,
    ))]
    #[allow(clippy::too_many_arguments)]
    fn new(
        host: String,
        port: u16,
        user: String,
        database: String,
        password: Option<String>,
        application_name: &str,
        settings: Vec<(String, String)>,
        tls: &str,
        root_certificates: Option<PathBuf>,
        certificate: Option<PathBuf>,
        key: Option<PathBuf>,
    ) -> PyResult<Self> {
        let tls_files = TlsFiles { roots: root_certificates, certificate, key };
        let application_name = application_name.to_owned();
        let tls = tls_mode(tls)?;
        let access =
            postgresql::Access { host, port, user, database, password, application_name, settings, tls, tls_files };
        let driver = Self { access };
        driver.prepared(Vec::new())?;
        Ok(driver)
    }
}

impl Postgres {
    /// The driver that prepares `statements` on every connection.
    pub(crate) fn prepared(&self, statements: Vec<String>) -> PyResult<postgresql::Postgres> {
        postgresql::Postgres::new(self.access.clone(), Arc::from(statements)).map_err(PyValueError::new_err)
    }
}

/// A MySQL or MariaDB server and how to enter it; `host` is the file of its Unix socket when it starts with "/".
#[pyclass(module = "trimtab._native", frozen)]
pub(crate) struct Mysql {
    access: mysql::Access,
}

#[pymethods]
impl Mysql {
    #[new]
    #[pyo3(signature = (
        *,
        host,
        port,
        user,
        database,
        password = None,
        settings = Vec::new(),
        tls = "disable",
        root_certificates = None,
        certificate = None,
        key = None,
    ))]
    #[allow(clippy::too_many_arguments)]
    fn new(
        host: String,
        port: u16,
        user: String,
        database: String,
        password: Option<String>,
        settings: Vec<(String, String)>,
        tls: &str,
        root_certificates: Option<PathBuf>,
        certificate: Option<PathBuf>,
        key: Option<PathBuf>,
    ) -> PyResult<Self> {
        let tls_files = TlsFiles { roots: root_certificates, certificate, key };
        let tls = tls_mode(tls)?;
        let application_name = String::new();
        let access = mysql::Access { host, port, user, database, password, application_name, settings, tls, tls_files };
        let driver = Self { access };
        driver.prepared(Vec::new())?;
        Ok(driver)
    }
}

impl Mysql {
    /// The driver that prepares `statements` on every connection.
    pub(crate) fn prepared(&self, statements: Vec<String>) -> PyResult<mysql::Mysql> {
        mysql::Mysql::new(self.access.clone(), Arc::from(statements)).map_err(PyValueError::new_err)
    }
}

/// A Cassandra node and how to enter it; settings are `consistency`, `protocol` and `token_aware`.
#[pyclass(module = "trimtab._native", frozen)]
pub(crate) struct Cql {
    access: cql::Access,
}

#[pymethods]
impl Cql {
    #[new]
    #[pyo3(signature = (
        *,
        host,
        port,
        user = String::new(),
        database = String::new(),
        password = None,
        settings = Vec::new(),
        tls = "disable",
        root_certificates = None,
        certificate = None,
        key = None,
    ))]
    #[allow(clippy::too_many_arguments)]
    fn new(
        host: String,
        port: u16,
        user: String,
        database: String,
        password: Option<String>,
        settings: Vec<(String, String)>,
        tls: &str,
        root_certificates: Option<PathBuf>,
        certificate: Option<PathBuf>,
        key: Option<PathBuf>,
    ) -> PyResult<Self> {
        let tls_files = TlsFiles { roots: root_certificates, certificate, key };
        let tls = tls_mode(tls)?;
        let application_name = String::new();
        let access = cql::Access { host, port, user, database, password, application_name, settings, tls, tls_files };
        let driver = Self { access };
        driver.prepared(Vec::new())?;
        Ok(driver)
    }

    /// The nodes of its ring: (address, what keeps a load from it, "" for most).
    #[pyo3(signature = (*, timeout_s = 10.0))]
    fn nodes(&self, py: Python<'_>, timeout_s: f64) -> PyResult<Vec<(String, String)>> {
        let (driver, limit) = (self.prepared(Vec::new())?, seconds("timeout_s", timeout_s)?);
        py.detach(|| driver.nodes(limit)).map_err(|failure| python_error(&failure))
    }
}

impl Cql {
    /// The driver that prepares `statements` on every connection.
    pub(crate) fn prepared(&self, statements: Vec<String>) -> PyResult<cql::Cql> {
        cql::Cql::new(self.access.clone(), Arc::from(statements)).map_err(PyValueError::new_err)
    }
}

/// A connection to a Cassandra node for a few questions beside the load. Signals are heard while it waits.
#[pyclass(module = "trimtab._native", frozen)]
pub(crate) struct CqlConsole {
    inner: Mutex<Option<cql::CqlConsole>>,
    raised: Raised,
}

/// What the handler of a signal has raised while a thread waited.
#[derive(Clone, Default)]
struct Raised(Arc<Mutex<Option<PyErr>>>);

impl Raised {
    /// Lets handlers run; it is to be waited no longer when one has raised something.
    fn watch(&self) -> cql::IsAwaited {
        let raised = self.clone();
        Box::new(move || match Python::attach(|py| py.check_signals()) {
            Ok(()) => true,
            Err(error) => {
                *raised.place() = Some(error);
                false
            }
        })
    }

    fn place(&self) -> MutexGuard<'_, Option<PyErr>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What Python is told of a failure.
    fn or(&self, failure: &Failure) -> PyErr {
        self.place().take().unwrap_or_else(|| python_error(failure))
    }
}

#[pymethods]
impl CqlConsole {
    #[new]
    #[pyo3(signature = (driver, *, timeout_s = 10.0))]
    fn new(py: Python<'_>, driver: &Cql, timeout_s: f64) -> PyResult<Self> {
        let (driver, limit) = (driver.prepared(Vec::new())?, seconds("timeout_s", timeout_s)?);
        let raised = Raised::default();
        let opened = py.detach(|| driver.console_while(limit, raised.watch()));
        let opened = opened.map_err(|failure| raised.or(&failure))?;
        Ok(Self { inner: Mutex::new(Some(opened)), raised })
    }

    /// All rows of a statement as texts; none where it gives none.
    #[pyo3(signature = (statement, *, timeout_s = 10.0))]
    fn rows(&self, py: Python<'_>, statement: &str, timeout_s: f64) -> PyResult<cql::Texts> {
        let limit = seconds("timeout_s", timeout_s)?;
        self.ask(py, |console| console.rows(statement, limit))
    }

    /// Writes all rows that `select` gives with `insert`; how many.
    #[pyo3(signature = (select, insert, *, timeout_s = 10.0))]
    fn copy(&self, py: Python<'_>, select: &str, insert: &str, timeout_s: f64) -> PyResult<u64> {
        let limit = seconds("timeout_s", timeout_s)?;
        self.ask(py, |console| console.copy(select, insert, limit))
    }

    /// Ends the connection; idempotent.
    fn close(&self, py: Python<'_>) {
        let taken = py.detach(|| self.inner.lock().unwrap_or_else(PoisonError::into_inner).take());
        if let Some(console) = taken {
            py.detach(|| console.close());
        }
    }
}

impl CqlConsole {
    fn ask<T: Send>(
        &self,
        py: Python<'_>,
        question: impl FnOnce(&mut cql::CqlConsole) -> Result<T, Failure> + Send,
    ) -> PyResult<T> {
        let closed = || Failure::without_code(ErrorClass::Connect, "the connection is closed");
        py.detach(|| {
            let mut place = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
            question(place.as_mut().ok_or_else(closed)?)
        })
        .map_err(|failure| self.raised.or(&failure))
    }
}

/// A server that cannot be reached or does not answer is another matter than one that refuses.
fn python_error(failure: &Failure) -> PyErr {
    let text = failure.to_string();
    match failure.class {
        ErrorClass::Connect => PyConnectionError::new_err(text),
        ErrorClass::Permission => PyPermissionError::new_err(text),
        ErrorClass::Timeout => PyTimeoutError::new_err(text),
        _ => PyValueError::new_err(text),
    }
}

/// A server that speaks OP_MSG and how to enter it; the load's records are in `collection` of `database`.
#[pyclass(module = "trimtab._native", frozen)]
pub(crate) struct Mongodb {
    pub(crate) driver: mongodb::Mongodb,
}

#[pymethods]
impl Mongodb {
    #[new]
    #[pyo3(signature = (
        *,
        host,
        port,
        user,
        database,
        collection,
        password = None,
        settings = Vec::new(),
        tls = "disable",
        root_certificates = None,
        certificate = None,
        key = None,
    ))]
    #[allow(clippy::too_many_arguments)]
    fn new(
        host: String,
        port: u16,
        user: String,
        database: String,
        collection: &str,
        password: Option<String>,
        settings: Vec<(String, String)>,
        tls: &str,
        root_certificates: Option<PathBuf>,
        certificate: Option<PathBuf>,
        key: Option<PathBuf>,
    ) -> PyResult<Self> {
        let tls_files = TlsFiles { roots: root_certificates, certificate, key };
        let tls = tls_mode(tls)?;
        let application_name = String::new();
        let access = Access { host, port, user, database, password, application_name, settings, tls, tls_files };
        mongodb::Mongodb::new(access, collection).map(|driver| Self { driver }).map_err(PyValueError::new_err)
    }
}

/// An engine that is open in this process, and one of its tables.
#[pyclass(module = "trimtab._native", frozen)]
pub(crate) struct WiredTiger {
    pub(crate) driver: wiredtiger::WiredTiger,
}

#[pymethods]
impl WiredTiger {
    /// `cursors` are the addresses of open `WT_CURSOR`s of the table, one for each user and each in a session of its own, as
    /// `int(cursor.this)` of the engine's own module gives them; they must stay open as long as a load runs.
    #[new]
    #[pyo3(signature = (*, cursors, table))]
    fn new(cursors: Vec<usize>, table: &str) -> PyResult<Self> {
        // SAFETY: the caller vouches for them, as said above.
        let driver = unsafe { wiredtiger::WiredTiger::new(cursors, table) };
        driver.map(|driver| Self { driver }).map_err(PyValueError::new_err)
    }
}

pub(crate) fn tls_mode(name: &str) -> PyResult<TlsMode> {
    let unknown = || format!("tls={name:?} is none of disable, prefer, require, verify-ca, verify-full");
    TlsMode::from_name(name).ok_or_else(|| PyValueError::new_err(unknown()))
}
