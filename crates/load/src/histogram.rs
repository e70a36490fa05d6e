//! HDR histogram of microseconds with fixed bounds, so that any two can be merged without loss.

use hdrhistogram::serialization::{Deserializer, Serializer, V2DeflateSerializer};

/// The largest value kept: one hour.
pub const HIGHEST_US: u64 = 3_600_000_000;

const SIGNIFICANT_DIGITS: u8 = 3;

/// Keeps 99.9 / 100 of a thousand values, which is 999.0000000000001, on rank 999.
const RANK_SLACK: f64 = 1e-12;

/// Values from 1 us to [`HIGHEST_US`] with 3 significant digits; larger ones are clamped and counted.
#[derive(Clone, Debug)]
pub struct Histogram {
    counts: hdrhistogram::Histogram<u64>,
    n_clamped: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self::new()
    }
}

impl Histogram {
    /// An empty histogram.
    #[must_use]
    pub fn new() -> Self {
        let counts = hdrhistogram::Histogram::new_with_bounds(1, HIGHEST_US, SIGNIFICANT_DIGITS)
            .expect("the bounds are constants that the crate accepts");
        Self { counts, n_clamped: 0 }
    }

    /// Adds `count` values.
    pub fn record(&mut self, value_us: u64, count: u64) {
        if value_us > HIGHEST_US {
            self.n_clamped = self.n_clamped.saturating_add(count);
        }
        self.counts.saturating_record_n(value_us.min(HIGHEST_US), count);
    }

    /// Adds all values of `other`.
    pub fn merge(&mut self, other: &Self) {
        self.counts.add(&other.counts).expect("both have the same bounds");
        self.n_clamped = self.n_clamped.saturating_add(other.n_clamped);
    }

    /// The smallest recorded value (to 3 digits) that `percentile` per cent of the values do not exceed; 0 when empty.
    #[must_use]
    pub fn percentile(&self, percentile: f64) -> u64 {
        self.counts.value_at_quantile(percentile / 100.0 - RANK_SLACK)
    }

    /// The mean in microseconds; 0 when empty.
    #[must_use]
    pub fn mean(&self) -> f64 {
        self.counts.mean()
    }

    /// The largest value (to 3 digits); 0 when empty.
    #[must_use]
    pub fn max(&self) -> u64 {
        self.counts.max()
    }

    /// How many values it holds.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.counts.len()
    }

    /// Whether it holds none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.counts.is_empty()
    }

    /// How many values were above [`HIGHEST_US`].
    #[must_use]
    pub fn n_clamped(&self) -> u64 {
        self.n_clamped
    }

    /// The V2-deflate bytes of the HdrHistogram format, which has no place for `n_clamped`.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        V2DeflateSerializer::new().serialize(&self.counts, &mut bytes).expect("writing into memory cannot fail");
        bytes
    }

    /// Reads the bytes of any HDR histogram; values outside our bounds are clamped and counted.
    ///
    /// # Errors
    /// The reason why `bytes` are no histogram.
    pub fn decode(mut bytes: &[u8]) -> Result<Self, String> {
        let counts: hdrhistogram::Histogram<u64> =
            Deserializer::new().deserialize(&mut bytes).map_err(|error| error.to_string())?;
        let mut histogram = Self::new();
        for step in counts.iter_recorded() {
            histogram.record(counts.lowest_equivalent(step.value_iterated_to()), step.count_at_value());
        }
        Ok(histogram)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn merging_parts_equals_the_whole() {
        let values: Vec<u64> = (0..5_000_u64).map(|i| i * i % 77_777_777).collect();
        let mut whole = Histogram::new();
        let mut parts = vec![Histogram::new(); 3];
        for (i, &value) in values.iter().enumerate() {
            whole.record(value, 1);
            parts[i % 3].record(value, 1);
        }
        let mut merged = Histogram::new();
        for part in &parts {
            merged.merge(part);
        }
        assert_eq!(merged.encode(), whole.encode());
    }

    #[test]
    fn values_above_an_hour_are_clamped_and_counted() {
        let mut histogram = Histogram::new();
        histogram.record(HIGHEST_US, 1);
        histogram.record(u64::MAX, 2);
        assert_eq!((histogram.len(), histogram.n_clamped()), (3, 2));
        assert!(histogram.max() >= HIGHEST_US);
        assert!(histogram.max() < HIGHEST_US + HIGHEST_US / 1000);
    }

    #[test]
    fn percentiles_have_the_rank_that_they_name() {
        let mut histogram = Histogram::new();
        assert_eq!((histogram.percentile(0.0), histogram.percentile(100.0)), (0, 0));
        (1..=1_000).for_each(|value| histogram.record(value, 1));
        for tenths in 1..=1_000_u32 {
            assert_eq!(histogram.percentile(f64::from(tenths) / 10.0), u64::from(tenths), "{tenths}");
        }
        assert_eq!(histogram.percentile(0.0), 1);
    }

    #[test]
    fn survives_its_own_bytes() {
        let mut histogram = Histogram::new();
        for value in [0, 1, 999, 1_000, 123_456, HIGHEST_US] {
            histogram.record(value, value % 5 + 1);
        }
        let copy = Histogram::decode(&histogram.encode()).expect("its own bytes");
        assert_eq!(copy.encode(), histogram.encode());
        assert_eq!(copy.n_clamped(), 0);
    }

    #[test]
    fn a_histogram_with_other_bounds_can_be_read() {
        let mut foreign = hdrhistogram::Histogram::<u32>::new_with_bounds(1, 1_u64 << 40, 2).expect("legal bounds");
        foreign.record_n(1_000, 5).expect("within bounds");
        foreign.record(1 << 40).expect("within bounds");
        let mut bytes = Vec::new();
        V2DeflateSerializer::new().serialize(&foreign, &mut bytes).expect("into memory");
        let histogram = Histogram::decode(&bytes).expect("a histogram");
        assert_eq!((histogram.len(), histogram.n_clamped()), (6, 1));
        assert!((990..=1_010).contains(&histogram.percentile(50.0)));
    }

    #[test]
    fn other_bytes_are_refused() {
        let bytes = Histogram::new().encode();
        for bad in [&b""[..], b"nonsense", &bytes[..bytes.len() / 2]] {
            assert!(Histogram::decode(bad).is_err());
        }
    }
}
