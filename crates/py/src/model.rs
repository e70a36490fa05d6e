//! Load models as Python describes them.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use trimtab_load::model;
use trimtab_load::model::{Arrivals, Open, Profile, Think};

use crate::seconds;

/// When operations are due.
#[pyclass(module = "trimtab._native", frozen)]
pub(crate) struct Model {
    pub(crate) inner: model::Model,
}

#[pymethods]
impl Model {
    /// Every user waits for each answer, thinks, and goes on.
    #[staticmethod]
    #[pyo3(signature = (think_s = 0.0, exponential = false, start_s = 0.0))]
    fn closed(think_s: f64, exponential: bool, start_s: f64) -> PyResult<Self> {
        Self::checked(model::Model::Closed(Think { mean_s: think_s, is_exponential: exponential, start_s }))
    }

    /// Operations are due at times of their own, whatever the server does.
    #[staticmethod]
    #[pyo3(signature = (
        rate,
        *,
        arrivals = "poisson",
        profile = None,
        backlog_max = 10_000,
        backlog_age_max_s = 10.0,
    ))]
    fn open(
        rate: f64,
        arrivals: &str,
        profile: Option<ProfileArgument>,
        backlog_max: usize,
        backlog_age_max_s: f64,
    ) -> PyResult<Self> {
        let arrivals = match arrivals {
            "poisson" => Arrivals::Poisson,
            "uniform" => Arrivals::Uniform,
            _ => return Err(PyValueError::new_err(format!("arrivals={arrivals:?} is none of poisson, uniform"))),
        };
        let profile = profile.map_or(Ok(Profile::Constant), Profile::try_from)?;
        let backlog_age_max = seconds("backlog_age_max_s", backlog_age_max_s)?;
        Self::checked(model::Model::Open(Open { rate, arrivals, profile, backlog_max, backlog_age_max }))
    }
}

impl Model {
    fn checked(inner: model::Model) -> PyResult<Self> {
        inner.check().map_err(PyValueError::new_err)?;
        Ok(Self { inner })
    }
}

/// A tuple that begins with the profile's name.
#[derive(FromPyObject)]
enum ProfileArgument {
    #[pyo3(transparent)]
    Step((String, Vec<(f64, f64)>)),
    #[pyo3(transparent)]
    Pair((String, f64, f64)),
}

impl TryFrom<ProfileArgument> for Profile {
    type Error = PyErr;

    fn try_from(argument: ProfileArgument) -> PyResult<Self> {
        match argument {
            ProfileArgument::Step((name, steps)) if name == "step" => Ok(Self::Step(steps)),
            ProfileArgument::Pair((name, to_rate, over_s)) if name == "ramp" => Ok(Self::Ramp { to_rate, over_s }),
            ProfileArgument::Pair((name, amplitude, period_s)) if name == "sine" => {
                Ok(Self::Sine { amplitude, period_s })
            }
            ProfileArgument::Step((name, _)) | ProfileArgument::Pair((name, ..)) => {
                Err(PyValueError::new_err(format!("profile={name:?} with these values is none of step, ramp, sine")))
            }
        }
    }
}
