//! Random numbers, one stream per user, schedule or record, so that a run is a function of its seed.
//!
//! `SplitMix64` (Steele, Lea, Flood 2014, "Fast splittable pseudorandom number generators"): one addition and three mixes
//! per number, any seed is good.

/// The odd constant nearest to 2^64 divided by the golden ratio.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// A stream of random numbers; a copy of it gives the same numbers again.
#[derive(Clone, Copy, Debug)]
pub struct Random {
    state: u64,
}

impl Random {
    /// Number `stream` of the streams of `seed`; different pairs give unrelated numbers.
    #[must_use]
    pub fn new(seed: u64, stream: u64) -> Self {
        // Both go through the mixer: states that differ by a multiple of STEP would be one stream, shifted.
        Self { state: mix(mix(seed.wrapping_add(STEP)) ^ mix(stream.wrapping_add(1).wrapping_mul(STEP))) }
    }

    /// What user `user` chooses: its operations, their keys and values.
    #[must_use]
    pub fn of_choices(seed: u64, user: u32) -> Self {
        Self::new(seed, u64::from(user))
    }

    /// When the requests of an open loop's worker are due.
    #[must_use]
    pub fn of_arrivals(seed: u64, worker: u32) -> Self {
        Self::new(seed, (1 << 32) + u64::from(worker))
    }

    /// How long user `user` thinks: a stream of its own, else its pauses would follow from the keys that it draws.
    #[must_use]
    pub fn of_pauses(seed: u64, user: u32) -> Self {
        Self::new(seed, (2 << 32) + u64::from(user))
    }

    /// How long the browser of user `user` thinks, beside the pauses of the load model.
    #[must_use]
    pub fn of_thoughts(seed: u64, user: u32) -> Self {
        Self::new(seed, (3 << 32) + u64::from(user))
    }

    /// The published generator in this very state.
    #[must_use]
    pub fn in_state(state: u64) -> Self {
        Self { state }
    }

    /// The next 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.state = self.state.wrapping_add(STEP);
        mix(self.state)
    }

    /// Uniform in [0, 1), with 53 random bits.
    pub fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 * (1.0 / (1_u64 << 53) as f64)
    }

    /// Uniform in 0..n without bias (Lemire 2019, "Fast random integer generation in an interval"); `n` = 0 stands for 2^64.
    pub fn below(&mut self, n: u64) -> u64 {
        if n == 0 {
            return self.bits();
        }
        let mut product = u128::from(self.bits()) * u128::from(n);
        if (product as u64) < n {
            let threshold = n.wrapping_neg() % n;
            while (product as u64) < threshold {
                product = u128::from(self.bits()) * u128::from(n);
            }
        }
        (product >> 64) as u64
    }

    /// Uniform in low..=high.
    pub fn between(&mut self, low: i64, high: i64) -> i64 {
        let n = high.wrapping_sub(low).wrapping_add(1) as u64;
        low.wrapping_add(self.below(n) as i64)
    }

    /// Exponential with mean 1.
    pub fn exponential(&mut self) -> f64 {
        // The logarithm needs (0, 1].
        -(1.0 - self.unit()).ln()
    }
}

fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_of_the_published_generator() {
        let mut random = Random::in_state(1_234_567);
        let first: Vec<u64> = (0..3).map(|_| random.bits()).collect();
        assert_eq!(first, [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]);
    }

    #[test]
    fn moments_are_those_of_the_distributions() {
        let mut random = Random::new(1, 2);
        let n = 200_000;
        let units: Vec<f64> = (0..n).map(|_| random.unit()).collect();
        assert!(units.iter().all(|unit| (0.0..1.0).contains(unit)));
        let mean = units.iter().sum::<f64>() / f64::from(n);
        assert!((mean - 0.5).abs() < 0.003, "{mean}");
        let draws: Vec<f64> = (0..n).map(|_| random.exponential()).collect();
        let mean = draws.iter().sum::<f64>() / f64::from(n);
        let square = draws.iter().map(|draw| draw * draw).sum::<f64>() / f64::from(n);
        assert!((mean - 1.0).abs() < 0.01 && (square - 2.0).abs() < 0.06, "{mean} {square}");
    }

    #[test]
    fn every_value_of_a_range_comes_alike() {
        let mut random = Random::new(7, 0);
        let mut counts = [0_u32; 7];
        for _ in 0..70_000 {
            counts[(random.between(-3, 3) + 3) as usize] += 1;
        }
        // Six degrees of freedom: beyond 33 once in 100,000 seeds.
        let chi2: f64 = counts.iter().map(|&n| (f64::from(n) - 10_000.0).powi(2) / 10_000.0).sum();
        assert!(chi2 < 33.0, "{counts:?}");
        assert_eq!(random.between(5, 5), 5);
        assert!((0..100).any(|_| random.between(i64::MIN, i64::MAX) < 0));
    }

    #[test]
    fn streams_differ_and_repeat() {
        let first = |seed, stream| Random::new(seed, stream).bits();
        assert_eq!(first(7, 3), first(7, 3));
        let all: std::collections::HashSet<u64> = (0..50).flat_map(|a| (0..50).map(move |b| first(a, b))).collect();
        assert_eq!(all.len(), 2_500);
    }

    #[test]
    fn pauses_do_not_follow_from_choices() {
        let (mut after_low, mut after_high, mut n_low) = (0.0, 0.0, 0);
        let n = 20_000;
        for user in 0..n {
            let (mut choices, mut pauses) = (Random::of_choices(1, user), Random::of_pauses(1, user));
            if choices.between(1, 100_000) <= 50_000 {
                after_low += pauses.exponential();
                n_low += 1;
            } else {
                after_high += pauses.exponential();
            }
        }
        let means = (after_low / f64::from(n_low), after_high / f64::from(n - n_low));
        assert!((means.0 - 1.0).abs() < 0.04 && (means.1 - 1.0).abs() < 0.04, "{means:?}");
        assert_ne!(Random::of_arrivals(1, 0).bits(), Random::of_choices(1, 0).bits());
    }
}
