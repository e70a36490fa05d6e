//! YCSB as Python describes it.

use std::sync::Arc;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use trimtab_load::ycsb::distribution::{KeyDistribution, LengthDistribution};
use trimtab_load::ycsb::key::KeyNaming;
use trimtab_load::ycsb::pairs::{YcsbPairRows, YcsbPairSources};
use trimtab_load::ycsb::rows::{Rows, YcsbLoadSources};
use trimtab_load::ycsb::sql::{Dialect, YcsbSources};
use trimtab_load::ycsb::{Proportions, Schema, Workload};

/// The operations of a YCSB workload on an SQL server, for one run: it numbers the records that the run inserts.
#[pyclass(module = "trimtab._native", frozen)]
pub(crate) struct Ycsb {
    pub(crate) sources: Operations,
}

/// The operations in the terms of a server.
pub(crate) enum Operations {
    Sql(Arc<YcsbSources>),
    Pairs(Arc<YcsbPairSources>),
}

/// The load phase in the terms of a server.
pub(crate) enum Inserts {
    Sql(Arc<YcsbLoadSources>),
    Pairs(Arc<YcsbPairRows>),
}

/// The dialect of stores of records by key, which have no tables.
const PAIRS: &str = "pairs";

#[pymethods]
impl Ycsb {
    #[new]
    #[pyo3(signature = (
        *,
        dialect,
        table,
        records,
        start = 0,
        expected_inserts = 0,
        read = 0.0,
        update = 0.0,
        insert = 0.0,
        scan = 0.0,
        read_modify_write = 0.0,
        distribution = "zipfian",
        hot_data = 0.2,
        hot_operations = 0.8,
        fields = 10,
        field_length = 100,
        field_lengths = "constant",
        hashed = true,
        zero_padding = 1,
        reads_all_fields = true,
        writes_all_fields = false,
        scan_length_max = 100,
        scan_lengths = "uniform",
        validated = true,
    ))]
    #[allow(clippy::too_many_arguments)]
    fn new(
        dialect: &str,
        table: &str,
        records: u64,
        start: u64,
        expected_inserts: u64,
        read: f64,
        update: f64,
        insert: f64,
        scan: f64,
        read_modify_write: f64,
        distribution: &str,
        hot_data: f64,
        hot_operations: f64,
        fields: u32,
        field_length: u32,
        field_lengths: &str,
        hashed: bool,
        zero_padding: usize,
        reads_all_fields: bool,
        writes_all_fields: bool,
        scan_length_max: u32,
        scan_lengths: &str,
        validated: bool,
    ) -> PyResult<Self> {
        let workload = Workload {
            schema: schema(fields, field_length, field_lengths, hashed, zero_padding)?,
            start,
            n_records: records,
            expected_inserts,
            proportions: Proportions { read, update, insert, scan, read_modify_write },
            distribution: key_distribution(distribution, hot_data, hot_operations)?,
            reads_all_fields,
            writes_all_fields,
            scan_length_min: 1,
            scan_length_max,
            scan_lengths: lengths(scan_lengths)?,
            is_validated: validated,
        };
        if dialect == PAIRS {
            let sources = YcsbPairSources::new(workload).map_err(PyValueError::new_err)?;
            return Ok(Self { sources: Operations::Pairs(Arc::new(sources)) });
        }
        let dialect = Dialect::from_name(dialect).map_err(PyValueError::new_err)?;
        let sources = YcsbSources::new(workload, dialect, table).map_err(PyValueError::new_err)?;
        Ok(Self { sources: Operations::Sql(Arc::new(sources)) })
    }

    /// (first, end) of the numbers of the records that the run has inserted or tried to.
    #[getter]
    fn inserted(&self) -> (u64, u64) {
        let range = match &self.sources {
            Operations::Sql(sources) => sources.inserted(),
            Operations::Pairs(sources) => sources.inserted(),
        };
        (range.start, range.end)
    }
}

/// The load phase: a range of records, inserted by several users in batches; each ends when its share is done.
#[pyclass(module = "trimtab._native", frozen)]
pub(crate) struct YcsbRows {
    pub(crate) sources: Inserts,
}

#[pymethods]
impl YcsbRows {
    #[new]
    #[pyo3(signature = (
        *,
        dialect,
        table,
        records,
        users,
        batch,
        start = 0,
        seed = 0,
        fields = 10,
        field_length = 100,
        field_lengths = "constant",
        hashed = true,
        zero_padding = 1,
    ))]
    #[allow(clippy::too_many_arguments)]
    fn new(
        dialect: &str,
        table: &str,
        records: u64,
        users: u32,
        batch: u32,
        start: u64,
        seed: u64,
        fields: u32,
        field_length: u32,
        field_lengths: &str,
        hashed: bool,
        zero_padding: usize,
    ) -> PyResult<Self> {
        let schema = schema(fields, field_length, field_lengths, hashed, zero_padding)?;
        let rows = Rows { schema, start, n_records: records, batch_rows: batch, content_seed: seed };
        if dialect == PAIRS {
            let sources = YcsbPairRows::new(rows, users).map_err(PyValueError::new_err)?;
            return Ok(Self { sources: Inserts::Pairs(Arc::new(sources)) });
        }
        let dialect = Dialect::from_name(dialect).map_err(PyValueError::new_err)?;
        let sources = YcsbLoadSources::new(rows, users, dialect, table).map_err(PyValueError::new_err)?;
        Ok(Self { sources: Inserts::Sql(Arc::new(sources)) })
    }
}

fn schema(
    n_fields: u32,
    field_length: u32,
    field_lengths: &str,
    is_hashed: bool,
    zero_padding: usize,
) -> PyResult<Schema> {
    let naming = KeyNaming { is_ordered: !is_hashed, zero_padding };
    Ok(Schema { n_fields, field_length, field_length_min: 1, field_lengths: lengths(field_lengths)?, naming })
}

fn lengths(name: &str) -> PyResult<LengthDistribution> {
    match name {
        "constant" => Ok(LengthDistribution::Constant),
        "uniform" => Ok(LengthDistribution::Uniform),
        "zipfian" => Ok(LengthDistribution::Zipfian),
        _ => Err(PyValueError::new_err(format!("lengths={name:?} is none of constant, uniform, zipfian"))),
    }
}

fn key_distribution(name: &str, data_fraction: f64, operation_fraction: f64) -> PyResult<KeyDistribution> {
    match name {
        "uniform" => Ok(KeyDistribution::Uniform),
        "zipfian" => Ok(KeyDistribution::Zipfian),
        "latest" => Ok(KeyDistribution::Latest),
        "hotspot" => Ok(KeyDistribution::Hotspot { data_fraction, operation_fraction }),
        "exponential" => Ok(KeyDistribution::EXPONENTIAL),
        "sequential" => Ok(KeyDistribution::Sequential),
        _ => Err(PyValueError::new_err(format!(
            "distribution={name:?} is none of uniform, zipfian, latest, hotspot, exponential, sequential"
        ))),
    }
}
