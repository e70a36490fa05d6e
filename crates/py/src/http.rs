//! Web servers and the pages that are asked of them, as Python names them.

use std::path::PathBuf;
use std::sync::Arc;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use trimtab_load::driver::TlsFiles;
use trimtab_load::driver::http::{Access, HttpDriver};
use trimtab_load::http::Method;
use trimtab_load::pages::{self, Manner, PageSources};

use crate::driver::tls_mode;

/// A web server and how to reach it.
#[pyclass(module = "trimtab._native", frozen)]
pub(crate) struct Http {
    pub(crate) driver: HttpDriver,
}

#[pymethods]
impl Http {
    #[new]
    #[pyo3(signature = (
        *,
        host,
        port,
        headers = Vec::new(),
        tls = "disable",
        root_certificates = None,
        certificate = None,
        key = None,
    ))]
    fn new(
        host: String,
        port: u16,
        headers: Vec<(String, String)>,
        tls: &str,
        root_certificates: Option<PathBuf>,
        certificate: Option<PathBuf>,
        key: Option<PathBuf>,
    ) -> PyResult<Self> {
        let tls_files = TlsFiles { roots: root_certificates, certificate, key };
        let access = Access { host, port, headers, tls: tls_mode(tls)?, tls_files };
        HttpDriver::new(&access).map(|driver| Self { driver }).map_err(PyValueError::new_err)
    }
}

/// A page, and what belongs to it.
#[pyclass(module = "trimtab._native", frozen)]
pub(crate) struct Page {
    inner: pages::Page,
}

#[pymethods]
impl Page {
    #[new]
    #[pyo3(signature = (
        label,
        path,
        *,
        weight = 1.0,
        method = "GET",
        resources = Vec::new(),
        body = "",
        headers = Vec::new(),
        status = None,
        text = None,
    ))]
    #[allow(clippy::too_many_arguments)]
    fn new(
        label: String,
        path: String,
        weight: f64,
        method: &str,
        resources: Vec<String>,
        body: &str,
        headers: Vec<(String, String)>,
        status: Option<u16>,
        text: Option<String>,
    ) -> PyResult<Self> {
        let known = Method::from_name(method);
        let unknown = || format!("page {label}: method={method:?} is none of GET, HEAD, POST, PUT, DELETE");
        let method = known.ok_or_else(|| PyValueError::new_err(unknown()))?;
        let headers = header_lines(&headers).map_err(|text| PyValueError::new_err(format!("page {label}: {text}")))?;
        let body = body.as_bytes().to_vec();
        Ok(Self { inner: pages::Page { label, weight, method, path, resources, body, headers, status, text } })
    }
}

/// Pages, each with its weight, as the source of all users of a run.
#[pyclass(module = "trimtab._native", frozen)]
pub(crate) struct Pages {
    pages: Vec<pages::Page>,
    manner: Manner,
}

#[pymethods]
impl Pages {
    #[new]
    #[pyo3(signature = (pages, *, follow = true, cookies = true, fresh = false))]
    fn new(pages: Vec<Bound<'_, Page>>, follow: bool, cookies: bool, fresh: bool) -> PyResult<Self> {
        let pages: Vec<_> = pages.iter().map(|page| page.get().inner.clone()).collect();
        let manner = Manner { follows: follow, keeps_cookies: cookies, is_fresh: fresh };
        let own = Self { pages, manner };
        // Whatever server: what is wrong with the pages is wrong on all of them.
        own.sources(&HttpDriver::new(&Access::default()).map_err(PyValueError::new_err)?)?;
        Ok(own)
    }
}

impl Pages {
    /// The sources for one server.
    pub(crate) fn sources(&self, driver: &HttpDriver) -> PyResult<Arc<PageSources>> {
        let sources = PageSources::new(self.pages.clone(), self.manner, driver.origin().clone());
        sources.map(Arc::new).map_err(PyValueError::new_err)
    }
}

fn header_lines(headers: &[(String, String)]) -> Result<String, String> {
    let mut lines = String::new();
    for (name, value) in headers {
        trimtab_load::http::check_header(name, value)?;
        lines.extend([name.as_str(), ": ", value.as_str(), "\r\n"]);
    }
    Ok(lines)
}
