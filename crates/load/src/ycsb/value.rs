//! Contents of fields: random printable characters, made eight at a time.

use super::distribution::LengthChooser;
use crate::random::Random;
use crate::sql::Params;

/// Appends `length` random characters from '0' to 'o': 64 of them, no space and no quote.
pub fn write(length: u32, random: &mut Random, text: &mut String) {
    let mut buffer = [0_u8; 512];
    let mut rest = length as usize;
    while rest > 0 {
        let part = &mut buffer[..rest.min(512)];
        for chunk in part.chunks_mut(8) {
            let characters = (random.bits() & 0x3f3f_3f3f_3f3f_3f3f) + 0x3030_3030_3030_3030;
            chunk.copy_from_slice(&characters.to_le_bytes()[..chunk.len()]);
        }
        // ASCII by construction.
        text.push_str(std::str::from_utf8(part).unwrap_or_default());
        rest -= part.len();
    }
}

/// Appends one field.
pub fn push(lengths: &LengthChooser, random: &mut Random, params: &mut Params) {
    let length = lengths.draw(random);
    params.push_written(|text| write(length, random, text));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_printable_and_as_long_as_asked_for() {
        let mut random = Random::new(1, 0);
        for length in [0, 1, 7, 8, 100, 512, 513, 5_000] {
            let mut text = "before".to_owned();
            write(length, &mut random, &mut text);
            assert_eq!(text.len(), 6 + length as usize);
            assert!(text.strip_prefix("before").expect("kept").bytes().all(|b| (b'0'..=b'o').contains(&b)));
        }
    }

    #[test]
    fn all_characters_are_alike() {
        let mut text = String::new();
        write(64_000, &mut Random::new(2, 0), &mut text);
        let mut counts = [0_i32; 64];
        text.bytes().for_each(|b| counts[usize::from(b - b'0')] += 1);
        assert!(counts.iter().all(|n| (850..1_150).contains(n)), "{counts:?}");
    }
}
