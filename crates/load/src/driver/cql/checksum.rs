//! Checksums of protocol v5's segments.

/// Of a segment's header.
pub(super) fn crc24(bytes: &[u8]) -> u32 {
    const START: u32 = 0x0087_5060;
    const POLYNOMIAL: u32 = 0x0197_4f0b;
    bytes.iter().fold(START, |crc, &byte| {
        (0..8).fold(crc ^ u32::from(byte) << 16, |crc, _| {
            let next = crc << 1;
            if next & 0x0100_0000 == 0 { next } else { next ^ POLYNOMIAL }
        })
    })
}

/// Of a segment's payload: that of Ethernet, over four bytes of the protocol's own and the payload.
pub(super) fn crc32(bytes: &[u8]) -> u32 {
    const FIRST: [u8; 4] = [0xfa, 0x2d, 0x55, 0xca];
    !update(update(u32::MAX, &FIRST), bytes)
}

/// Eight bytes at a time: table `k` has the checksum of a byte with `k` zeros behind it.
fn update(start: u32, bytes: &[u8]) -> u32 {
    let mut crc = start;
    let mut chunks = bytes.chunks_exact(8);
    for chunk in &mut chunks {
        let low = crc ^ u32::from_le_bytes([chunk[0], chunk[1], chunk[2], chunk[3]]);
        let first = low.to_le_bytes();
        crc = (0..4)
            .fold(0, |crc, k| crc ^ TABLES[7 - k][usize::from(first[k])] ^ TABLES[3 - k][usize::from(chunk[4 + k])]);
    }
    chunks.remainder().iter().fold(crc, |crc, &byte| TABLES[0][usize::from(crc as u8 ^ byte)] ^ crc >> 8)
}

static TABLES: [[u32; 256]; 8] = tables();

const fn tables() -> [[u32; 256]; 8] {
    const POLYNOMIAL: u32 = 0xedb8_8320;
    let mut tables = [[0; 256]; 8];
    let mut byte = 0;
    while byte < 256 {
        let mut crc = byte as u32;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 1 == 0 { crc >> 1 } else { crc >> 1 ^ POLYNOMIAL };
            bit += 1;
        }
        tables[0][byte] = crc;
        byte += 1;
    }
    let mut k = 1;
    while k < 8 {
        let mut byte = 0;
        while byte < 256 {
            let before = tables[k - 1][byte];
            tables[k][byte] = before >> 8 ^ tables[0][(before & 0xff) as usize];
            byte += 1;
        }
        k += 1;
    }
    tables
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_of_the_usual_text_is_known() {
        // The check value of CRC-32 is that of "123456789".
        assert_eq!(!update(u32::MAX, b"123456789"), 0xcbf4_3926);
        assert_eq!(!update(u32::MAX, b""), 0);
        let long: Vec<u8> = (0..100).collect();
        let slow = long.iter().fold(u32::MAX, |crc, &byte| TABLES[0][usize::from(crc as u8 ^ byte)] ^ crc >> 8);
        assert_eq!(update(u32::MAX, &long), slow);
    }

    #[test]
    fn a_changed_bit_changes_both() {
        assert_ne!(crc24(&[1, 0, 2]), crc24(&[1, 0, 3]));
        assert!(crc24(&[0xff; 3]) < 1 << 24);
        assert_ne!(crc32(b"a"), crc32(b"b"));
    }
}
