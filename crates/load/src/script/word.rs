//! What names are made of, in all texts of scripts.

/// Whether a name of a variable may hold the byte.
pub(super) fn is_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 0x80
}
