//! Names of records: the word "user" and a number that the record's own number is hashed to.

use std::fmt::Write;

/// FNV-1a with 64 bits over the 8 octets of `value`, the lowest first, as its author publishes it; made positive as a
/// signed number, because YCSB does so.
pub fn fnv_hash(value: u64) -> u64 {
    const BASIS: u64 = 0xcbf2_9ce4_8422_2325;
    const PRIME: u64 = 1_099_511_628_211;
    let hash = value.to_le_bytes().iter().fold(BASIS, |hash, &octet| (hash ^ u64::from(octet)).wrapping_mul(PRIME));
    (hash as i64).unsigned_abs()
}

/// How a record's number becomes its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyNaming {
    /// Whether the number itself stands in the key (insert order "ordered"), or its hash ("hashed").
    pub is_ordered: bool,
    /// Fewest digits; 1 means no padding.
    pub zero_padding: usize,
}

impl KeyNaming {
    /// Appends the key of record `number`.
    pub fn write(&self, number: u64, text: &mut String) {
        let shown = if self.is_ordered { number } else { fnv_hash(number) };
        // Writing to a String cannot fail.
        let _ = write!(text, "user{shown:0width$}", width = self.zero_padding);
    }
}

impl Default for KeyNaming {
    fn default() -> Self {
        Self { is_ordered: false, zero_padding: 1 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(naming: KeyNaming, number: u64) -> String {
        let mut text = String::new();
        naming.write(number, &mut text);
        text
    }

    #[test]
    fn hashed_keys_are_the_published_ones() {
        let published = [
            (0, "user6284781860667377211"),
            (1, "user8517097267634966620"),
            (2, "user1820151046732198393"),
            (3, "user4052466453699787802"),
            (4, "user3232700585171816769"),
            (999_999, "user2744965632448235251"),
        ];
        for (number, expected) in published {
            assert_eq!(key(KeyNaming::default(), number), expected);
        }
    }

    #[test]
    fn ordered_keys_are_padded() {
        assert_eq!(key(KeyNaming { is_ordered: true, zero_padding: 1 }, 5), "user5");
        assert_eq!(key(KeyNaming { is_ordered: true, zero_padding: 8 }, 5), "user00000005");
        assert_eq!(key(KeyNaming { is_ordered: true, zero_padding: 2 }, 12_345), "user12345");
    }
}
