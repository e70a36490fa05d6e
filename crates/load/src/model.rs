//! Load models: when operations are due. Pure functions, no clock is read here.

use std::f64::consts::TAU;
use std::time::Duration;

/// When operations are due.
#[derive(Clone, Debug, PartialEq)]
pub enum Model {
    /// Every user waits for each answer, thinks, and goes on.
    Closed(Think),
    /// Operations are due at times of their own, whatever the server does.
    Open(Open),
}

/// The pause between an answer and the same user's next operation.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Think {
    /// Mean, in seconds.
    pub mean_s: f64,
    /// Whether it is exponentially distributed; else every pause is the mean.
    pub is_exponential: bool,
    /// Users come at random within so many seconds of the run's start; all at once for 0.
    pub start_s: f64,
}

/// An open loop.
#[derive(Clone, Debug, PartialEq)]
pub struct Open {
    /// Operations per second at the run's start.
    pub rate: f64,
    /// How they are spread.
    pub arrivals: Arrivals,
    /// How the rate goes on.
    pub profile: Profile,
    /// So many operations may wait for a free user; more are shed.
    pub backlog_max: usize,
    /// An operation that has waited longer is shed.
    pub backlog_age_max: Duration,
}

/// How the operations of an open loop are spread in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrivals {
    /// A Poisson process.
    Poisson,
    /// Evenly.
    Uniform,
}

/// How the rate changes during a run; rates are operations per second, times seconds since the run's start.
#[derive(Clone, Debug, PartialEq)]
pub enum Profile {
    /// Not at all.
    Constant,
    /// From each time on it is the rate beside it.
    Step(Vec<(f64, f64)>),
    /// Evenly up or down to `to_rate`, where it stays.
    Ramp {
        /// The rate at the end.
        to_rate: f64,
        /// How long it takes.
        over_s: f64,
    },
    /// rate + amplitude · sin(2π t / period).
    Sine {
        /// At most the rate.
        amplitude: f64,
        /// Length of a wave.
        period_s: f64,
    },
}

impl Model {
    /// # Errors
    /// What makes no sense about it.
    pub fn check(&self) -> Result<(), String> {
        match self {
            Self::Closed(think) => {
                let is_time = |time_s: f64| time_s >= 0.0 && time_s.is_finite();
                let times = [("think_s", think.mean_s), ("start_s", think.start_s)];
                let wrong = times.into_iter().find(|(_, time_s)| !is_time(*time_s));
                wrong.map_or(Ok(()), |(name, time_s)| Err(format!("{name}={time_s} is not a time in seconds")))
            }
            Self::Open(open) => open.check(),
        }
    }

    /// Whether operations are due whatever the server does.
    #[must_use]
    pub fn is_open(&self) -> bool {
        matches!(self, Self::Open(_))
    }
}

impl Open {
    fn check(&self) -> Result<(), String> {
        let is_rate = |rate: f64| rate >= 0.0 && rate.is_finite();
        let is_span = |span_s: f64| span_s > 0.0 && span_s.is_finite();
        if !(is_rate(self.rate) && self.rate > 0.0) {
            return Err(format!("rate={} is not a positive number of operations per second", self.rate));
        }
        if self.backlog_age_max.is_zero() {
            return Err("backlog_age_max_s must be longer than 0 s".to_owned());
        }
        match &self.profile {
            Profile::Constant => Ok(()),
            Profile::Step(steps) => {
                let is_ascending = steps.windows(2).all(|pair| pair[0].0 < pair[1].0);
                if steps.iter().all(|&(from_s, rate)| is_span(from_s) && is_rate(rate)) && is_ascending {
                    Ok(())
                } else {
                    Err("profile step: the times must be more than 0 s and ascend, the rates must be 0 or more"
                        .to_owned())
                }
            }
            &Profile::Ramp { to_rate, over_s } if is_rate(to_rate) && is_span(over_s) => Ok(()),
            Profile::Ramp { to_rate, over_s } => {
                Err(format!("profile ramp: to_rate={to_rate} over_s={over_s} must be 0 or more and more than 0"))
            }
            &Profile::Sine { amplitude, period_s } if amplitude.abs() <= self.rate && is_span(period_s) => Ok(()),
            Profile::Sine { amplitude, period_s } => Err(format!(
                "profile sine: amplitude={amplitude} must not exceed rate={}, period_s={period_s} must be more than 0",
                self.rate
            )),
        }
    }
}

/// How many operations are due until a time, and the way back.
#[derive(Clone, Debug)]
pub(crate) struct Curve {
    rate: f64,
    shape: Shape,
}

#[derive(Clone, Debug)]
enum Shape {
    /// (from, rate, operations due before): the last piece never ends.
    Pieces(Vec<(f64, f64, f64)>),
    Ramp {
        to_rate: f64,
        over_s: f64,
    },
    Sine {
        amplitude: f64,
        period_s: f64,
    },
}

impl Curve {
    /// Of an open loop that was checked.
    pub(crate) fn new(open: &Open) -> Self {
        let shape = match &open.profile {
            Profile::Constant => Shape::Pieces(pieces(open.rate, &[])),
            Profile::Step(steps) => Shape::Pieces(pieces(open.rate, steps)),
            &Profile::Ramp { to_rate, over_s } => Shape::Ramp { to_rate, over_s },
            &Profile::Sine { amplitude, period_s } => Shape::Sine { amplitude, period_s },
        };
        Self { rate: open.rate, shape }
    }

    /// The time until which `n` operations are due; infinite when there never are so many.
    pub(crate) fn time_of(&self, n: f64) -> f64 {
        match &self.shape {
            Shape::Pieces(pieces) => {
                let after = pieces.partition_point(|&(_, _, before)| before <= n);
                let (from_s, rate, before) = pieces[after.max(1) - 1];
                let rest = n - before;
                if rest > 0.0 { from_s + rest / rate } else { from_s }
            }
            &Shape::Ramp { to_rate, over_s } => {
                let whole = 0.5 * (self.rate + to_rate) * over_s;
                if n > whole {
                    return over_s + (n - whole) / to_rate;
                }
                let slope = (to_rate - self.rate) / over_s;
                // The stable form of the quadratic's root.
                2.0 * n / (self.rate + (self.rate * self.rate + 2.0 * slope * n).max(0.0).sqrt())
            }
            &Shape::Sine { amplitude, period_s } => self.time_on_sine(n, amplitude, period_s),
        }
    }

    /// Newton's method, held between bounds that always contain the root.
    fn time_on_sine(&self, n: f64, amplitude: f64, period_s: f64) -> f64 {
        let swing = amplitude * period_s / TAU;
        let (mut low, mut high) = ((n - 2.0 * swing.abs()) / self.rate, (n + 2.0 * swing.abs()) / self.rate);
        let mut time_s = n / self.rate;
        for _ in 0..100 {
            let angle = TAU * time_s / period_s;
            let excess = self.rate * time_s + swing * (1.0 - angle.cos()) - n;
            if excess > 0.0 {
                high = time_s
            } else {
                low = time_s
            }
            let slope = self.rate + amplitude * angle.sin();
            let newton = time_s - excess / slope;
            let next = if newton > low && newton < high { newton } else { 0.5 * (low + high) };
            if (next - time_s).abs() < 1e-10 {
                return next;
            }
            time_s = next;
        }
        time_s
    }
}

fn pieces(rate: f64, steps: &[(f64, f64)]) -> Vec<(f64, f64, f64)> {
    let mut pieces = vec![(0.0, rate, 0.0)];
    for &(from_s, rate) in steps {
        let (before_s, before_rate, before) = pieces[pieces.len() - 1];
        pieces.push((from_s, rate, before + before_rate * (from_s - before_s)));
    }
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(rate: f64, profile: Profile) -> Open {
        let backlog_age_max = Duration::from_secs(1);
        Open { rate, arrivals: Arrivals::Poisson, profile, backlog_max: 10, backlog_age_max }
    }

    /// Operations due until `until_s` by adding up the rate in small steps.
    fn integral(until_s: f64, rate_at: impl Fn(f64) -> f64) -> f64 {
        let n = 200_000;
        let width = until_s / f64::from(n);
        (0..n).map(|i| rate_at((f64::from(i) + 0.5) * width) * width).sum()
    }

    #[test]
    fn times_of_every_profile_match_the_integral_of_its_rate() {
        let steps = vec![(2.0, 300.0), (3.5, 0.0), (4.0, 50.0)];
        let step_rate = |t: f64| {
            if t < 2.0 {
                100.0
            } else if t < 3.5 {
                300.0
            } else if t < 4.0 {
                0.0
            } else {
                50.0
            }
        };
        let ramp = |to_rate| move |t: f64| 100.0 + (to_rate - 100.0) * (t / 5.0).min(1.0);
        type Rate = Box<dyn Fn(f64) -> f64>;
        let cases: Vec<(Profile, Rate)> = vec![
            (Profile::Constant, Box::new(|_| 100.0)),
            (Profile::Step(steps), Box::new(step_rate)),
            (Profile::Ramp { to_rate: 500.0, over_s: 5.0 }, Box::new(ramp(500.0))),
            (Profile::Ramp { to_rate: 0.0, over_s: 5.0 }, Box::new(ramp(0.0))),
            (Profile::Sine { amplitude: 100.0, period_s: 3.0 }, Box::new(|t| 100.0 + 100.0 * (TAU * t / 3.0).sin())),
            (Profile::Sine { amplitude: -60.0, period_s: 7.0 }, Box::new(|t| 100.0 - 60.0 * (TAU * t / 7.0).sin())),
        ];
        for (profile, rate_at) in cases {
            let curve = Curve::new(&open(100.0, profile.clone()));
            for until_s in [0.3, 1.7, 2.9, 4.8, 9.1] {
                let n = integral(until_s, &rate_at);
                let is_level = rate_at(until_s) == 0.0;
                let time_s = curve.time_of(n);
                assert!(is_level || (time_s - until_s).abs() < 1e-3, "{profile:?} {until_s} {time_s}");
            }
        }
    }

    #[test]
    fn a_rate_that_falls_to_nothing_never_comes_to_more() {
        let curve = Curve::new(&open(100.0, Profile::Step(vec![(1.0, 0.0)])));
        assert_eq!(curve.time_of(100.5), f64::INFINITY);
        let curve = Curve::new(&open(100.0, Profile::Ramp { to_rate: 0.0, over_s: 1.0 }));
        assert_eq!(curve.time_of(51.0), f64::INFINITY);
    }

    #[test]
    fn models_that_make_no_sense_are_refused() {
        let wrong = [
            open(0.0, Profile::Constant),
            open(f64::NAN, Profile::Constant),
            open(10.0, Profile::Step(vec![(2.0, 1.0), (1.0, 1.0)])),
            open(10.0, Profile::Step(vec![(1.0, -1.0)])),
            open(10.0, Profile::Ramp { to_rate: -1.0, over_s: 1.0 }),
            open(10.0, Profile::Sine { amplitude: 11.0, period_s: 1.0 }),
            Open { backlog_age_max: Duration::ZERO, ..open(10.0, Profile::Constant) },
        ];
        for open in wrong {
            assert!(Model::Open(open.clone()).check().is_err(), "{open:?}");
        }
        let text = Model::Open(open(-1.0, Profile::Constant)).check().expect_err("negative");
        assert_eq!(text, "rate=-1 is not a positive number of operations per second");
        for (mean_s, start_s, text) in [(-1.0, 0.0, "think_s=-1"), (0.0, f64::INFINITY, "start_s=inf")] {
            let refused = Model::Closed(Think { mean_s, start_s, is_exponential: false }).check().expect_err("no time");
            assert_eq!(refused, format!("{text} is not a time in seconds"));
        }
    }
}
