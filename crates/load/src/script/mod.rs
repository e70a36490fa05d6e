//! Weighted transactions as a source of operations.
mod error;
mod expression;
mod random;
mod rng;
mod scatter;
mod value;
