//! Sites that emulated browsers walk through, as Python describes them: names are resolved to numbers already.

use std::sync::Arc;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use trimtab_load::browser::{self, Bound, Chain, Find, Kind, Lasting, Move, Reading, Session, SiteSources, Think};
use trimtab_load::driver::http::{Access, HttpDriver};
use trimtab_load::http::Method;

/// A part of a text: as it is, or a value's number.
#[derive(FromPyObject)]
enum Piece {
    Value(u16),
    Text(String),
}

/// Name and value of a field.
type Pair = (Vec<Piece>, Vec<Piece>);

#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct Ask {
    share: f64,
    when: Option<(u16, bool)>,
    after: Vec<u16>,
    method: String,
    path: Vec<Piece>,
    pairs: Vec<Pair>,
    hidden: bool,
    needs: Vec<u16>,
}

#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct State {
    label: String,
    asks: Vec<Ask>,
    contains: Vec<String>,
    nothing: Vec<String>,
    picks: Vec<u16>,
    reads_images: bool,
    images: Vec<String>,
    wait_s: f64,
}

#[derive(FromPyObject)]
enum BoundArgument {
    Number(i64),
    /// ("value", number)
    Value((String, u16)),
}

#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct Number {
    low: BoundArgument,
    high: BoundArgument,
    skew: i64,
    plus: Option<u16>,
    width: u8,
}

#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct Spelled {
    of: u16,
    digits: Vec<String>,
    width: u8,
}

/// At most one of the first five.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct Value {
    number: Option<Number>,
    one_of: Option<Vec<(String, f64)>>,
    letters: Option<(u32, u32)>,
    text: Option<Vec<Piece>>,
    spelled: Option<Spelled>,
    chance: f64,
    is_of_session: bool,
    finds: Vec<(String, Option<u8>)>,
    none: Option<String>,
}

#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct SessionArgument {
    start: u16,
    steps_max: u32,
    /// Mean, cap (seconds) and the state where it ends.
    lasts: Option<(f64, f64, u16)>,
}

/// A site as the source of all users of a run: each is a browser.
#[pyclass(module = "trimtab._native", frozen)]
pub(crate) struct Site {
    site: browser::Site,
}

#[pymethods]
impl Site {
    /// In `transitions` the number behind the last state's is Back, and the one behind that the end of the session.
    #[new]
    #[pyo3(signature = (
        *,
        states,
        transitions,
        literal,
        session,
        values,
        think,
        think_scale,
        always,
        errors,
        counts_sessions,
    ))]
    #[allow(clippy::too_many_arguments)]
    fn new(
        states: Vec<State>,
        transitions: Vec<Vec<(u16, f64)>>,
        literal: bool,
        session: SessionArgument,
        values: Vec<Value>,
        think: Option<(f64, f64)>,
        think_scale: f64,
        always: Vec<Pair>,
        errors: Vec<String>,
        counts_sessions: bool,
    ) -> PyResult<Self> {
        let reading = if literal { Reading::Literal } else { Reading::Normalised };
        let n_states = transitions.len() as u16;
        let row = |row: Vec<(u16, f64)>| row.into_iter().map(|(to, weight)| (to_move(to, n_states), weight)).collect();
        let chain = Chain::new(transitions.into_iter().map(row).collect(), reading).map_err(PyValueError::new_err)?;
        let lasts = session.lasts.map(|(mean_s, cap_s, at)| Lasting { mean_s, cap_s, at });
        let site = browser::Site {
            states: states.into_iter().map(State::into_native).collect::<PyResult<_>>()?,
            chain,
            session: Session { start: session.start, steps_max: session.steps_max, lasts },
            values: values.into_iter().map(Value::into_native).collect(),
            think: Think { exponential_s: think, scale: think_scale },
            always: always.into_iter().map(pair).collect(),
            errors,
            counts_sessions,
        };
        let own = Self { site };
        // Whatever server: what is wrong with the site is wrong on all of them.
        own.sources(&HttpDriver::new(&Access::default()).map_err(PyValueError::new_err)?)?;
        Ok(own)
    }

    /// How often one browser comes to each state in so many interactions, and how many sessions that is, if all pages are right.
    fn walk(&self, py: Python<'_>, n_steps: u64, seed: u64) -> (Vec<u64>, u64) {
        py.detach(|| browser::walk(&self.site, n_steps, seed))
    }
}

impl Site {
    /// The sources for one server.
    pub(crate) fn sources(&self, driver: &HttpDriver) -> PyResult<Arc<SiteSources>> {
        let sources = SiteSources::new(self.site.clone(), driver.origin().clone());
        sources.map(Arc::new).map_err(PyValueError::new_err)
    }
}

fn to_move(to: u16, n_states: u16) -> Move {
    match to.checked_sub(n_states) {
        Some(0) => Move::Back,
        Some(1) => Move::End,
        _ => Move::To(to),
    }
}

fn pieces(pieces: Vec<Piece>) -> Vec<browser::Piece> {
    let native = |piece| match piece {
        Piece::Value(number) => browser::Piece::Value(number),
        Piece::Text(text) => browser::Piece::Text(text),
    };
    pieces.into_iter().map(native).collect()
}

fn pair((name, value): Pair) -> browser::Pair {
    browser::Pair { name: pieces(name), value: pieces(value) }
}

impl Ask {
    fn into_native(self) -> PyResult<browser::Ask> {
        let unknown =
            || PyValueError::new_err(format!("method={:?} is none of GET, HEAD, POST, PUT, DELETE", self.method));
        Ok(browser::Ask {
            share: self.share,
            when: self.when,
            after: self.after,
            method: Method::from_name(&self.method).ok_or_else(unknown)?,
            path: pieces(self.path),
            pairs: self.pairs.into_iter().map(pair).collect(),
            sends_hidden: self.hidden,
            needs: self.needs,
        })
    }
}

impl State {
    fn into_native(self) -> PyResult<browser::State> {
        Ok(browser::State {
            label: self.label,
            asks: self.asks.into_iter().map(Ask::into_native).collect::<PyResult<_>>()?,
            contains: self.contains,
            nothing: self.nothing,
            picks: self.picks,
            reads_images: self.reads_images,
            images: self.images,
            wait_s: self.wait_s,
        })
    }
}

impl BoundArgument {
    fn into_native(self) -> Bound {
        match self {
            Self::Number(number) => Bound::Number(number),
            Self::Value((_, number)) => Bound::Value(number),
        }
    }
}

impl Value {
    fn into_native(self) -> browser::Value {
        let kind = if let Some(Number { low, high, skew, plus, width }) = self.number {
            Kind::Number { low: low.into_native(), high: high.into_native(), skew, plus, width }
        } else if let Some(texts) = self.one_of {
            Kind::OneOf(texts)
        } else if let Some((low, high)) = self.letters {
            Kind::Letters(low, high)
        } else if let Some(text) = self.text {
            Kind::Text(pieces(text))
        } else if let Some(Spelled { of, digits, width }) = self.spelled {
            Kind::Spelled { of, digits, width }
        } else {
            Kind::Nothing
        };
        browser::Value {
            kind,
            chance: self.chance,
            is_of_session: self.is_of_session,
            finds: self.finds.iter().map(|(before, until)| Find::new(before, *until)).collect(),
            none: self.none,
        }
    }
}
