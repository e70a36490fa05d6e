//! From the server's errors to [`Failure`]s.

use std::io;

use super::fields::Fields;
use crate::driver::{ErrorClass, Failure};

/// Unprepared: the server has forgotten a statement, as it does after its schema has changed.
pub(super) const UNPREPARED: i32 = 0x2500;
/// A frame that it does not understand, or a version that it does not speak.
pub(super) const PROTOCOL: i32 = 0x000a;

/// What the server says against a request.
#[derive(Debug)]
pub(super) struct ServerError {
    pub(super) code: i32,
    pub(super) failure: Failure,
}

impl ServerError {
    /// Reads the body of an ERROR.
    pub(super) fn read(body: &[u8]) -> Self {
        let mut fields = Fields(body);
        let Some(code) = fields.i32() else {
            return Self { code: PROTOCOL, failure: Failure::protocol("an error without a number") };
        };
        let message = fields.short().map(|text| String::from_utf8_lossy(text).into_owned()).unwrap_or_default();
        let text = Some(format!("{code:#06x}"));
        Self { code, failure: Failure { class: class_of(code), code: text, message, word: None } }
    }

    /// Whether the server ends the connection after it.
    pub(super) fn is_fatal(&self) -> bool {
        self.code == PROTOCOL
    }
}

/// What an error of the stream means: bytes that are no answer are the server's fault, all else is a lost connection.
pub(super) fn lost(context: &str, error: &io::Error) -> Failure {
    match error.kind() {
        io::ErrorKind::InvalidData => Failure::protocol(error.to_string()),
        _ => Failure::lost(context, error),
    }
}

fn class_of(code: i32) -> ErrorClass {
    match code {
        PROTOCOL => ErrorClass::Protocol,
        // Bad credentials, unauthorized.
        0x0100 | 0x2100 => ErrorClass::Permission,
        // Unavailable (the consistency cannot be met), overloaded, bootstrapping, no room for change data.
        0x1000..=0x1002 | 0x1600 => ErrorClass::Resource,
        // Of a write, a read, and a compare-and-set of which nobody knows whether it happened.
        0x1100 | 0x1200 | 0x1700 => ErrorClass::Timeout,
        // Syntax, invalid, configuration, already there, unprepared.
        0x2000 | 0x2200..=0x2500 => ErrorClass::Statement,
        _ => ErrorClass::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_has_its_class() {
        let expected = [
            (0x0000, ErrorClass::Other),
            (0x000a, ErrorClass::Protocol),
            (0x0100, ErrorClass::Permission),
            (0x1000, ErrorClass::Resource),
            (0x1001, ErrorClass::Resource),
            (0x1002, ErrorClass::Resource),
            (0x1003, ErrorClass::Other),
            (0x1100, ErrorClass::Timeout),
            (0x1200, ErrorClass::Timeout),
            (0x1300, ErrorClass::Other),
            (0x1500, ErrorClass::Other),
            (0x1600, ErrorClass::Resource),
            (0x1700, ErrorClass::Timeout),
            (0x2000, ErrorClass::Statement),
            (0x2100, ErrorClass::Permission),
            (0x2200, ErrorClass::Statement),
            (0x2300, ErrorClass::Statement),
            (0x2400, ErrorClass::Statement),
            (0x2500, ErrorClass::Statement),
        ];
        for (code, class) in expected {
            assert_eq!(class_of(code), class, "{code:#x}");
        }
    }

    #[test]
    fn an_error_gives_code_and_words() {
        let error = ServerError::read(b"\0\0\x10\x01\0\x04busy");
        assert_eq!((error.failure.class, error.failure.to_string()), (ErrorClass::Resource, "0x1001 busy".to_owned()));
        assert!(!error.is_fatal());
        assert!(ServerError::read(b"\0").is_fatal());
    }
}
