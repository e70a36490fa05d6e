//! The distributions that pgbench documents, as draws of whole numbers from low..=high.
//!
//! | Symbol | Meaning |
//! | --- | --- |
//! | span | high − low + 1, how many values there are |
//! | s | exponent of the Zipfian law: value k has probability ∝ k^−s |

use crate::random::Random;

/// A normal law cut off at ± `parameter` standard deviations, stretched over the range.
pub(super) fn gaussian(rng: &mut Random, low: i64, high: i64, parameter: f64) -> i64 {
    let deviation = loop {
        let radius = (-2.0 * (1.0 - rng.unit()).ln()).sqrt();
        let deviation = radius * (std::f64::consts::TAU * rng.unit()).sin();
        if (-parameter..parameter).contains(&deviation) {
            break deviation;
        }
    };
    part(low, high, (deviation + parameter) / (2.0 * parameter))
}

/// An exponential law cut off at `parameter` times its mean, stretched over the range.
pub(super) fn exponential(rng: &mut Random, low: i64, high: i64, parameter: f64) -> i64 {
    let cut = -(-parameter).exp_m1();
    part(low, high, -(-cut * rng.unit()).ln_1p() / parameter)
}

/// The value at `share` (0 to 1) of the range.
fn part(low: i64, high: i64, share: f64) -> i64 {
    let last = high.wrapping_sub(low) as u64;
    let steps = ((last as f64 + 1.0) * share) as u64;
    low.wrapping_add(steps.min(last) as i64)
}

/// A bounded Zipfian law over 1..=n for any s > 0, by rejection-inversion (Hörmann and Derflinger, 1996, algorithm ZRI):
/// constant time whatever n and s.
#[derive(Clone, Copy, Debug)]
pub(super) struct Zipf {
    n: u64,
    s: f64,
    area_low: f64,
    area_high: f64,
    squeeze: f64,
}

impl Zipf {
    pub(super) fn new(n: u64, s: f64) -> Self {
        let area_low = area(1.5, s) - 1.0;
        let area_high = area(n as f64 + 0.5, s);
        let squeeze = 2.0 - inverse_area(area(2.5, s) - 2.0_f64.powf(-s), s);
        Self { n, s, area_low, area_high, squeeze }
    }

    /// Whether it is the law of these numbers.
    pub(super) fn is(&self, n: u64, s: f64) -> bool {
        self.n == n && self.s == s
    }

    pub(super) fn draw(&self, rng: &mut Random) -> u64 {
        loop {
            let u = self.area_high + rng.unit() * (self.area_low - self.area_high);
            let x = inverse_area(u, self.s);
            let k = (x.round() as u64).clamp(1, self.n);
            let rank = k as f64;
            if rank - x <= self.squeeze || u >= area(rank + 0.5, self.s) - rank.powf(-self.s) {
                return k;
            }
        }
    }
}

/// ∫₁ˣ t^−s dt, stable near s = 1.
fn area(x: f64, s: f64) -> f64 {
    let log = x.ln();
    let t = (1.0 - s) * log;
    if t.abs() < 1e-8 { log * (1.0 + t / 2.0) } else { log * t.exp_m1() / t }
}

/// The inverse of [`area`].
fn inverse_area(area: f64, s: f64) -> f64 {
    let t = (area * (1.0 - s)).max(-1.0);
    if t.abs() < 1e-8 { (area * (1.0 - t / 2.0)).exp() } else { (area * t.ln_1p() / t).exp() }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DRAWS: usize = 200_000;

    /// χ² of counted draws against probabilities.
    fn chi2(counts: &[u32], probabilities: &[f64]) -> f64 {
        let total: f64 = probabilities.iter().sum();
        let expected = probabilities.iter().map(|p| p / total * DRAWS as f64);
        counts.iter().zip(expected).map(|(&n, e)| (f64::from(n) - e).powi(2) / e).sum()
    }

    fn count(span: usize, mut draw: impl FnMut(&mut Random) -> i64) -> Vec<u32> {
        let mut rng = Random::new(42, 0);
        let mut counts = vec![0; span];
        for _ in 0..DRAWS {
            counts[(draw(&mut rng) - 1) as usize] += 1;
        }
        counts
    }

    /// The standard normal distribution function, by Simpson's rule from 0.
    fn phi(x: f64) -> f64 {
        let density = |t: f64| (-t * t / 2.0).exp() / std::f64::consts::TAU.sqrt();
        let h = x / 1000.0;
        let inner: f64 = (1..1000).map(|i| density(h * f64::from(i)) * if i % 2 == 1 { 4.0 } else { 2.0 }).sum();
        0.5 + h / 3.0 * (density(0.0) + inner + density(x))
    }

    // Nine degrees of freedom each: χ² beyond 40 once in 100,000 seeds.
    #[test]
    fn gaussian_is_as_documented() {
        let at = |edge: f64| phi(2.0 * 2.5 * (edge - 5.5) / 10.0);
        let expected: Vec<f64> = (1..=10).map(|i| at(f64::from(i) + 0.5) - at(f64::from(i) - 0.5)).collect();
        let counts = count(10, |rng| gaussian(rng, 1, 10, 2.5));
        assert!(chi2(&counts, &expected) < 40.0, "{counts:?}");
    }

    #[test]
    fn exponential_is_as_documented() {
        let expected: Vec<f64> = (0..10).map(|i| (-3.0 * f64::from(i) / 10.0).exp()).collect();
        let counts = count(10, |rng| exponential(rng, 1, 10, 3.0));
        assert!(chi2(&counts, &expected) < 40.0, "{counts:?}");
    }

    #[test]
    fn zipfian_is_as_documented_below_at_and_above_exponent_one() {
        for s in [0.5, 0.99, 1.0, 1.001, 1.5, 4.0] {
            let zipf = Zipf::new(10, s);
            let expected: Vec<f64> = (1..=10).map(|k| f64::from(k).powf(-s)).collect();
            let counts = count(10, |rng| zipf.draw(rng) as i64);
            assert!(chi2(&counts, &expected) < 40.0, "s={s} {counts:?}");
        }
    }

    #[test]
    fn the_ends_of_what_is_allowed_stay_in_the_range() {
        let mut rng = Random::new(1, 1);
        for n in [1, 2, 1 << 40, u64::MAX] {
            for s in [1.001, 1000.0, 0.01] {
                let drawn = Zipf::new(n, s).draw(&mut rng);
                assert!((1..=n).contains(&drawn), "n={n} s={s} {drawn}");
            }
        }
        assert_eq!(exponential(&mut rng, 3, 3, 1e-300), 3);
        assert_eq!(gaussian(&mut rng, i64::MAX, i64::MAX, 2.0), i64::MAX);
        let wide = exponential(&mut rng, 0, i64::MAX - 1, 1e-3);
        assert!(wide >= 0);
    }
}
