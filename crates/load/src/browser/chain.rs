//! Which state follows: a table of weights.

use crate::random::Random;

/// How the weights of a table are read whose rows do not add up to 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reading {
    /// Each is divided by the sum of its row.
    Normalised,
    /// They are walked along in their order until their sum exceeds a number drawn from [0, 1), as RUBiS's emulator does: what
    /// lies beyond 1 never comes, and where the sum is less the same state comes again.
    Literal,
}

/// What comes after a state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Move {
    /// This state.
    To(u16),
    /// The page before.
    Back,
    /// Nothing: the session ends.
    End,
}

/// A transition table.
#[derive(Clone, Debug)]
pub struct Chain(Vec<Row>);

#[derive(Clone, Debug)]
struct Row {
    cumulative: Box<[f64]>,
    moves: Box<[Move]>,
}

impl Chain {
    /// One row for each state, with the weights of what follows it in their order.
    ///
    /// # Errors
    /// A text that names the state by its number.
    pub fn new(rows: Vec<Vec<(Move, f64)>>, reading: Reading) -> Result<Self, String> {
        let n_states = rows.len();
        let compiled = rows.into_iter().enumerate().map(|(state, row)| {
            Row::new(row, n_states, reading).map_err(|text| format!("transitions of state number {state}: {text}"))
        });
        compiled.collect::<Result<_, _>>().map(Self)
    }

    /// How many states there are.
    pub fn n_states(&self) -> usize {
        self.0.len()
    }

    /// Whether going back is one of the moves from `state`.
    pub fn leads_back(&self, state: u16) -> bool {
        self.0[usize::from(state)].moves.contains(&Move::Back)
    }

    /// What comes after `state`.
    pub fn next(&self, state: u16, random: &mut Random) -> Move {
        let row = &self.0[usize::from(state)];
        let share = random.unit();
        let place = row.cumulative.partition_point(|&upper| upper <= share);
        row.moves.get(place).copied().unwrap_or(Move::To(state))
    }
}

impl Row {
    fn new(row: Vec<(Move, f64)>, n_states: usize, reading: Reading) -> Result<Self, String> {
        if let Some((wrong, weight)) = row.iter().find(|(_, weight)| !(*weight >= 0.0 && weight.is_finite())) {
            return Err(format!("the weight of {wrong:?} is {weight}"));
        }
        if let Some((wrong, _)) = row.iter().find(|(to, _)| matches!(to, Move::To(to) if usize::from(*to) >= n_states))
        {
            return Err(format!("{wrong:?}: there are {n_states} states"));
        }
        let sum: f64 = row.iter().map(|(_, weight)| weight).sum();
        if !(sum > 0.0 && sum.is_finite()) {
            return Err("no weight is above 0, or their sum is infinite".to_owned());
        }
        let whole = if reading == Reading::Normalised { sum } else { 1.0 };
        let mut so_far = 0.0;
        let cumulative = row.iter().map(|(_, weight)| {
            so_far += weight;
            so_far / whole
        });
        Ok(Self { cumulative: cumulative.collect(), moves: row.iter().map(|(to, _)| *to).collect() })
    }
}
