//! The token of a key as Cassandra's Murmur3Partitioner makes it: half of MurmurHash3 (x64, 128 bits) with its own reading of the
//! last bytes, which are signed there.

const FIRST: u64 = 0x87c3_7b91_1142_53d5;
const SECOND: u64 = 0x4cf5_ad43_2745_937f;
const BLOCK_BYTES: usize = 16;

/// The token of the bytes of a partition key. No key has the least token; an empty one, which no server takes, gets it.
pub(super) fn token(key: &[u8]) -> i64 {
    if key.is_empty() {
        return i64::MIN;
    }
    match hash(key) as i64 {
        i64::MIN => i64::MAX,
        token => token,
    }
}

fn hash(key: &[u8]) -> u64 {
    let (mut h1, mut h2) = (0_u64, 0_u64);
    let blocks = key.chunks_exact(BLOCK_BYTES);
    let tail = blocks.remainder();
    for block in blocks {
        h1 ^= first(little(&block[..8]));
        h1 = h1.rotate_left(27).wrapping_add(h2).wrapping_mul(5).wrapping_add(0x52dc_e729);
        h2 ^= second(little(&block[8..]));
        h2 = h2.rotate_left(31).wrapping_add(h1).wrapping_mul(5).wrapping_add(0x3849_5ab5);
    }
    // A part that is empty is 0, and 0 changes nothing.
    let (low, high) = tail.split_at(tail.len().min(8));
    h2 ^= second(signed(high));
    h1 ^= first(signed(low));
    h1 ^= key.len() as u64;
    h2 ^= key.len() as u64;
    h1 = h1.wrapping_add(h2);
    h2 = h2.wrapping_add(h1);
    mixed(h1).wrapping_add(mixed(h2))
}

fn first(word: u64) -> u64 {
    word.wrapping_mul(FIRST).rotate_left(31).wrapping_mul(SECOND)
}

fn second(word: u64) -> u64 {
    word.wrapping_mul(SECOND).rotate_left(33).wrapping_mul(FIRST)
}

fn mixed(mut word: u64) -> u64 {
    word ^= word >> 33;
    word = word.wrapping_mul(0xff51_afd7_ed55_8ccd);
    word ^= word >> 33;
    word = word.wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    word ^ word >> 33
}

/// Eight bytes at most, the lowest first.
fn little(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte))
}

/// The same of bytes with signs: a negative one turns all bits above it.
fn signed(bytes: &[u8]) -> u64 {
    bytes.iter().enumerate().fold(0, |word, (place, &byte)| word ^ (i64::from(byte as i8) as u64) << (8 * place))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of the test suites of the DataStax drivers for Python and Ruby.
    #[test]
    fn tokens_are_those_of_other_drivers() {
        let repeated = |bytes: &[u8], n: usize| bytes.repeat(n);
        let counted = |from: u8| (from..from + 16).collect::<Vec<u8>>();
        let cases = [
            (b"123".to_vec(), -7_468_325_962_851_647_638),
            (repeated(b"\x00\xff\x10\xfa\x99", 10), 5_837_342_703_291_459_765),
            (repeated(b"\xfe", 8), -8_927_430_733_708_461_935),
            (repeated(b"\x10", 8), 1_446_172_840_243_228_796),
            (b"9223372036854775807".to_vec(), 7_162_290_910_810_015_547),
            (counted(1), -5_563_837_382_979_743_776),
            (counted(2), -1_513_403_162_740_402_161),
            (counted(6), -6_316_563_938_475_080_831),
            (repeated(b"\x00", 16), 5_457_549_051_747_178_710),
            (repeated(b"\xff", 16), -2_824_192_546_314_762_522),
            (repeated(b"\xfe", 17), -1_672_437_813_826_982_685),
            (repeated(b"\xfe", 4), 4_566_408_979_886_474_012),
            (repeated(b"\x00", 4), -3_485_513_579_396_041_028),
            (b"\x00\xff\xff\xff".to_vec(), 123_573_637_386_978_882),
            (b"\xe2\xe7".to_vec(), -8_582_699_461_035_929_883),
            (b"\xe2\xe7\xe2\xe7\xe2\xe7\x01".to_vec(), 2_222_373_981_930_033_306),
        ];
        for (key, expected) in cases {
            assert_eq!(token(&key), expected, "{key:x?}");
        }
    }

    #[test]
    fn the_empty_key_has_the_least_token() {
        assert_eq!(token(b""), i64::MIN);
    }
}
