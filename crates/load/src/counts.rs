//! Counters of an HDR histogram that are emptied every second: memory only for the ranges that occur, and emptying
//! costs what was touched.
//!
//! The buckets are those of [`crate::histogram::Histogram`] (1 us to 1 hour, 3 significant digits), but for times below half a
//! millisecond: whole microseconds would make those of a server that answers within tens of them look all the same.

use std::sync::Arc;

use crate::histogram::HIGHEST_US;

/// Buckets of one power of two.
const HALF: u64 = 1024;

/// Times below this many nanoseconds have fine buckets: exact ones below a microsecond, then 512 of each power of two.
const FINE_NS: u64 = 1 << 19;

const FINE_HALF: u64 = 512;

/// Numbers below are those of fine buckets, which fill these whole chunks.
const N_FINE: u64 = 6 * HALF;

/// Counters that are had together: of one power of two, or of two with fine buckets.
type Chunk = Box<[u32; HALF as usize]>;

const N_CHUNKS: usize = 6 + 23;

/// Number of the bucket of a value that is no time, or of a whole number of microseconds.
pub(crate) fn index_of(value: u64) -> u16 {
    let value = value.min(HIGHEST_US);
    let shift = (64 - (value | HALF).leading_zeros()).saturating_sub(11);
    (N_FINE + u64::from(shift) * HALF + (value >> shift)) as u16
}

/// Number of the bucket of a time.
pub(crate) fn index_of_time(ns: u64) -> u16 {
    if ns >= FINE_NS {
        return index_of((ns + 500) / 1_000);
    }
    let shift = (64 - (ns | FINE_HALF).leading_zeros()).saturating_sub(10);
    (u64::from(shift) * FINE_HALF + (ns >> shift)) as u16
}

/// The value that stands for those of a bucket: the middle of a fine one, in microseconds, else the largest.
pub(crate) fn value_of(index: u16) -> f64 {
    let index = u64::from(index);
    if index >= N_FINE {
        return highest(index - N_FINE) as f64;
    }
    if index < 2 * FINE_HALF {
        return index as f64 / 1_000.0;
    }
    let shift = index / FINE_HALF - 1;
    let (lowest, width) = ((index - shift * FINE_HALF) << shift, 1_u64 << shift);
    (lowest + width / 2) as f64 / 1_000.0
}

/// The same as a whole number.
pub(crate) fn whole_value_of(index: u16) -> u64 {
    value_of(index).round() as u64
}

fn highest(index: u64) -> u64 {
    if index < 2 * HALF {
        return index;
    }
    let shift = index / HALF - 1;
    ((index - shift * HALF + 1) << shift) - 1
}

/// The counters.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    chunks: Vec<Option<Chunk>>,
    touched: Vec<u16>,
}

impl Counts {
    /// Counts one value of a bucket.
    pub(crate) fn record(&mut self, index: u16) {
        let (chunk, place) = (usize::from(index) / HALF as usize, usize::from(index) % HALF as usize);
        if self.chunks.is_empty() {
            self.chunks.resize_with(N_CHUNKS, || None);
        }
        let count = &mut self.chunks[chunk].get_or_insert_with(|| Box::new([0; HALF as usize]))[place];
        if *count == 0 {
            self.touched.push(index);
        }
        *count += 1;
    }

    /// Takes out everything counted since the last time, in a short form; `None` when there is nothing.
    pub(crate) fn take(&mut self) -> Option<Arc<[u8]>> {
        if self.touched.is_empty() {
            return None;
        }
        self.touched.sort_unstable();
        let mut bytes = Vec::with_capacity(self.touched.len() * 3);
        let mut before = 0;
        for &index in &self.touched {
            let (chunk, place) = (usize::from(index) / HALF as usize, usize::from(index) % HALF as usize);
            if let Some(counts) = &mut self.chunks[chunk] {
                put_varint(&mut bytes, u32::from(index - before));
                put_varint(&mut bytes, std::mem::take(&mut counts[place]));
            }
            before = index;
        }
        self.touched.clear();
        Some(bytes.into())
    }

    /// Bytes that the counters hold.
    pub(crate) fn memory_bytes(&self) -> usize {
        let n_chunks = self.chunks.iter().flatten().count();
        n_chunks * size_of::<[u32; HALF as usize]>()
            + self.chunks.capacity() * size_of::<Option<Chunk>>()
            + self.touched.capacity() * size_of::<u16>()
    }
}

/// (bucket, count) of what [`Counts::take`] gave, in order of the buckets.
pub(crate) fn decode(mut bytes: &[u8]) -> impl Iterator<Item = (u16, u32)> + '_ {
    let mut index = 0;
    std::iter::from_fn(move || {
        if bytes.is_empty() {
            return None;
        }
        index += take_varint(&mut bytes);
        Some((index as u16, take_varint(&mut bytes)))
    })
}

/// Seven bits per byte, the lowest first; the high bit says that more follow.
fn put_varint(bytes: &mut Vec<u8>, mut value: u32) {
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
}

fn take_varint(bytes: &mut &[u8]) -> u32 {
    let mut value = 0;
    for shift in (0..32).step_by(7) {
        let Some((&byte, rest)) = bytes.split_first() else { break };
        *bytes = rest;
        value |= u32::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            break;
        }
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values of all magnitudes.
    fn values() -> impl Iterator<Item = u64> {
        let around = (0..32).flat_map(|bit| (0..5).map(move |i| (1_u64 << bit) + i - 2_u64.min(1 << bit)));
        (0..5_000).chain(around).chain((0..5_000).map(|i| i * i * 131)).chain([HIGHEST_US - 1, HIGHEST_US])
    }

    #[test]
    fn buckets_are_those_of_the_hdr_histogram() {
        let reference =
            hdrhistogram::Histogram::<u64>::new_with_bounds(1, HIGHEST_US, 3).expect("the bounds of the crate's own");
        for value in values().filter(|&value| value <= HIGHEST_US) {
            assert_eq!(whole_value_of(index_of(value)), reference.highest_equivalent(value), "{value}");
        }
        assert_eq!(index_of(u64::MAX), index_of(HIGHEST_US));
        assert!(usize::from(index_of(HIGHEST_US)) < N_CHUNKS * HALF as usize);
    }

    #[test]
    fn short_times_are_told_apart() {
        let mut before = None;
        for ns in (0..FINE_NS).chain([FINE_NS, FINE_NS + 1_000, 2_000_000, 7_000_000_000]) {
            let (index, us) = (index_of_time(ns), ns as f64 / 1_000.0);
            let off = (value_of(index) - us).abs();
            assert!(off <= us / 1_000.0 + 1e-9, "{ns} ns stand as {} us", value_of(index));
            assert!(before <= Some(index), "{ns}");
            before = Some(index);
        }
        assert!(u64::from(index_of_time(FINE_NS - 1)) < N_FINE);
        assert_eq!(value_of(index_of_time(25)), 0.025);
        assert_eq!(whole_value_of(index_of_time(30_000)), 30);
    }

    #[test]
    fn what_is_taken_is_what_was_counted() {
        let mut counts = Counts::default();
        for _ in 0..3 {
            let mut expected = std::collections::BTreeMap::new();
            for value in values() {
                counts.record(index_of(value));
                *expected.entry(index_of(value)).or_insert(0) += 1;
            }
            (0..300).for_each(|_| counts.record(index_of(7)));
            *expected.entry(index_of(7)).or_insert(0) += 300;
            let bytes = counts.take().expect("values were counted");
            assert_eq!(decode(&bytes).collect::<Vec<_>>(), expected.into_iter().collect::<Vec<_>>());
            assert_eq!(counts.take(), None);
        }
    }

    #[test]
    fn memory_is_for_the_ranges_that_occur() {
        let mut counts = Counts::default();
        (0..100_000).for_each(|i| counts.record(index_of_time((100 + i % 800) * 1_000)));
        assert!(counts.memory_bytes() < 15_000, "{}", counts.memory_bytes());
    }
}
