//! A site as its browsers see it: states, what each asks for, and what its page must be.

use memchr::memmem::Finder;

use super::chain::Chain;
use super::hidden::Hidden;
use super::value::{Memory, Piece, Value, Values};
use super::walk::Session;
use crate::driver::ErrorClass;
use crate::http::Method;
use crate::random::Random;

/// A site: plain data, checked by [`Site::compile`].
#[derive(Clone, Debug)]
pub struct Site {
    /// What the transition table speaks of, by number.
    pub states: Vec<State>,
    /// What follows what.
    pub chain: Chain,
    /// When sessions begin and end.
    pub session: Session,
    /// What requests are made of; each of those before it only.
    pub values: Vec<Value>,
    /// Pauses between interactions.
    pub think: Think,
    /// Pairs of the query of each GET, and fields of the form of each POST; those without a value are left out.
    pub always: Vec<Pair>,
    /// A page with one of these has failed; the word behind it is the failure's code.
    pub errors: Vec<String>,
    /// In an open loop: whether it is sessions that come by the schedule, and not interactions.
    pub counts_sessions: bool,
}

/// One of a site's states.
#[derive(Clone, Debug)]
pub struct State {
    /// Its name in the results.
    pub label: String,
    /// What is asked for, one of these.
    pub asks: Vec<Ask>,
    /// Must stand in the page, all of them.
    pub contains: Vec<String>,
    /// Where one of these stands in the page, it has nothing to show or to do: the browser goes back.
    pub nothing: Vec<String>,
    /// Values to look for in the page.
    pub picks: Vec<u16>,
    /// Whether the images of the page are read.
    pub reads_images: bool,
    /// Images besides those that stand in the page.
    pub images: Vec<String>,
    /// How long users wait before they come here, when waits are fixed.
    pub wait_s: f64,
}

/// One way to ask for a state's page.
#[derive(Clone, Debug)]
pub struct Ask {
    /// How often, relative to the others that can be asked.
    pub share: f64,
    /// Asked only if this value is there (true) or is not (false).
    pub when: Option<(u16, bool)>,
    /// Asked only behind a page of one of these states, and there in place of those that name none; empty: behind any page.
    pub after: Vec<u16>,
    /// What is done.
    pub method: Method,
    /// Path and query; its values must be there.
    pub path: Vec<Piece>,
    /// Further pairs of a GET's query, or the fields of a POST's form; those whose name or value lacks a value are left out.
    pub pairs: Vec<Pair>,
    /// Whether the hidden fields of the page before are sent too, and must be there: those of a form that leads to the path (by
    /// the same method if there is one), or all where none does.
    pub sends_hidden: bool,
    /// Values that must be there.
    pub needs: Vec<u16>,
}

/// Name and value of a field.
#[derive(Clone, Debug)]
pub struct Pair {
    /// The name.
    pub name: Vec<Piece>,
    /// The value.
    pub value: Vec<Piece>,
}

/// How long users think.
#[derive(Clone, Copy, Debug)]
pub struct Think {
    /// Mean and cap of an exponential distribution, in seconds; `None`: as long as the next state says.
    pub exponential_s: Option<(f64, f64)>,
    /// All of it is multiplied with this.
    pub scale: f64,
}

impl Think {
    /// Seconds before the next interaction, not scaled.
    pub(super) fn draw(&self, state: &State, random: &mut Random) -> f64 {
        self.exponential_s.map_or(state.wait_s, |(mean_s, cap_s)| (mean_s * random.exponential()).min(cap_s))
    }
}

/// A site that was checked.
#[derive(Debug)]
pub(super) struct Compiled {
    pub(super) site: Site,
    pub(super) values: Values,
    pub(super) contains: Vec<Vec<Finder<'static>>>,
    pub(super) nothing: Vec<Vec<Finder<'static>>>,
    pub(super) errors: Vec<Finder<'static>>,
    pub(super) reads_hidden: bool,
}

impl Site {
    /// # Errors
    /// What does not fit together.
    pub(super) fn compile(mut self) -> Result<Compiled, String> {
        self.check()?;
        let finders = |texts: &[String]| texts.iter().map(|text| Finder::new(text).into_owned()).collect::<Vec<_>>();
        let values = Values::new(std::mem::take(&mut self.values))?;
        Ok(Compiled {
            contains: self.states.iter().map(|state| finders(&state.contains)).collect(),
            nothing: self.states.iter().map(|state| finders(&state.nothing)).collect(),
            errors: finders(&self.errors),
            reads_hidden: self.states.iter().flat_map(|state| &state.asks).any(|ask| ask.sends_hidden),
            values,
            site: self,
        })
    }

    fn check(&self) -> Result<(), String> {
        let n_states = self.states.len();
        if n_states == 0 || n_states != self.chain.n_states() {
            return Err(format!("{n_states} states, and transitions of {}", self.chain.n_states()));
        }
        let Session { start, steps_max, lasts } = self.session;
        let of_session = [Some(start), lasts.map(|lasting| lasting.at)];
        if let Some(wrong) = of_session.into_iter().flatten().find(|&state| usize::from(state) >= n_states) {
            return Err(format!("session: there is no state number {wrong}"));
        }
        if steps_max == 0 {
            return Err("session: it has no interactions".to_owned());
        }
        let is_time = |time_s: f64| time_s >= 0.0 && time_s.is_finite();
        let (mean_s, cap_s) = self.think.exponential_s.unwrap_or_default();
        let (lasts_s, lasts_cap_s) = lasts.map_or((0.0, 0.0), |lasting| (lasting.mean_s, lasting.cap_s));
        let mut times = vec![self.think.scale, mean_s, cap_s, lasts_s, lasts_cap_s];
        times.extend(self.states.iter().map(|state| state.wait_s));
        if let Some(wrong) = times.into_iter().find(|&time_s| !is_time(time_s)) {
            return Err(format!("{wrong} is not a time in seconds"));
        }
        self.states
            .iter()
            .try_for_each(|state| self.check_state(state).map_err(|text| format!("{}: {text}", state.label)))
    }

    fn check_state(&self, state: &State) -> Result<(), String> {
        if state.asks.is_empty() {
            return Err("nothing is asked for".to_owned());
        }
        if let Some(ask) = state.asks.iter().find(|ask| !(ask.share > 0.0 && ask.share.is_finite())) {
            return Err(format!("share={} is not above 0", ask.share));
        }
        if state.asks.iter().any(|ask| !matches!(ask.path.first(), Some(Piece::Text(text)) if text.starts_with('/'))) {
            return Err("a path does not begin with /".to_owned());
        }
        let pairs = self.always.iter().chain(state.asks.iter().flat_map(|ask| &ask.pairs));
        let in_pairs = pairs.flat_map(|pair| pair.name.iter().chain(&pair.value));
        let in_paths = state.asks.iter().flat_map(|ask| &ask.path);
        let used = in_pairs.chain(in_paths).filter_map(Piece::value);
        let named = state.asks.iter().flat_map(|ask| ask.needs.iter().copied().chain(ask.when.map(|(value, _)| value)));
        let after = state.asks.iter().flat_map(|ask| &ask.after);
        if let Some(wrong) = after.into_iter().find(|&&before| usize::from(before) >= self.states.len()) {
            return Err(format!("there is no state number {wrong}"));
        }
        match used.chain(named).chain(state.picks.iter().copied()).find(|&n| usize::from(n) >= self.values.len()) {
            Some(wrong) => Err(format!("there is no value number {wrong}")),
            None => Ok(()),
        }
    }
}

/// A request that was put together, to be sent as often as the page is asked for.
#[derive(Debug, Default)]
pub(super) struct Asked {
    pub(super) method: Method,
    pub(super) target: String,
    pub(super) form: String,
}

impl Clone for Asked {
    fn clone(&self) -> Self {
        Self { method: self.method, target: self.target.clone(), form: self.form.clone() }
    }

    /// Keeps the memory.
    fn clone_from(&mut self, other: &Self) {
        self.method = other.method;
        self.target.clone_from(&other.target);
        self.form.clone_from(&other.form);
    }
}

/// What a browser has at hand to put requests together.
pub(super) struct Pen<'a> {
    pub(super) memory: &'a mut Memory,
    pub(super) random: &'a mut Random,
    /// The hidden fields of the page before.
    pub(super) hidden: &'a Hidden,
    /// The state of the page before.
    pub(super) from: Option<u16>,
}

impl Compiled {
    /// Writes the request for a state; false when something that it needs is not there.
    pub(super) fn write(&self, state: u16, pen: &mut Pen<'_>, asked: &mut Asked) -> bool {
        let Some(ask) = self.choose(state, pen) else { return false };
        let is_there = ask.needs.iter().all(|&value| !pen.memory.get(&self.values, value, pen.random).is_empty());
        if !is_there || (ask.sends_hidden && pen.hidden.is_empty()) {
            return false;
        }
        asked.method = ask.method;
        asked.target.clear();
        asked.form.clear();
        if !self.write_path(&ask.path, pen, &mut asked.target) {
            return false;
        }
        let is_posted = ask.method.has_body();
        let form = if ask.sends_hidden { pen.hidden.choose(&asked.target, is_posted, pen.random) } else { None };
        let (out, mut joint) = if is_posted {
            (&mut asked.form, "")
        } else {
            let joint = if asked.target.contains('?') { "&" } else { "?" };
            (&mut asked.target, joint)
        };
        if ask.sends_hidden {
            pen.hidden.write(form, joint, out);
            joint = "&";
        }
        for pair in self.site.always.iter().chain(&ask.pairs) {
            let start = out.len();
            out.push_str(joint);
            if self.write_pair(pair, pen, out) {
                joint = "&";
            } else {
                out.truncate(start);
            }
        }
        true
    }

    /// False when a value of it is empty.
    fn write_path(&self, path: &[Piece], pen: &mut Pen<'_>, out: &mut String) -> bool {
        path.iter().all(|piece| match piece {
            Piece::Text(text) => {
                out.push_str(text);
                true
            }
            Piece::Value(value) => pen.memory.push_path(&self.values, *value, pen.random, out),
        })
    }

    /// False when a value of it is empty.
    fn write_pair(&self, pair: &Pair, pen: &mut Pen<'_>, out: &mut String) -> bool {
        let has_name = self.push(&pair.name, pen, out);
        out.push('=');
        has_name && self.push(&pair.value, pen, out)
    }

    /// The values are drawn once for an interaction, so it does not matter how often they are asked for.
    fn choose(&self, state: u16, pen: &mut Pen<'_>) -> Option<&Ask> {
        let asks = &self.site.states[usize::from(state)].asks;
        if let [ask] = &asks[..]
            && ask.after.is_empty()
        {
            return self.can(ask, pen).then_some(ask);
        }
        let from = pen.from;
        let is_behind = |ask: &&Ask| from.is_some_and(|from| ask.after.contains(&from));
        let mut choose = |is_in: &dyn Fn(&&Ask) -> bool| {
            let mut whole = 0.0;
            for ask in asks.iter().filter(is_in) {
                whole += if self.can(ask, pen) { ask.share } else { 0.0 };
            }
            let mut rest = whole * if whole > 0.0 { pen.random.unit() } else { 0.0 };
            asks.iter().filter(is_in).find(|ask| {
                self.can(ask, pen) && {
                    rest -= ask.share;
                    rest < 0.0
                }
            })
        };
        choose(&is_behind).or_else(|| choose(&|ask| ask.after.is_empty()))
    }

    fn can(&self, ask: &Ask, pen: &mut Pen<'_>) -> bool {
        ask.when.is_none_or(|(value, is_there)| pen.memory.get(&self.values, value, pen.random).is_empty() != is_there)
    }

    /// False when a value is empty.
    fn push(&self, pieces: &[Piece], pen: &mut Pen<'_>, out: &mut String) -> bool {
        pieces.iter().all(|piece| match piece {
            Piece::Text(text) => {
                out.push_str(text);
                true
            }
            Piece::Value(value) => pen.memory.push_form(&self.values, *value, pen.random, out),
        })
    }

    /// What a page without redirect is.
    pub(super) fn judge(&self, state: u16, status: u16, body: &[u8]) -> Judgement<'_> {
        let word = self.errors.iter().find_map(|mark| super::page::word_after(body, mark));
        let class = match status {
            400..=499 => ErrorClass::Http4xx,
            500..=599 => ErrorClass::Http5xx,
            200..=299 if word.is_some() => ErrorClass::ErrorPage,
            200..=299 => return self.judge_text(state, body),
            _ => ErrorClass::Validation,
        };
        Judgement::Failed(class)
    }

    /// The word that the page gives for its failure.
    pub(super) fn word<'a>(&self, body: &'a [u8]) -> &'a str {
        self.errors.iter().find_map(|mark| super::page::word_after(body, mark)).unwrap_or("")
    }

    fn judge_text(&self, state: u16, body: &[u8]) -> Judgement<'_> {
        let number = usize::from(state);
        if self.nothing[number].iter().any(|text| text.find(body).is_some()) {
            return Judgement::Nothing;
        }
        let lacks = |(place, text): (usize, &Finder<'_>)| text.find(body).is_none().then_some(place);
        match self.contains[number].iter().enumerate().find_map(lacks) {
            Some(place) => Judgement::Lacks(&self.site.states[number].contains[place]),
            None => Judgement::Right,
        }
    }
}

/// See [`Compiled::judge`].
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Judgement<'a> {
    /// As it should be.
    Right,
    /// It has nothing to show.
    Nothing,
    /// This text is not in it.
    Lacks(&'a str),
    /// By its status or an error mark.
    Failed(ErrorClass),
}
