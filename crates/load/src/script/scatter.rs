//! The hash functions of pgbench and its pseudorandom permutation, value for value.

use crate::random::Random;

/// 64-bit FNV-1a (Fowler, Noll, Vo) of the eight bytes of `value`, lowest first, its basis xored with `seed`.
pub(super) fn fnv1a(value: i64, seed: i64) -> i64 {
    let start = 0xcbf2_9ce4_8422_2325 ^ seed as u64;
    let mixed =
        value.to_le_bytes().iter().fold(start, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3));
    mixed as i64
}

/// MurmurHash64A (Appleby) of the eight bytes of `value`.
pub(super) fn murmur2(value: i64, seed: i64) -> i64 {
    const M: u64 = 0xc6a4_a793_5bd1_e995;
    let shake = |x: u64| x ^ (x >> 47);
    let word = shake((value as u64).wrapping_mul(M)).wrapping_mul(M);
    let hash = (seed as u64 ^ 8_u64.wrapping_mul(M) ^ word).wrapping_mul(M);
    shake(shake(hash).wrapping_mul(M)) as i64
}

/// xoroshiro128** (Blackman and Vigna, 2021), the generator that keys the permutation.
struct Keys(u64, u64);

impl Keys {
    fn new(seed: i64) -> Self {
        let mut random = Random::in_state(seed as u64);
        Self(random.bits(), random.bits())
    }

    fn next(&mut self) -> u64 {
        let result = self.0.wrapping_mul(5).rotate_left(7).wrapping_mul(9);
        let mixed = self.1 ^ self.0;
        self.0 = self.0.rotate_left(24) ^ mixed ^ (mixed << 16);
        self.1 = mixed.rotate_left(37);
        result
    }

    /// Uniform in 0..=last: as many high bits as `last` has, drawn until they fit.
    fn up_to(&mut self, last: u64) -> u64 {
        loop {
            let drawn = self.next() >> last.leading_zeros();
            if drawn <= last {
                return drawn;
            }
        }
    }
}

/// The largest power of two that fits the size, less one, and how many bits that has.
struct Half {
    mask: u64,
    bits: u32,
}

impl Half {
    /// A keyed bijection of 0..=mask: multiply by an odd number, xor, rotate by one bit.
    fn stir(&self, value: u64, keys: &mut Keys) -> u64 {
        let multiplier = (keys.next() & self.mask) | 1;
        let flip = keys.next() & self.mask;
        if value > self.mask {
            return value;
        }
        let stirred = (value.wrapping_mul(multiplier) ^ flip) & self.mask;
        ((stirred << 1) & self.mask) | (stirred >> (self.bits - 1))
    }
}

/// Where `value` (modulo `size`) lands in a permutation of 0..size that `seed` chooses; `size` is at least 1.
///
/// Six rounds; each stirs the lower part, then the same number of values counted from the top, then shifts all round.
pub(super) fn permute(value: i64, size: i64, seed: i64) -> i64 {
    if size < 2 {
        return 0;
    }
    let size = size as u64;
    let bits = size.ilog2();
    let half = Half { mask: (1 << bits) - 1, bits };
    let mut keys = Keys::new(seed);
    // pgbench takes the value's bits as an unsigned number.
    let mut place = value as u64 % size;
    for _ in 0..6 {
        place = half.stir(place, &mut keys);
        place = size - 1 - half.stir(size - 1 - place, &mut keys);
        place = (place + keys.up_to(size - 1)) % size;
    }
    place as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_permutation_meets_every_value_once() {
        for (size, seed) in [(1, 3), (2, 0), (3, 1), (64, 9), (1000, -5)] {
            let mut places: Vec<i64> = (0..size).map(|value| permute(value, size, seed)).collect();
            places.sort_unstable();
            assert_eq!(places, (0..size).collect::<Vec<_>>());
        }
    }
}
