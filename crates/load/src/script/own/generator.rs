//! How values of placeholders are made, as the user describes them.

use crate::calendar::{parse_date, parse_timestamp};
use crate::weights::check_weights;

/// A transaction of the user's own statements.
#[derive(Clone, Debug)]
pub struct Transaction {
    /// Its name in the results.
    pub label: String,
    /// How often it is chosen, relative to the others.
    pub weight: f64,
    /// The file's name, for messages.
    pub file: String,
    /// Its statements with `:name` placeholders, ended by semicolons, run in order.
    pub text: String,
    /// Where the placeholders' values come from; those that it does not use cost nothing.
    pub parameters: Vec<Parameter>,
    /// What stands around the statements.
    pub wrap: Wrap,
}

/// What stands around a transaction's statements.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Wrap {
    /// Nothing: every statement commits by itself.
    #[default]
    None,
    /// BEGIN and COMMIT.
    Commit,
    /// BEGIN and ROLLBACK: writes leave no trace.
    Rollback,
}

/// One generator with the placeholders that it fills.
#[derive(Clone, Debug)]
pub struct Parameter {
    /// The placeholders: one, or as many as the rows of [`Generator::Rows`] have columns.
    pub names: Vec<String>,
    /// How the values are made.
    pub generator: Generator,
    /// Whether every use of the placeholder has a value of its own; else a transaction has one.
    pub each: bool,
    /// Share of values that are NULL instead (0 to 1).
    pub null_share: f64,
}

/// A value as the user gives it.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// NULL.
    Null,
    /// A truth value.
    Bool(bool),
    /// A whole number.
    Int(i64),
    /// A real number.
    Float(f64),
    /// A text, or the text form of any other type.
    Text(String),
}

/// Which row of a list is taken.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pick {
    /// All alike.
    Uniform,
    /// Row k with probability ∝ k^−s; `scrambled` spreads the favoured rows over the list.
    Zipfian {
        /// The exponent, above 0.
        s: f64,
        /// Whether the favoured rows are spread.
        scrambled: bool,
    },
}

/// How a value is made. Ranges include both ends.
#[derive(Clone, Debug, PartialEq)]
pub enum Generator {
    /// Whole numbers, all alike.
    Int {
        /// The least.
        low: i64,
        /// The greatest.
        high: i64,
    },
    /// Whole numbers: the k-th of the range with probability ∝ k^−s.
    IntZipfian {
        /// The least.
        low: i64,
        /// The greatest.
        high: i64,
        /// The exponent, above 0.
        s: f64,
        /// Whether the favoured numbers are spread over the range.
        scrambled: bool,
    },
    /// Whole numbers, favouring the middle, as pgbench's `random_gaussian`.
    IntGaussian {
        /// The least.
        low: i64,
        /// The greatest.
        high: i64,
        /// At least 2.0; 95 % of the values lie in the middle 2.0 / `parameter` of the range.
        parameter: f64,
    },
    /// Whole numbers, favouring the least, as pgbench's `random_exponential`.
    IntExponential {
        /// The least.
        low: i64,
        /// The greatest.
        high: i64,
        /// Above 0.
        parameter: f64,
    },
    /// Whole numbers that count up from `start` by `step`.
    Serial {
        /// The first.
        start: i64,
        /// From one to the next; not 0.
        step: i64,
        /// Whether no two users have the same value (they take turns); else every user counts for itself.
        unique: bool,
    },
    /// Real numbers from `low` to below `high`.
    Float {
        /// The least.
        low: f64,
        /// What all are below.
        high: f64,
    },
    /// Texts of random characters.
    Text {
        /// Fewest and most characters.
        length: (u32, u32),
        /// The characters to draw from.
        alphabet: String,
    },
    /// One of these values.
    Choice {
        /// The values.
        values: Vec<Value>,
        /// How often each is taken, relative to the others; all alike without.
        weights: Option<Vec<f64>>,
    },
    /// One row of a list (sampled keys, say); every column is a placeholder.
    Rows {
        /// The rows, all of the same length.
        rows: Vec<Vec<Value>>,
        /// Which row.
        pick: Pick,
    },
    /// Dates as ISO text.
    Date {
        /// The earliest, `YYYY-MM-DD`.
        low: String,
        /// The latest.
        high: String,
    },
    /// Times without a zone as ISO text, by the microsecond.
    Timestamp {
        /// The earliest, `YYYY-MM-DD HH:MM:SS[.ffffff]`.
        low: String,
        /// The latest.
        high: String,
    },
    /// Random UUIDs (version 4).
    Uuid,
    /// Truth values.
    Bool {
        /// Share of true (0 to 1).
        share: f64,
    },
}

fn ordered<T: PartialOrd + std::fmt::Display>(low: &T, high: &T) -> Result<(), String> {
    if low <= high { Ok(()) } else { Err(format!("low={low} is above high={high}")) }
}

fn allowed(is_allowed: bool, name: &str, value: f64, wanted: &str) -> Result<(), String> {
    if is_allowed { Ok(()) } else { Err(format!("{name}={value} must be {wanted}")) }
}

fn exponent(s: f64) -> Result<(), String> {
    allowed(s > 0.0 && s <= 1000.0, "s", s, "above 0 and at most 1000")
}

/// Whether the range has fewer than 2⁶³ values, as the distributions need.
fn countable(low: i64, high: i64) -> Result<(), String> {
    ordered(&low, &high)?;
    match high.checked_sub(low) {
        Some(last) if last < i64::MAX => Ok(()),
        _ => Err(format!("the range is too large, low={low} high={high}")),
    }
}

impl Generator {
    /// What is wrong with it.
    pub(super) fn check(&self) -> Result<(), String> {
        match self {
            Self::Int { low, high } => ordered(low, high),
            Self::IntZipfian { low, high, s, .. } => countable(*low, *high).and_then(|()| exponent(*s)),
            Self::IntGaussian { low, high, parameter } => countable(*low, *high)
                .and_then(|()| allowed(*parameter >= 2.0, "parameter", *parameter, "at least 2.0")),
            Self::IntExponential { low, high, parameter } => {
                countable(*low, *high).and_then(|()| allowed(*parameter > 0.0, "parameter", *parameter, "above 0"))
            }
            Self::Serial { step, .. } => allowed(*step != 0, "step", *step as f64, "other than 0"),
            Self::Float { low, high } => {
                allowed((high - low).is_finite(), "high - low", high - low, "finite").and_then(|()| ordered(low, high))
            }
            Self::Text { alphabet, .. } if alphabet.is_empty() => Err("the alphabet is empty".to_owned()),
            Self::Text { length: (fewest, most), .. } => ordered(fewest, most),
            Self::Choice { values, .. } if values.is_empty() => Err("there is no value to choose".to_owned()),
            Self::Choice { values, weights: Some(weights) } if values.len() != weights.len() => {
                Err(format!("{} weights for {} values", weights.len(), values.len()))
            }
            Self::Choice { weights, .. } => weights.as_deref().map_or(Ok(()), check_weights),
            Self::Rows { rows, pick } => check_rows(rows, *pick),
            Self::Date { low, high } => ordered(&parse_date(low)?, &parse_date(high)?),
            Self::Timestamp { low, high } => ordered(&parse_timestamp(low)?, &parse_timestamp(high)?),
            Self::Uuid => Ok(()),
            Self::Bool { share } => allowed((0.0..=1.0).contains(share), "share", *share, "from 0 to 1"),
        }
    }

    /// How many placeholders it fills.
    pub(super) fn width(&self) -> usize {
        match self {
            Self::Rows { rows, .. } => rows.first().map_or(1, Vec::len),
            _ => 1,
        }
    }
}

fn check_rows(rows: &[Vec<Value>], pick: Pick) -> Result<(), String> {
    let Some(first) = rows.first() else {
        return Err("the list has no rows".to_owned());
    };
    if let Some((i, row)) = rows.iter().enumerate().find(|(_, row)| row.len() != first.len()) {
        return Err(format!("row {} has {} columns, the first has {}", i + 1, row.len(), first.len()));
    }
    match pick {
        Pick::Zipfian { s, .. } => exponent(s),
        Pick::Uniform => Ok(()),
    }
}
