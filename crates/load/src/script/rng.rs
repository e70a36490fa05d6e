//! A small fast generator of random numbers: xoshiro256++ (Blackman and Vigna, 2021), seeded through SplitMix64.

/// The state of one user's stream; copying it is how a transaction's choices are repeated.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rng([u64; 4]);

/// One step of SplitMix64 (Steele, Lea and Flood, 2014).
pub(super) fn split_mix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

impl Rng {
    /// The stream of one user: streams of neighbouring users and seeds have nothing in common.
    pub(super) fn new(mut seed: u64, user: u32) -> Self {
        let mut state = split_mix(&mut seed) ^ u64::from(user).wrapping_mul(0xd134_2543_de82_ef95);
        Self([0; 4].map(|_: u64| split_mix(&mut state)))
    }

    /// 64 random bits.
    pub(super) fn bits(&mut self) -> u64 {
        let s = &mut self.0;
        let result = s[0].wrapping_add(s[3]).rotate_left(23).wrapping_add(s[0]);
        let t = s[1] << 17;
        s[2] ^= s[0];
        s[3] ^= s[1];
        s[1] ^= s[2];
        s[0] ^= s[3];
        s[2] ^= t;
        s[3] = s[3].rotate_left(45);
        result
    }

    /// Uniform in [0, 1).
    pub(super) fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 * (1.0 / (1_u64 << 53) as f64)
    }

    /// Uniform in 0..n without bias (Lemire, 2019); `n` = 0 stands for 2⁶⁴.
    pub(super) fn below(&mut self, n: u64) -> u64 {
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
    pub(super) fn between(&mut self, low: i64, high: i64) -> i64 {
        let n = high.wrapping_sub(low).wrapping_add(1) as u64;
        low.wrapping_add(self.below(n) as i64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reference_sequence() {
        // From the state 1, 2, 3, 4; values of the authors' reference program.
        let mut rng = Rng([1, 2, 3, 4]);
        let expected = [41943041, 58720359, 3588806011781223, 3591011842654386, 9228616714210784205];
        assert_eq!(expected.map(|_| rng.bits()), expected);
    }

    #[test]
    fn users_and_seeds_differ_and_repeat() {
        let first = |seed, user| Rng::new(seed, user).bits();
        assert_eq!(first(1, 2), first(1, 2));
        let all = [first(1, 0), first(1, 1), first(2, 0), first(2, 1), first(0, 0)];
        let distinct: std::collections::HashSet<_> = all.into_iter().collect();
        assert_eq!(distinct.len(), all.len());
    }

    #[test]
    fn uniform_over_every_value_of_a_range() {
        let mut rng = Rng::new(7, 0);
        let mut counts = [0_u32; 7];
        for _ in 0..70_000 {
            counts[(rng.between(-3, 3) + 3) as usize] += 1;
        }
        // Six degrees of freedom: beyond 33 once in 100,000 seeds.
        let chi2: f64 = counts.iter().map(|&n| (f64::from(n) - 10_000.0).powi(2) / 10_000.0).sum();
        assert!(chi2 < 33.0, "{counts:?}");
        assert_eq!(rng.between(5, 5), 5);
        assert!((0..100).any(|_| rng.between(i64::MIN, i64::MAX) < 0));
    }
}
