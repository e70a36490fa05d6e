//! A browser's way through the states: sessions, and the pages that it can go back to.

use super::chain::{Chain, Move};
use crate::random::Random;

/// So many pages can be gone back to; the oldest is forgotten for another.
const DEPTH_MAX: usize = 50;

/// When a session begins and ends, besides by the table.
#[derive(Clone, Copy, Debug)]
pub struct Session {
    /// Its first state.
    pub start: u16,
    /// It ends after so many interactions.
    pub steps_max: u32,
    /// It ends with the first visit to this state after its time, which is drawn for each session.
    pub lasts: Option<Lasting>,
}

/// How long sessions last, counted in the time that their users think.
#[derive(Clone, Copy, Debug)]
pub struct Lasting {
    /// Mean of an exponential distribution, in seconds.
    pub mean_s: f64,
    /// Longer ones are cut to this.
    pub cap_s: f64,
    /// Where they end.
    pub at: u16,
}

/// What a browser does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// A new session begins, at its first state.
    New,
    /// It goes on to a state.
    On,
    /// It asks for a page again that it has seen.
    Again,
}

/// See the module; `P` is what is kept of a page to ask for it again.
#[derive(Debug)]
pub(super) struct Walk<P> {
    pub(super) at: u16,
    n_steps: u32,
    rest_s: f64,
    seen: Vec<(u16, P)>,
    depth: usize,
}

impl<P: Default + Clone> Walk<P> {
    pub(super) fn new(session: &Session, random: &mut Random) -> Self {
        let mut walk = Self { at: 0, n_steps: 0, rest_s: 0.0, seen: Vec::new(), depth: 0 };
        walk.begin(session, random);
        walk
    }

    /// Begins a session.
    pub(super) fn begin(&mut self, session: &Session, random: &mut Random) {
        self.at = session.start;
        self.n_steps = 1;
        self.depth = 0;
        self.rest_s =
            session.lasts.map_or(f64::INFINITY, |lasting| (lasting.mean_s * random.exponential()).min(lasting.cap_s));
    }

    /// Goes on as the table says; `page` is the one at hand, and becomes the one that is seen again.
    pub(super) fn next(&mut self, chain: &Chain, session: &Session, random: &mut Random, page: &mut P) -> Turn {
        if self.n_steps >= session.steps_max {
            self.begin(session, random);
            return Turn::New;
        }
        match chain.next(self.at, random) {
            Move::End => {
                self.begin(session, random);
                Turn::New
            }
            Move::Back => self.back(session, random, page),
            Move::To(state) if self.rest_s <= 0.0 && session.lasts.is_some_and(|lasting| lasting.at == state) => {
                self.begin(session, random);
                Turn::New
            }
            Move::To(state) => {
                self.keep(page);
                self.n_steps += 1;
                self.at = state;
                Turn::On
            }
        }
    }

    /// Goes back to the page before; a browser that has none begins anew.
    pub(super) fn back(&mut self, session: &Session, random: &mut Random, page: &mut P) -> Turn {
        if self.depth == 0 || self.n_steps >= session.steps_max {
            self.begin(session, random);
            return Turn::New;
        }
        self.depth -= 1;
        self.n_steps += 1;
        self.at = self.seen[self.depth].0;
        page.clone_from(&self.seen[self.depth].1);
        Turn::Again
    }

    /// Takes the last step back that [`Self::next`] made: nothing was asked there.
    pub(super) fn stay(&mut self, page: &mut P) {
        if let Some(last) = self.depth.checked_sub(1) {
            self.depth = last;
            self.n_steps -= 1;
            self.at = self.seen[last].0;
            page.clone_from(&self.seen[last].1);
        }
    }

    /// The state whose page was left for this one; none at a session's first.
    pub(super) fn before(&self) -> Option<u16> {
        self.depth.checked_sub(1).map(|last| self.seen[last].0)
    }

    /// Some of the session's time is over.
    pub(super) fn spend(&mut self, time_s: f64) {
        self.rest_s -= time_s;
    }

    fn keep(&mut self, page: &P) {
        if self.depth == DEPTH_MAX {
            self.seen.rotate_left(1);
            self.depth -= 1;
        }
        if self.depth == self.seen.len() {
            self.seen.push((self.at, P::default()));
        }
        let (state, kept) = &mut self.seen[self.depth];
        *state = self.at;
        kept.clone_from(page);
        self.depth += 1;
    }
}
