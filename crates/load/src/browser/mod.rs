//! Emulated browsers: users who walk through the states of a site by a table of transitions, think between its pages, fill in
//! what they have seen, and read the images. A site is data; nothing here knows one.

mod chain;
mod encode;
mod hidden;
mod page;
mod site;
mod texts;
mod value;
mod visitor;
mod walk;

use std::sync::Arc;

use self::site::Compiled;
use self::visitor::{Shared, Visitor};
use self::walk::{Turn, Walk};
use crate::http::{Http, Origin};
use crate::random::Random;
use crate::source::{Source, Sources};

pub use self::chain::{Chain, Move, Reading};
pub use self::page::Find;
pub use self::site::{Ask, Pair, Site, State, Think};
pub use self::value::{Bound, Kind, Piece, Value};
pub use self::walk::{Lasting, Session};

/// The browsers of a run.
#[derive(Debug)]
pub struct SiteSources(Arc<Shared>);

impl SiteSources {
    /// # Errors
    /// A text that says what does not fit together in the site.
    pub fn new(site: Site, origin: Origin) -> Result<Self, String> {
        let compiled: Compiled = site.compile()?;
        Ok(Self(Arc::new(Shared { compiled, address: origin.to_string(), origin })))
    }
}

impl Sources<Http> for SiteSources {
    fn labels(&self) -> Vec<String> {
        self.0.compiled.site.states.iter().map(|state| state.label.clone()).collect()
    }

    fn source(&self, user: u32, seed: u64) -> Box<dyn Source<Http>> {
        Box::new(Visitor::new(Arc::clone(&self.0), seed, user))
    }

    fn connects_late(&self) -> bool {
        true
    }

    fn keeps_time(&self) -> bool {
        self.0.compiled.site.think.scale > 0.0
    }
}

/// How often one browser comes to each state within so many interactions, and how many sessions it begins, when all pages are
/// as they should be.
pub fn walk(site: &Site, n_steps: u64, seed: u64) -> (Vec<u64>, u64) {
    let Site { chain, session, think, states, .. } = site;
    let (mut choices, mut pauses) = (Random::of_choices(seed, 0), Random::of_thoughts(seed, 0));
    let mut walk: Walk<()> = Walk::new(session, &mut choices);
    let (mut counts, mut n_sessions) = (vec![0; states.len()], 0);
    let mut is_new = true;
    for _ in 0..n_steps {
        counts[usize::from(walk.at)] += 1;
        n_sessions += u64::from(is_new);
        is_new = walk.next(chain, session, &mut choices, &mut ()) == Turn::New;
        walk.spend(think.draw(&states[usize::from(walk.at)], &mut pauses));
    }
    (counts, n_sessions)
}

#[cfg(test)]
mod tests;
