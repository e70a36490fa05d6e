//! From the server's error responses and the system's errors to [`Failure`]s.

use crate::driver::{ErrorClass, Failure};

/// An error response.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ServerError {
    /// Its class, code and words.
    pub(super) failure: Failure,
    /// Whether the server ends the connection.
    pub(super) is_fatal: bool,
}

impl ServerError {
    /// Reads the body of an error response; fields that are missing stay empty.
    pub(super) fn read(body: &[u8]) -> Self {
        let (mut severity, mut code, mut message) = (String::new(), None, String::new());
        for field in body.split(|&byte| byte == 0) {
            let Some((kind, value)) = field.split_first() else { continue };
            let text = || String::from_utf8_lossy(value).into_owned();
            match kind {
                // "V" comes after "S" and is never translated.
                b'S' | b'V' => severity = text(),
                b'C' => code = Some(text()),
                b'M' => message = text(),
                _ => {}
            }
        }
        let class = code.as_deref().map_or(ErrorClass::Other, class_of);
        Self {
            failure: Failure { class, code, message, word: None },
            is_fatal: matches!(severity.as_str(), "FATAL" | "PANIC"),
        }
    }
}

/// The class of an SQLSTATE: single codes first, then the groups that its first two characters name (PostgreSQL manual,
/// appendix A).
pub(super) fn class_of(code: &str) -> ErrorClass {
    match code {
        "08P01" => return ErrorClass::Protocol,
        "57P01" | "57P02" | "57P03" | "57P04" | "57P05" => return ErrorClass::Connect,
        // Cancelled, lock not available, idle in transaction too long, transaction too long.
        "57014" | "55P03" | "25P03" | "25P04" => return ErrorClass::Timeout,
        "40001" | "40P01" => return ErrorClass::Serialization,
        "40002" => return ErrorClass::Constraint,
        "25006" => return ErrorClass::ReadOnly,
        "42501" => return ErrorClass::Permission,
        _ => {}
    }
    match code.get(..2) {
        Some("08") => ErrorClass::Connect,
        Some("23" | "44") => ErrorClass::Constraint,
        Some("53" | "54") => ErrorClass::Resource,
        Some("28") => ErrorClass::Permission,
        Some("03" | "0A" | "20" | "21" | "22" | "24" | "25" | "26" | "2B" | "34" | "3B" | "3D" | "3F" | "42") => {
            ErrorClass::Statement
        }
        _ => ErrorClass::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_group_of_codes_has_its_class() {
        let expected = [
            ("08006", ErrorClass::Connect),
            ("57P01", ErrorClass::Connect),
            ("57P03", ErrorClass::Connect),
            ("08P01", ErrorClass::Protocol),
            ("40001", ErrorClass::Serialization),
            ("40P01", ErrorClass::Serialization),
            ("23505", ErrorClass::Constraint),
            ("40002", ErrorClass::Constraint),
            ("25006", ErrorClass::ReadOnly),
            ("53100", ErrorClass::Resource),
            ("53300", ErrorClass::Resource),
            ("54001", ErrorClass::Resource),
            ("57014", ErrorClass::Timeout),
            ("55P03", ErrorClass::Timeout),
            ("42501", ErrorClass::Permission),
            ("28P01", ErrorClass::Permission),
            ("42P01", ErrorClass::Statement),
            ("22012", ErrorClass::Statement),
            ("25P02", ErrorClass::Statement),
            ("3D000", ErrorClass::Statement),
            ("P0001", ErrorClass::Other),
            ("XX000", ErrorClass::Other),
            ("", ErrorClass::Other),
            ("é1", ErrorClass::Other),
        ];
        for (code, class) in expected {
            assert_eq!(class_of(code), class, "{code}");
        }
    }

    #[test]
    fn an_error_response_gives_code_words_and_whether_it_is_fatal() {
        let error = ServerError::read(b"SFATAL\0VFATAL\0C53300\0Msorry, too many clients already\0Fproc.c\0\0");
        assert!(error.is_fatal);
        assert_eq!(error.failure.class, ErrorClass::Resource);
        assert_eq!(error.failure.to_string(), "53300 sorry, too many clients already");
        let error = ServerError::read(b"SFEHLER\0VERROR\0C23505\0Mdoppelt\0\0");
        assert!(!error.is_fatal);
        assert_eq!(error.failure.class, ErrorClass::Constraint);
        assert_eq!(ServerError::read(b"\0").failure, Failure::without_code(ErrorClass::Other, ""));
    }
}
