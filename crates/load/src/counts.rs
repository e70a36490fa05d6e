//! Counters of an HDR histogram that are emptied every second: memory only for the ranges that occur, and emptying
//! costs what was touched.
//!
//! The buckets are those of [`crate::histogram::Histogram`] (1 us to 1 hour, 3 significant digits).

use std::sync::Arc;

use crate::histogram::HIGHEST_US;

/// Buckets of one power of two.
const HALF: u64 = 1024;

/// Counters of one power of two are had together.
type Chunk = Box<[u32; HALF as usize]>;

const N_CHUNKS: usize = 23;

/// Number of the bucket of a value.
pub(crate) fn index_of(value: u64) -> u16 {
    let value = value.min(HIGHEST_US);
    let shift = (64 - (value | HALF).leading_zeros()).saturating_sub(11);
    (u64::from(shift) * HALF + (value >> shift)) as u16
}

/// The largest value of a bucket.
pub(crate) fn highest_of(index: u16) -> u64 {
    let index = u64::from(index);
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
    /// Counts one value.
    pub(crate) fn record(&mut self, value: u64) {
        let index = index_of(value);
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
            assert_eq!(highest_of(index_of(value)), reference.highest_equivalent(value), "{value}");
        }
        assert_eq!(index_of(u64::MAX), index_of(HIGHEST_US));
        assert!(usize::from(index_of(HIGHEST_US)) < N_CHUNKS * HALF as usize);
    }

    #[test]
    fn what_is_taken_is_what_was_counted() {
        let mut counts = Counts::default();
        for _ in 0..3 {
            let mut expected = std::collections::BTreeMap::new();
            for value in values() {
                counts.record(value);
                *expected.entry(index_of(value)).or_insert(0) += 1;
            }
            (0..300).for_each(|_| counts.record(7));
            *expected.entry(7).or_insert(0) += 300;
            let bytes = counts.take().expect("values were counted");
            assert_eq!(decode(&bytes).collect::<Vec<_>>(), expected.into_iter().collect::<Vec<_>>());
            assert_eq!(counts.take(), None);
        }
    }

    #[test]
    fn memory_is_for_the_ranges_that_occur() {
        let mut counts = Counts::default();
        (0..100_000).for_each(|i| counts.record(100 + i % 800));
        assert!(counts.memory_bytes() < 10_000, "{}", counts.memory_bytes());
    }
}
