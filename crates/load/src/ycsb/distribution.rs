//! Which record an operation is about, and how long fields and scans are.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::acknowledged::Acknowledged;
use super::zipfian::{Scrambled, Zipfian};
use crate::random::Random;

/// How often each record is asked for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum KeyDistribution {
    /// All records of the start alike.
    Uniform,
    /// Few records most of the time, scattered over the table.
    Zipfian,
    /// The newest records most of the time.
    Latest,
    /// A share of the records of the start gets a share of the operations; alike within and without.
    Hotspot {
        /// Share of the records, 0 to 1.
        data_fraction: f64,
        /// Share of the operations, 0 to 1.
        operation_fraction: f64,
    },
    /// Exponentially fewer operations the older a record is.
    Exponential {
        /// So many percent of the operations ...
        percentile: f64,
        /// ... go to this share of the records, the newest.
        data_fraction: f64,
    },
    /// One record after the other, all users together.
    Sequential,
}

impl KeyDistribution {
    /// YCSB's default hotspot.
    pub const HOTSPOT: Self = Self::Hotspot { data_fraction: 0.2, operation_fraction: 0.8 };
    /// YCSB's default exponential.
    pub const EXPONENTIAL: Self = Self::Exponential { percentile: 95.0, data_fraction: 0.857_142_857_1 };

    pub(super) fn check(self) -> Result<(), String> {
        let is_share = |x: f64| (0.0..=1.0).contains(&x);
        let is_inner = |x: f64| x > 0.0 && x < 100.0;
        match self {
            Self::Hotspot { data_fraction, operation_fraction }
                if !(is_share(data_fraction) && is_share(operation_fraction)) =>
            {
                Err(format!(
                    "hotspot: data_fraction={data_fraction} and operation_fraction={operation_fraction} must be 0 to 1"
                ))
            }
            Self::Exponential { percentile, .. } if !is_inner(percentile) => {
                Err(format!("exponential: percentile={percentile} must be between 0 and 100"))
            }
            Self::Exponential { data_fraction, .. } if !(data_fraction > 0.0 && data_fraction.is_finite()) => {
                Err(format!("exponential: data_fraction={data_fraction} must be above 0"))
            }
            _ => Ok(()),
        }
    }
}

/// Draws record numbers for one user.
#[derive(Debug)]
pub struct KeyChooser {
    start: u64,
    n_records: u64,
    kind: Kind,
    existing: Arc<Acknowledged>,
}

#[derive(Debug)]
enum Kind {
    Uniform,
    Zipfian(Scrambled),
    Latest(Zipfian),
    Hotspot { n_hot: u64, share: f64 },
    Exponential { mean: f64 },
    Sequential(Arc<AtomicU64>),
}

impl KeyChooser {
    /// A table whose records are nearly all still to come, or whose inserts all fail, must not hang a user.
    const MAX_TRIES: u32 = 10_000;

    /// Over the `n_records` records from `start` on and what is inserted behind them.
    ///
    /// `expected_inserts` is for zipfian: its items are the records of the start and twice as many as will be inserted, so
    /// that the popular ones stay the same while the table grows; `position` is shared by all users, for sequential.
    pub fn new(
        distribution: KeyDistribution,
        (start, n_records): (u64, u64),
        expected_inserts: u64,
        existing: Arc<Acknowledged>,
        position: Arc<AtomicU64>,
    ) -> Self {
        let kind = match distribution {
            KeyDistribution::Uniform => Kind::Uniform,
            // One more, because YCSB's upper bound is inclusive: so the same records are popular as there.
            KeyDistribution::Zipfian => Kind::Zipfian(Scrambled::new(n_records + 2 * expected_inserts + 1)),
            KeyDistribution::Latest => Kind::Latest(Zipfian::new(n_records - 1)),
            KeyDistribution::Hotspot { data_fraction, operation_fraction } => {
                Kind::Hotspot { n_hot: (n_records as f64 * data_fraction) as u64, share: operation_fraction }
            }
            KeyDistribution::Exponential { percentile, data_fraction } => {
                Kind::Exponential { mean: n_records as f64 * data_fraction / -(1.0 - percentile / 100.0).ln() }
            }
            KeyDistribution::Sequential => Kind::Sequential(position),
        };
        Self { start, n_records, kind, existing }
    }

    /// The number of a record that exists.
    pub fn draw(&mut self, random: &mut Random) -> u64 {
        for _ in 0..Self::MAX_TRIES {
            let end = self.existing.end();
            if let Some(number) = self.candidate(end - self.start, random).map(|offset| self.start + offset)
                && number < end
                && !self.existing.is_hole(number)
            {
                return number;
            }
        }
        self.start
    }

    /// A record's distance from the first; `None` for one before the first. `n` exist.
    fn candidate(&mut self, n: u64, random: &mut Random) -> Option<u64> {
        match &mut self.kind {
            Kind::Uniform => Some(random.below(self.n_records)),
            Kind::Zipfian(scrambled) => Some(scrambled.item(random.unit())),
            Kind::Latest(zipfian) => {
                zipfian.resize(n - 1);
                Some(n - 1 - zipfian.item(random.unit()))
            }
            Kind::Hotspot { n_hot, share } => {
                let n_cold = self.n_records - *n_hot;
                // With an empty set all operations go to the other.
                let is_hot = n_cold == 0 || (*n_hot > 0 && random.unit() < *share);
                Some(if is_hot { random.below(*n_hot) } else { *n_hot + random.below(n_cold) })
            }
            Kind::Exponential { mean } => {
                // 1 - u is never 0, and as good as u.
                let age = -(1.0 - random.unit()).ln() * *mean;
                (n - 1).checked_sub(age as u64)
            }
            Kind::Sequential(position) => Some(position.fetch_add(1, Ordering::Relaxed) % self.n_records),
        }
    }
}

/// Lengths of fields or scans.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LengthDistribution {
    /// Always the longest.
    Constant,
    /// All from the shortest to the longest alike.
    Uniform,
    /// The shorter the more often.
    Zipfian,
}

/// Draws lengths.
#[derive(Clone, Debug)]
pub struct LengthChooser {
    low: u32,
    high: u32,
    zipfian: Option<Zipfian>,
}

impl LengthChooser {
    /// From `low` to `high`, both inclusive.
    pub fn new(distribution: LengthDistribution, low: u32, high: u32) -> Self {
        let low = if distribution == LengthDistribution::Constant { high } else { low };
        let is_zipfian = distribution == LengthDistribution::Zipfian;
        Self { low, high, zipfian: is_zipfian.then(|| Zipfian::new(u64::from(high - low) + 1)) }
    }

    /// The only possible length, if there is just one.
    pub fn constant(&self) -> Option<u32> {
        (self.low == self.high).then_some(self.high)
    }

    /// A length.
    pub fn draw(&self, random: &mut Random) -> u32 {
        match &self.zipfian {
            _ if self.low == self.high => self.high,
            Some(zipfian) => self.low + zipfian.item(random.unit()) as u32,
            None => self.low + random.below(u64::from(self.high - self.low) + 1) as u32,
        }
    }
}

#[cfg(test)]
mod tests;
