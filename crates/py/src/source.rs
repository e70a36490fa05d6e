//! What users do, as Python describes it.

use std::sync::Arc;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use trimtab_load::fixed;
use trimtab_load::fixed::FixedSources;
use trimtab_load::pairs::Pairs;
use trimtab_load::source::{Sources, SqlSources};
use trimtab_load::sql::SqlCommand;

use crate::browser::Site;
use crate::http::Pages;
use crate::scripts::Scripts;
use crate::seconds;
use crate::ycsb::{Inserts, Operations, Ycsb, YcsbRows};

/// Any class that can be a load's `source`.
#[derive(FromPyObject)]
pub(crate) enum SourceArgument<'py> {
    Streams(Bound<'py, Streams>),
    Ycsb(Bound<'py, Ycsb>),
    YcsbRows(Bound<'py, YcsbRows>),
    Scripts(Bound<'py, Scripts>),
    Pages(Bound<'py, Pages>),
    Site(Bound<'py, Site>),
}

/// What is asked, by the language that it is asked in.
pub(crate) enum Asked<'py> {
    Sql(Arc<dyn SqlSources>),
    Pairs(Arc<dyn Sources<Pairs>>),
    Pages(&'py Pages),
    Site(&'py Site),
}

impl SourceArgument<'_> {
    pub(crate) fn asked(&self) -> Asked<'_> {
        Asked::Sql(match self {
            Self::Streams(streams) => Arc::clone(&streams.get().sources) as _,
            Self::Ycsb(ycsb) => match &ycsb.get().sources {
                Operations::Sql(sources) => Arc::clone(sources) as _,
                Operations::Pairs(sources) => return Asked::Pairs(Arc::clone(sources) as _),
            },
            Self::YcsbRows(rows) => match &rows.get().sources {
                Inserts::Sql(sources) => Arc::clone(sources) as _,
                Inserts::Pairs(sources) => return Asked::Pairs(Arc::clone(sources) as _),
            },
            Self::Scripts(scripts) => Arc::clone(&scripts.get().sources) as _,
            Self::Pages(pages) => return Asked::Pages(pages.get()),
            Self::Site(site) => return Asked::Site(site.get()),
        })
    }
}

/// One operation: its label, its statements, and whether they run in one transaction.
#[pyclass(module = "trimtab._native", frozen)]
pub(crate) struct Operation {
    inner: Arc<fixed::Operation<SqlCommand>>,
}

#[pymethods]
impl Operation {
    #[new]
    #[pyo3(signature = (label, statements, *, transaction = false))]
    fn new(label: String, statements: Vec<String>, transaction: bool) -> PyResult<Self> {
        if statements.is_empty() {
            return Err(PyValueError::new_err(format!("operation {label}: it has no statements")));
        }
        if statements.iter().any(|statement| statement.contains('\0')) {
            return Err(PyValueError::new_err(format!("operation {label}: a statement holds a NUL character")));
        }
        let texts = statements.into_iter().map(|statement| SqlCommand::Text(statement.into()));
        let commands = if transaction {
            std::iter::once(SqlCommand::Begin).chain(texts).chain(std::iter::once(SqlCommand::Commit)).collect()
        } else {
            texts.collect()
        };
        Ok(Self { inner: Arc::new(fixed::Operation { label, commands }) })
    }
}

/// One client: its operations in order, run again from the start when `repeat`, with a think time between.
#[pyclass(module = "trimtab._native", frozen)]
pub(crate) struct Stream {
    inner: fixed::Stream<SqlCommand>,
}

#[pymethods]
impl Stream {
    #[new]
    #[pyo3(signature = (operations, *, repeat = true, think_s = 0.0))]
    fn new(operations: Vec<Bound<'_, Operation>>, repeat: bool, think_s: f64) -> PyResult<Self> {
        let think = seconds("think_s", think_s)?;
        let operations = operations.iter().map(|operation| Arc::clone(&operation.get().inner)).collect();
        Ok(Self { inner: fixed::Stream { operations, repeat, think } })
    }
}

/// Text statements, one user per stream.
#[pyclass(module = "trimtab._native", frozen)]
pub(crate) struct Streams {
    sources: Arc<FixedSources<SqlCommand>>,
}

#[pymethods]
impl Streams {
    #[new]
    fn new(streams: Vec<Bound<'_, Stream>>) -> PyResult<Self> {
        let streams = streams.iter().map(|stream| stream.get().inner.clone()).collect();
        let sources = FixedSources::new(streams).map_err(PyValueError::new_err)?;
        Ok(Self { sources: Arc::new(sources) })
    }
}
