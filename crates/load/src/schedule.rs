//! Absolute schedules: when each operation of an open loop is due, and when a lost server is asked again.
//!
//! Pure functions of the seed; no clock is read here, so that every schedule can be tested without one.

use std::time::Duration;

use crate::model::{Arrivals, Curve, Open};
use crate::random::Random;

/// What is never due.
pub(crate) const NEVER: u64 = u64::MAX;

/// Nanoseconds of a time; [`NEVER`] for one that is longer than can be counted.
pub(crate) fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(NEVER)
}

/// A worker's place among the workers of a run: user `u` belongs to worker `u % n_workers`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub(crate) worker: u32,
    pub(crate) n_workers: u32,
    pub(crate) n_users: u32,
}

impl Place {
    /// How many users the worker has.
    pub(crate) fn n_own(self) -> u32 {
        (self.n_users + self.n_workers - 1 - self.worker) / self.n_workers
    }
}

/// One worker's share of an open loop's schedule: the whole schedule thinned by the worker's share of the users.
#[derive(Clone, Debug)]
pub(crate) struct Schedule {
    curve: Curve,
    spread: Spread,
}

#[derive(Clone, Debug)]
enum Spread {
    /// Independent Poisson streams add up to a Poisson stream.
    Poisson { random: Random, share: f64, n: f64 },
    /// The k-th operation belongs to user k modulo their number.
    Uniform { k: u64, place: Place },
}

impl Schedule {
    pub(crate) fn new(open: &Open, place: Place, seed: u64) -> Self {
        let spread = match open.arrivals {
            Arrivals::Poisson => {
                let share = f64::from(place.n_own()) / f64::from(place.n_users);
                let random = Random::of_arrivals(seed, place.worker);
                Spread::Poisson { random, share, n: 0.0 }
            }
            Arrivals::Uniform => Spread::Uniform { k: 0, place },
        };
        Self { curve: Curve::new(open), spread }
    }

    /// Nanoseconds since the run's start at which the next operation is due; [`NEVER`] when there is none.
    pub(crate) fn next_ns(&mut self) -> u64 {
        let n = match &mut self.spread {
            Spread::Poisson { random, share, n } => {
                *n += random.exponential() / *share;
                *n
            }
            Spread::Uniform { k, place } => {
                let owner = |k: u64| (k % u64::from(place.n_users)) % u64::from(place.n_workers);
                while owner(*k) != u64::from(place.worker) {
                    *k += 1;
                }
                *k += 1;
                (*k - 1) as f64
            }
        };
        let due_ns = self.curve.time_of(n) * 1e9;
        // A float that is too large for the type becomes its maximum, which is `NEVER`.
        due_ns.round() as u64
    }
}

/// Waiting times before each attempt to reconnect: doubling, bounded, starting again after a success.
#[derive(Debug)]
pub(crate) struct Backoff {
    next_ns: u64,
}

impl Backoff {
    const FIRST_NS: u64 = 50_000_000;
    const LONGEST_NS: u64 = 1_000_000_000;

    pub(crate) fn new() -> Self {
        Self { next_ns: Self::FIRST_NS }
    }

    /// Nanoseconds to wait before the next attempt.
    pub(crate) fn wait_ns(&mut self) -> u64 {
        let wait_ns = self.next_ns;
        self.next_ns = (2 * wait_ns).min(Self::LONGEST_NS);
        wait_ns
    }

    /// Called after a success of the operation itself: a server that accepts and then drops does not reset it.
    pub(crate) fn reset(&mut self) {
        self.next_ns = Self::FIRST_NS;
    }
}

/// Nanoseconds to wait before try number `n_tried` + 1 of the same operation: doubling from 1 ms to 100 ms, less up to
/// half of it at random, so that those who clashed do not clash again.
pub(crate) fn retry_wait_ns(n_tried: u32, random: &mut Random) -> u64 {
    let longest_ms = f64::from(1_u32 << n_tried.saturating_sub(1).min(7)).min(100.0);
    (longest_ms * 1e6 * (1.0 - 0.5 * random.unit())) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Profile;

    fn open(rate: f64, arrivals: Arrivals, profile: Profile) -> Open {
        Open { rate, arrivals, profile, backlog_max: 10, backlog_age_max: Duration::from_secs(1) }
    }

    fn place(worker: u32, n_workers: u32, n_users: u32) -> Place {
        Place { worker, n_workers, n_users }
    }

    /// Seconds of all workers' operations until `until_s`, ascending.
    fn times(open: &Open, n_workers: u32, n_users: u32, seed: u64, until_s: f64) -> Vec<f64> {
        let of_worker = |worker| {
            let mut schedule = Schedule::new(open, place(worker, n_workers, n_users), seed);
            std::iter::from_fn(move || Some(schedule.next_ns() as f64 * 1e-9))
                .take_while(move |&time_s| time_s < until_s)
        };
        let mut all: Vec<f64> = (0..n_workers).flat_map(of_worker).collect();
        all.sort_by(f64::total_cmp);
        all
    }

    #[test]
    fn users_are_shared_out() {
        let own: Vec<u32> = (0..3).map(|worker| place(worker, 3, 8).n_own()).collect();
        assert_eq!(own, [3, 3, 2]);
    }

    #[test]
    fn uniform_arrivals_are_even_however_many_workers_share_them() {
        let open = open(100.0, Arrivals::Uniform, Profile::Constant);
        for (n_workers, n_users) in [(1, 1), (2, 5), (3, 7)] {
            let times = times(&open, n_workers, n_users, 1, 2.0);
            assert_eq!(times.len(), 200);
            for (k, time_s) in times.iter().enumerate() {
                assert!((time_s - k as f64 / 100.0).abs() < 1e-8, "{k} {time_s}");
            }
        }
    }

    #[test]
    fn poisson_gaps_have_the_moments_of_an_exponential() {
        let open = open(1_000.0, Arrivals::Poisson, Profile::Constant);
        for (n_workers, n_users) in [(1, 1), (3, 7)] {
            let times = times(&open, n_workers, n_users, 5, 100.0);
            assert!((times.len() as f64 - 100_000.0).abs() < 4.0 * 100_000_f64.sqrt(), "{}", times.len());
            let gaps: Vec<f64> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
            let n = gaps.len() as f64;
            let mean = gaps.iter().sum::<f64>() / n;
            let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / n;
            assert!((mean - 1e-3).abs() < 2e-5, "{mean}");
            assert!((variance / (mean * mean) - 1.0).abs() < 0.03, "{variance}");
            // Neighbouring gaps are independent.
            let pairs = gaps.windows(2).map(|pair| (pair[0] - mean) * (pair[1] - mean)).sum::<f64>() / n;
            assert!((pairs / variance).abs() < 0.02, "{pairs}");
        }
    }

    #[test]
    fn profiles_bring_as_many_as_their_integral_says() {
        // (profile, operations due within [0, 5) and [0, 10))
        let cases = [
            (Profile::Step(vec![(5.0, 4_000.0)]), 5_000.0, 25_000.0),
            (Profile::Ramp { to_rate: 3_000.0, over_s: 10.0 }, 7_500.0, 20_000.0),
            (
                Profile::Sine { amplitude: 500.0, period_s: 10.0 },
                5_000.0 + 500.0 * 10.0 / std::f64::consts::PI,
                10_000.0,
            ),
        ];
        for (profile, half, whole) in cases {
            for arrivals in [Arrivals::Poisson, Arrivals::Uniform] {
                let times = times(&open(1_000.0, arrivals, profile.clone()), 2, 3, 11, 10.0);
                let n_half = times.iter().filter(|&&time_s| time_s < 5.0).count() as f64;
                let margin = if arrivals == Arrivals::Poisson { 4.0 } else { 0.05 };
                assert!((n_half - half).abs() < margin * f64::sqrt(half), "{profile:?} {n_half}");
                assert!((times.len() as f64 - whole).abs() < margin * f64::sqrt(whole), "{profile:?} {}", times.len());
            }
        }
    }

    #[test]
    fn the_same_seed_gives_the_same_schedule() {
        let open = open(100.0, Arrivals::Poisson, Profile::Sine { amplitude: 50.0, period_s: 3.0 });
        assert_eq!(times(&open, 2, 4, 9, 5.0), times(&open, 2, 4, 9, 5.0));
        assert_ne!(times(&open, 2, 4, 9, 5.0), times(&open, 2, 4, 10, 5.0));
    }

    #[test]
    fn a_rate_of_nothing_is_never_due() {
        let open = open(100.0, Arrivals::Uniform, Profile::Step(vec![(0.1, 0.0)]));
        let mut schedule = Schedule::new(&open, place(0, 1, 1), 1);
        let due: Vec<u64> = (0..13).map(|_| schedule.next_ns()).collect();
        assert_eq!(due[9], 90_000_000);
        assert_eq!(due[11..], [NEVER, NEVER]);
    }

    #[test]
    fn back_off_doubles_to_a_bound_and_starts_again() {
        let mut backoff = Backoff::new();
        let waits: Vec<u64> = (0..7).map(|_| backoff.wait_ns() / 1_000_000).collect();
        assert_eq!(waits, [50, 100, 200, 400, 800, 1_000, 1_000]);
        backoff.reset();
        assert_eq!(backoff.wait_ns(), 50_000_000);
    }

    #[test]
    fn retries_wait_longer_each_time_up_to_a_bound() {
        let mut random = Random::new(1, 1);
        for (n_tried, longest_ms) in [(1, 1.0), (2, 2.0), (5, 16.0), (8, 100.0), (90, 100.0)] {
            for _ in 0..100 {
                let wait_ms = retry_wait_ns(n_tried, &mut random) as f64 * 1e-6;
                assert!(wait_ms >= 0.499 * longest_ms && wait_ms <= longest_ms, "{n_tried} {wait_ms}");
            }
        }
    }
}
