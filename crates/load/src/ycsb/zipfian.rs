//! The zipfian distribution of Gray et al. (SIGMOD 1994), "Quickly generating billion-record synthetic databases".
//!
//! Notation: n items, θ the skew, ζ(n) = Σ_{i=1..n} i^-θ, α = 1/(1-θ), η as in the paper's figure.

use std::sync::LazyLock;

use super::key::fnv_hash;

/// The skew that YCSB uses everywhere.
pub const THETA: f64 = 0.99;

/// Items 0..n, of which 0 is drawn most often. A pure function of the random number that it is given.
#[derive(Clone, Debug)]
pub struct Zipfian {
    n: u64,
    zeta_n: f64,
    zeta_2: f64,
    eta: f64,
}

impl Zipfian {
    /// Over `n` items (at least 1).
    pub fn new(n: u64) -> Self {
        let n = n.max(1);
        Self::with_zeta(n, zeta(n))
    }

    fn with_zeta(n: u64, zeta_n: f64) -> Self {
        let zeta_2 = 1.0 + 0.5_f64.powf(THETA);
        let eta = (1.0 - (2.0 / n as f64).powf(1.0 - THETA)) / (1.0 - zeta_2 / zeta_n);
        Self { n, zeta_n, zeta_2, eta }
    }

    /// Changes the number of items (to at least 1).
    pub fn resize(&mut self, n: u64) {
        if n.max(1) != self.n {
            *self = Self::new(n);
        }
    }

    /// The item that belongs to `u` in [0, 1).
    pub fn item(&self, u: f64) -> u64 {
        let u_zeta = u * self.zeta_n;
        if u_zeta < 1.0 {
            return 0;
        }
        if u_zeta < self.zeta_2 {
            return 1;
        }
        let alpha = 1.0 / (1.0 - THETA);
        // The paper's formula reaches n when u is within rounding of 1.
        ((self.n as f64 * (self.eta * u - self.eta + 1.0).powf(alpha)) as u64).min(self.n - 1)
    }
}

/// Items 0..n whose popularity is zipfian but whose order says nothing about it.
///
/// The ranks are always drawn out of 10^10 and hashed onto the items, so the share of the most popular item does not depend
/// on n: 3.78 %.
#[derive(Clone, Debug)]
pub struct Scrambled {
    ranks: Zipfian,
    n: u64,
}

impl Scrambled {
    /// YCSB gives the bounds 0 and 10^10, both inclusive, and the sum for 10^10.
    const N_RANKS: u64 = 10_000_000_001;
    const ZETA: f64 = 26.46902820178302;

    /// Over `n` items (at least 1).
    pub fn new(n: u64) -> Self {
        Self { ranks: Zipfian::with_zeta(Self::N_RANKS, Self::ZETA), n: n.max(1) }
    }

    /// The item that belongs to `u` in [0, 1).
    pub fn item(&self, u: f64) -> u64 {
        fnv_hash(self.ranks.item(u)) % self.n
    }
}

/// ζ(n): summed for small n; for large ones, where the sum would take minutes, C + F(n) with F from the Euler-Maclaurin
/// formula and C fitted at the largest summed n.
pub fn zeta(n: u64) -> f64 {
    const SUMMED: u64 = 1_000;
    static REST: LazyLock<f64> = LazyLock::new(|| summed_zeta(SUMMED) - smooth_zeta(SUMMED));
    if n <= SUMMED { summed_zeta(n) } else { *REST + smooth_zeta(n) }
}

fn summed_zeta(n: u64) -> f64 {
    (1..=n).map(|i| (i as f64).powf(-THETA)).sum()
}

/// The terms of the Euler-Maclaurin formula that depend on n; those left out are below 1e-18 for n >= 1,000.
fn smooth_zeta(n: u64) -> f64 {
    let n = n as f64;
    let power = n.powf(-THETA);
    let third = THETA * (THETA + 1.0) * (THETA + 2.0);
    n * power / (1.0 - THETA) + power / 2.0 - THETA * power / n / 12.0 + third * power / n.powi(3) / 720.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    /// The share of the draws that fall on the `n` first ranks.
    fn share(draw: impl Fn(f64) -> u64, n: u64) -> f64 {
        const N_DRAWS: u32 = 400_000;
        let mut random = Random::new(3, 0);
        let hits = (0..N_DRAWS).filter(|_| draw(random.unit()) < n).count();
        hits as f64 / f64::from(N_DRAWS)
    }

    #[test]
    fn zeta_continues_the_sum() {
        for n in [1, 2, 999, 1_000, 1_001, 1_234_567] {
            let summed: f64 = (1..=n).map(|i| 1.0 / (i as f64).powf(THETA)).sum();
            assert!((zeta(n) / summed - 1.0).abs() < 1e-12, "n={n} {} {summed}", zeta(n));
        }
        assert!((zeta(10_000_000_000) - Scrambled::ZETA).abs() < 1e-6);
    }

    #[test]
    fn shares_of_plain_zipfian_are_those_of_the_sum() {
        for (n, expected) in [(1_000_000, 0.065), (1_000, 0.129)] {
            let zipfian = Zipfian::new(n);
            assert!((share(|u| zipfian.item(u), 1) - expected).abs() < 0.002);
        }
    }

    #[test]
    fn shares_of_the_scrambled_ranks_do_not_depend_on_the_table() {
        let ranks = Scrambled::new(10).ranks;
        for (n, expected) in [(1, 0.0378), (10, 0.112), (100, 0.20), (1_000, 0.29), (10_000, 0.39)] {
            let found = share(|u| ranks.item(u), n);
            // The sums of 1 / rank^θ; the paper's formula gives the ranks from 3 to 10 half a percent too much.
            assert!((found - expected).abs() < 0.01, "n={n} {found}");
        }
        for n in [1_000, 1_000_000] {
            let scrambled = Scrambled::new(n);
            let hottest = fnv_hash(0) % n;
            let found = share(|u| u64::from(scrambled.item(u) != hottest), 1);
            // Other ranks hash onto the same item too, the fewer the larger the table.
            assert!((found - 0.0378).abs() < 0.003, "n={n} {found}");
        }
    }

    #[test]
    fn every_item_stays_within_bounds() {
        for n in [1, 2, 3, 100] {
            let zipfian = Zipfian::new(n);
            for u in [0.0, 0.25, 0.5, 0.75, 1.0 - f64::EPSILON / 2.0] {
                assert!(zipfian.item(u) < n, "n={n} u={u}");
                assert!(Scrambled::new(n).item(u) < n);
            }
        }
    }

    #[test]
    fn a_resized_one_is_a_new_one() {
        let mut zipfian = Zipfian::new(10);
        zipfian.resize(5_000);
        assert_eq!(zipfian.item(0.7), Zipfian::new(5_000).item(0.7));
    }
}
