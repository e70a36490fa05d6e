//! Random numbers of a run: small, fast, and the same everywhere for the same seed.

/// Steele, Lea, Flood (2014): "Fast splittable pseudorandom number generators", the generator SplitMix64.
#[derive(Clone, Debug)]
pub struct SplitMix64 {
    state: u64,
}

impl SplitMix64 {
    const GAMMA: u64 = 0x9e37_79b9_7f4a_7c15;

    /// The stream of numbers that belongs to `seed`.
    pub fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// The stream that belongs to part number `part` of `seed` (a user, a record); parts are as good as independent.
    pub fn of_part(seed: u64, part: u64) -> Self {
        // Both go through the mixer: states that differ by a multiple of GAMMA would be the same stream, shifted.
        Self { state: mix(mix(seed.wrapping_add(Self::GAMMA)) ^ part) }
    }

    /// 64 random bits.
    pub fn next_u64(&mut self) -> u64 {
        self.state = self.state.wrapping_add(Self::GAMMA);
        mix(self.state)
    }

    /// A number in [0, 1) with 53 random bits.
    pub fn next_unit(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 * (1.0 / (1_u64 << 53) as f64)
    }

    /// A whole number in [0, n); `n` must not be 0. Its bias is below n / 2^64.
    pub fn next_below(&mut self, n: u64) -> u64 {
        ((u128::from(self.next_u64()) * u128::from(n)) >> 64) as u64
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
    fn numbers_are_the_published_ones() {
        let mut random = SplitMix64::new(1_234_567);
        let first: Vec<u64> = (0..3).map(|_| random.next_u64()).collect();
        assert_eq!(first, [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]);
    }

    #[test]
    fn bounds_hold() {
        let mut random = SplitMix64::new(7);
        assert!((0..10_000).all(|_| random.next_below(3) < 3 && (0.0..1.0).contains(&random.next_unit())));
        let mut seen = [0_u32; 5];
        (0..50_000).for_each(|_| seen[random.next_below(5) as usize] += 1);
        assert!(seen.iter().all(|&n| (9_600..10_400).contains(&n)), "{seen:?}");
    }

    #[test]
    fn parts_differ_from_each_other_and_from_other_seeds() {
        let firsts = [(1, 0), (1, 1), (2, 0), (2, 1)].map(|(seed, part)| SplitMix64::of_part(seed, part).next_u64());
        let distinct: std::collections::HashSet<_> = firsts.iter().collect();
        assert_eq!(distinct.len(), 4);
    }
}
