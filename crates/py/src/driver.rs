//! Servers as Python names them.

use std::path::PathBuf;
use std::sync::Arc;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use trimtab_load::driver::{TlsFiles, TlsMode, mysql, postgresql};

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

pub(crate) fn tls_mode(name: &str) -> PyResult<TlsMode> {
    let unknown = || format!("tls={name:?} is none of disable, prefer, require, verify-ca, verify-full");
    TlsMode::from_name(name).ok_or_else(|| PyValueError::new_err(unknown()))
}
