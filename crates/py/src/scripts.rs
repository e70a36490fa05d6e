//! Scripts as Python describes them.

use std::sync::Arc;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use trimtab_load::script::{
    Dialect, Generator, Mode, Options, Parameter, Pick, Reach, ScriptError, ScriptSources, Transaction, Value, Wrap,
};
use trimtab_load::source::{Sources, SqlSources};
use trimtab_load::{script, script::Script as Inner};

/// One transaction type.
#[pyclass(module = "trimtab._native", frozen)]
pub(crate) struct Script {
    inner: Inner,
}

#[pymethods]
impl Script {
    /// A pgbench script as it is; `file` is named in messages.
    #[staticmethod]
    fn pgbench(label: String, weight: f64, file: String, text: String) -> Self {
        Self { inner: Inner::Pgbench { label, weight, file, text } }
    }

    /// One of pgbench's built-in scripts.
    #[staticmethod]
    fn builtin(name: &str, weight: f64) -> PyResult<Self> {
        Ok(Self { inner: Inner::builtin(name, weight).map_err(python_error)? })
    }

    /// SQL statements with `:name` placeholders, each filled by a generator.
    #[staticmethod]
    #[pyo3(signature = (label, weight, file, text, *, parameters, wrap = "none"))]
    fn own(
        label: String,
        weight: f64,
        file: String,
        text: String,
        parameters: Vec<Bound<'_, PyDict>>,
        wrap: &str,
    ) -> PyResult<Self> {
        let wrap = match wrap {
            "none" => Wrap::None,
            "commit" => Wrap::Commit,
            "rollback" => Wrap::Rollback,
            _ => return Err(PyValueError::new_err(format!("wrap={wrap:?} is none of none, commit, rollback"))),
        };
        let parameters = parameters.iter().map(parameter).collect::<PyResult<_>>()?;
        Ok(Self { inner: Inner::Own(Transaction { label, weight, file, text, parameters, wrap }) })
    }
}

/// Weighted transaction types as the source of all users of a run.
#[pyclass(module = "trimtab._native", frozen)]
pub(crate) struct Scripts {
    pub(crate) sources: Arc<ScriptSources>,
}

#[pymethods]
impl Scripts {
    #[new]
    #[pyo3(signature = (scripts, *, dialect, mode = "prepared", variables = Vec::new(), users = 1))]
    fn new(
        scripts: Vec<Bound<'_, Script>>,
        dialect: &str,
        mode: &str,
        variables: Vec<(String, String)>,
        users: u32,
    ) -> PyResult<Self> {
        let dialect = Dialect::from_name(dialect).map_err(PyValueError::new_err)?;
        let mode = match mode {
            "prepared" => Mode::Prepared,
            "simple" => Mode::Simple,
            _ => return Err(PyValueError::new_err(format!("mode={mode:?} is neither prepared nor simple"))),
        };
        let scripts: Vec<Inner> = scripts.iter().map(|script| script.get().inner.clone()).collect();
        let options = Options { dialect, mode, variables, users };
        let sources = ScriptSources::new(&scripts, &options).map_err(python_error)?;
        Ok(Self { sources: Arc::new(sources) })
    }

    /// The texts that are prepared on every connection.
    #[getter]
    fn statements(&self) -> Vec<String> {
        SqlSources::statements(&*self.sources)
    }

    /// The transaction types' names.
    #[getter]
    fn labels(&self) -> Vec<String> {
        Sources::labels(&*self.sources)
    }
}

/// A statement of a script, and what it does beyond its answer.
#[pyclass(module = "trimtab._native", frozen, get_all)]
pub(crate) struct Statement {
    text: String,
    line: u32,
    writes: bool,
    controls: bool,
    commits: bool,
}

/// The statements of a script in order.
#[pyfunction]
pub(crate) fn read_statements(text: &str, dialect: &str) -> PyResult<Vec<Statement>> {
    let dialect = Dialect::from_name(dialect).map_err(PyValueError::new_err)?;
    let found = script::read_statements(text, dialect).map_err(python_error)?;
    Ok(found
        .into_iter()
        .map(|script::Statement { text, line, reach: Reach { writes, controls, commits } }| Statement {
            text,
            line,
            writes,
            controls,
            commits,
        })
        .collect())
}

fn python_error(error: ScriptError) -> PyErr {
    PyValueError::new_err(error.to_string())
}

fn parameter(options: &Bound<'_, PyDict>) -> PyResult<Parameter> {
    Ok(Parameter {
        names: vec![item(options, "name")?],
        generator: generator(options)?,
        each: item(options, "each")?,
        null_share: item(options, "null_share")?,
    })
}

fn item<'py, T>(options: &Bound<'py, PyDict>, key: &str) -> PyResult<T>
where
    T: for<'a> FromPyObject<'a, 'py>,
{
    let Some(value) = options.get_item(key)? else {
        return Err(PyValueError::new_err(format!("generator {options}: it lacks {key}")));
    };
    value.extract().map_err(|_| PyValueError::new_err(format!("generator {options}: {key} is of the wrong type")))
}

fn generator(options: &Bound<'_, PyDict>) -> PyResult<script::Generator> {
    let kind: String = item(options, "type")?;
    Ok(match kind.as_str() {
        "int" => integers(options)?,
        "float" => Generator::Float { low: item(options, "low")?, high: item(options, "high")? },
        "serial" => Generator::Serial { start: item(options, "start")?, step: item(options, "step")?, unique: true },
        "text" => Generator::Text {
            length: (item(options, "low")?, item(options, "high")?),
            alphabet: item(options, "alphabet")?,
        },
        "choice" => Generator::Choice { values: texts(options)?.collect(), weights: Some(item(options, "weights")?) },
        "rows" => Generator::Rows { rows: rows(options)?, pick: pick(options)? },
        "date" => Generator::Date { low: item(options, "low")?, high: item(options, "high")? },
        "timestamp" => Generator::Timestamp { low: item(options, "low")?, high: item(options, "high")? },
        "uuid" => Generator::Uuid,
        "bool" => Generator::Bool { share: item(options, "share")? },
        _ => return Err(PyValueError::new_err(format!("generator {options}: there is no type {kind:?}"))),
    })
}

fn integers(options: &Bound<'_, PyDict>) -> PyResult<Generator> {
    let (low, high) = (item(options, "low")?, item(options, "high")?);
    let (distribution, skew): (String, f64) = (item(options, "distribution")?, item(options, "skew")?);
    Ok(match distribution.as_str() {
        "uniform" => Generator::Int { low, high },
        "zipfian" => Generator::IntZipfian { low, high, s: skew, scrambled: true },
        "gaussian" => Generator::IntGaussian { low, high, parameter: skew },
        "exponential" => Generator::IntExponential { low, high, parameter: skew },
        _ => return Err(PyValueError::new_err(format!("generator {options}: no distribution {distribution:?}"))),
    })
}

fn pick(options: &Bound<'_, PyDict>) -> PyResult<Pick> {
    let (distribution, skew): (String, f64) = (item(options, "distribution")?, item(options, "skew")?);
    match distribution.as_str() {
        "uniform" => Ok(Pick::Uniform),
        "zipfian" => Ok(Pick::Zipfian { s: skew, scrambled: true }),
        _ => Err(PyValueError::new_err(format!("generator {options}: rows have no distribution {distribution:?}"))),
    }
}

/// A value of a column: a number where the server would take its text for another value.
#[derive(FromPyObject)]
enum Sampled {
    Text(String),
    Number(i64),
}

fn rows(options: &Bound<'_, PyDict>) -> PyResult<Vec<Vec<Value>>> {
    let sampled: Vec<Sampled> = item(options, "values")?;
    let value = |each| match each {
        Sampled::Text(text) => Value::Text(text),
        Sampled::Number(number) => Value::Int(number),
    };
    Ok(sampled.into_iter().map(|each| vec![value(each)]).collect())
}

fn texts(options: &Bound<'_, PyDict>) -> PyResult<impl Iterator<Item = Value>> {
    Ok(item::<Vec<String>>(options, "values")?.into_iter().map(Value::Text))
}
