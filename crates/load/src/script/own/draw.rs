//! Drawing values while a run goes on.

use std::fmt::Write;

use super::super::expression::State;
use super::super::random::{Zipf, exponential, gaussian};
use super::super::scatter::permute;
use super::super::value::{Scalar, Slot};
use super::generator::{Generator, Pick, Value};
use crate::calendar::{parse_date, parse_timestamp, write_date, write_timestamp};
use crate::random::Random;
use crate::weights::{cumulate, pick};

/// The order in which scrambled distributions favour values is the same in every run.
const SCRAMBLE_SEED: i64 = 0;

/// A generator ready to fill a slot.
#[derive(Debug)]
pub(in super::super) struct Drawn {
    pub(super) each: bool,
    pub(super) null_share: f64,
    pub(super) how: How,
}

#[derive(Debug)]
pub(super) enum How {
    Int(i64, i64),
    Zipfian {
        low: i64,
        law: Zipf,
        span: i64,
        scrambled: bool,
    },
    Gaussian(i64, i64, f64),
    Exponential(i64, i64, f64),
    Serial {
        start: i64,
        step: i64,
        unique: bool,
        counter: u32,
    },
    Float(f64, f64),
    Text {
        length: (u32, u32),
        alphabet: Box<[char]>,
    },
    Choice {
        values: Box<[Value]>,
        cumulative: Option<Box<[f64]>>,
    },
    /// A row's number.
    Row {
        n: u64,
        law: Option<(Zipf, bool)>,
    },
    /// One column of the row whose number is in a slot.
    Column {
        row: u32,
        generator: u32,
        values: Box<[Value]>,
    },
    Date(i64, i64),
    Timestamp(i64, i64),
    Uuid,
    Bool(f64),
}

/// What drawing needs to know of a user.
#[derive(Debug)]
pub(in super::super) struct User {
    pub(in super::super) number: u32,
    pub(in super::super) users: u32,
    /// How many values each serial has given.
    pub(in super::super) counters: Vec<i64>,
}

impl How {
    /// A generator that was checked; a serial counts with this counter. Rows are compiled apart.
    pub(super) fn new(generator: &Generator, counter: u32) -> Result<Self, String> {
        Ok(match generator {
            Generator::Int { low, high } => Self::Int(*low, *high),
            Generator::IntZipfian { low, high, s, scrambled } => {
                let span = high - low + 1;
                Self::Zipfian { low: *low, law: Zipf::new(span as u64, *s), span, scrambled: *scrambled }
            }
            Generator::IntGaussian { low, high, parameter } => Self::Gaussian(*low, *high, *parameter),
            Generator::IntExponential { low, high, parameter } => Self::Exponential(*low, *high, *parameter),
            Generator::Serial { start, step, unique } => {
                Self::Serial { start: *start, step: *step, unique: *unique, counter }
            }
            Generator::Float { low, high } => Self::Float(*low, *high),
            Generator::Text { length, alphabet } => {
                Self::Text { length: *length, alphabet: alphabet.chars().collect() }
            }
            Generator::Choice { values, weights } => {
                Self::Choice { values: values.clone().into(), cumulative: weights.as_deref().map(cumulate) }
            }
            Generator::Rows { rows, pick } => {
                let n = rows.len() as u64;
                let law = match *pick {
                    Pick::Uniform => None,
                    Pick::Zipfian { s, scrambled } => Some((Zipf::new(n, s), scrambled)),
                };
                Self::Row { n, law }
            }
            Generator::Date { low, high } => Self::Date(parse_date(low)?, parse_date(high)?),
            Generator::Timestamp { low, high } => Self::Timestamp(parse_timestamp(low)?, parse_timestamp(high)?),
            Generator::Uuid => Self::Uuid,
            Generator::Bool { share } => Self::Bool(*share),
        })
    }

    /// Whether values are texts, or stand as texts for those of other types.
    pub(super) fn is_text(&self) -> bool {
        match self {
            Self::Text { .. } | Self::Date(..) | Self::Timestamp(..) | Self::Uuid => true,
            Self::Choice { values, .. } | Self::Column { values, .. } => {
                values.iter().any(|value| matches!(value, Value::Text(_)))
            }
            _ => false,
        }
    }
}

/// The place of a rank (from 1) among `n`, from 0.
fn scramble(rank: u64, n: i64, scrambled: bool) -> i64 {
    let place = rank as i64 - 1;
    if scrambled { permute(place, n, SCRAMBLE_SEED) } else { place }
}

/// Fills the slot that a placeholder reads, unless the transaction has its value already.
pub(in super::super) fn fill(generators: &[Drawn], generator: u32, slot: u32, state: &mut State, user: &mut User) {
    let drawn = &generators[generator as usize];
    if !drawn.each && state.slots[slot as usize].value != Scalar::Unset {
        return;
    }
    if let How::Column { row, generator, values } = &drawn.how {
        fill(generators, *generator, *row, state, user);
        let Scalar::Int(number) = state.slots[*row as usize].value else { return };
        assign(&mut state.slots[slot as usize], &values[number as usize]);
    } else {
        drawn.how.draw(&mut state.slots[slot as usize], &mut state.rng, user);
    }
    if drawn.null_share > 0.0 && state.rng.unit() < drawn.null_share {
        state.slots[slot as usize].value = Scalar::Null;
    }
}

impl How {
    fn draw(&self, slot: &mut Slot, rng: &mut Random, user: &mut User) {
        slot.value = match self {
            Self::Int(low, high) => Scalar::Int(rng.between(*low, *high)),
            Self::Zipfian { low, law, span, scrambled } => {
                Scalar::Int(low + scramble(law.draw(rng), *span, *scrambled))
            }
            Self::Gaussian(low, high, parameter) => Scalar::Int(gaussian(rng, *low, *high, *parameter)),
            Self::Exponential(low, high, parameter) => Scalar::Int(exponential(rng, *low, *high, *parameter)),
            Self::Serial { start, step, unique, counter } => {
                let count = &mut user.counters[*counter as usize];
                let turn = if *unique { *count * i64::from(user.users) + i64::from(user.number) } else { *count };
                *count += 1;
                Scalar::Int(start.wrapping_add(step.wrapping_mul(turn)))
            }
            Self::Float(low, high) => Scalar::Float(low + (high - low) * rng.unit()),
            Self::Bool(share) => Scalar::Bool(rng.unit() < *share),
            Self::Row { n, law } => Scalar::Int(match law {
                Some((law, scrambled)) => scramble(law.draw(rng), *n as i64, *scrambled),
                None => rng.below(*n) as i64,
            }),
            Self::Choice { values, cumulative } => {
                let index = match cumulative {
                    Some(cumulative) => pick(cumulative, rng),
                    None => rng.below(values.len() as u64) as usize,
                };
                return assign(slot, &values[index]);
            }
            _ => return slot.write_text(|text| self.write(text, rng)),
        };
    }

    /// Those whose values are texts.
    fn write(&self, text: &mut String, rng: &mut Random) {
        match self {
            Self::Text { length: (fewest, most), alphabet } => {
                let length = rng.between(i64::from(*fewest), i64::from(*most));
                text.extend((0..length).map(|_| alphabet[rng.below(alphabet.len() as u64) as usize]));
            }
            Self::Date(low, high) => write_date(text, rng.between(*low, *high)),
            Self::Timestamp(low, high) => write_timestamp(text, rng.between(*low, *high)),
            Self::Uuid => {
                let (high, low) = (rng.bits(), rng.bits());
                // Version 4, variant 1 of RFC 9562.
                let (high, low) = (high & !0xf000 | 0x4000, low & !(3 << 62) | 2 << 62);
                let (a, b, c) = (high >> 32, high >> 16 & 0xffff, high & 0xffff);
                _ = write!(text, "{a:08x}-{b:04x}-{c:04x}-{:04x}-{:012x}", low >> 48, low & 0xffff_ffff_ffff);
            }
            _ => unreachable!("the others have no text"),
        }
    }
}

fn assign(slot: &mut Slot, value: &Value) {
    slot.value = match value {
        Value::Null => Scalar::Null,
        Value::Bool(value) => Scalar::Bool(*value),
        Value::Int(value) => Scalar::Int(*value),
        Value::Float(value) => Scalar::Float(*value),
        Value::Text(text) => return slot.set_text(text),
    };
}
