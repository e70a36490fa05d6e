//! Choices by weight.

use crate::random::Random;

/// What is wrong with the weights of alternatives.
pub(crate) fn check_weights(weights: &[f64]) -> Result<(), String> {
    if let Some(weight) = weights.iter().find(|weight| !(**weight >= 0.0 && weight.is_finite())) {
        return Err(format!("weight={weight} must be a finite number that is not negative"));
    }
    let sum: f64 = weights.iter().sum();
    if sum > 0.0 && sum.is_finite() {
        Ok(())
    } else {
        Err(format!("sum of the weights={sum} must be above 0 and finite"))
    }
}

/// The share of each weight and all before it; the last is 1.
pub(crate) fn cumulate(weights: &[f64]) -> Box<[f64]> {
    let sum: f64 = weights.iter().sum();
    let mut so_far = 0.0;
    let share = |weight: &f64| {
        so_far += weight;
        so_far / sum
    };
    weights.iter().map(share).collect()
}

/// An alternative, each with its share.
pub(crate) fn pick(cumulative: &[f64], random: &mut Random) -> usize {
    let share = random.unit();
    cumulative.partition_point(|&upper| upper <= share).min(cumulative.len() - 1)
}
