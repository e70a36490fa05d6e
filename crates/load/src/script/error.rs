//! What is wrong with a script, and where.

use std::fmt;

/// A script that cannot be run; its text names the place and shows the line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScriptError {
    /// The file, or the transaction and the number of its statement.
    pub origin: String,
    /// The line, from 1; 0 when the error is not at one place of a text.
    pub line: u32,
    /// The column, from 1, in characters; 0 when the error is not at one place of a text.
    pub column: u32,
    /// The line's text.
    pub text: String,
    /// What is wrong.
    pub message: String,
}

impl ScriptError {
    /// An error at byte `offset` of `source`.
    pub(super) fn at(origin: &str, source: &str, offset: usize, message: impl Into<String>) -> Self {
        let offset = floor_char_boundary(source, offset);
        let before = &source[..offset];
        let start = before.rfind('\n').map_or(0, |newline| newline + 1);
        let text = source[start..].lines().next().unwrap_or("");
        Self {
            origin: origin.to_owned(),
            line: before.matches('\n').count() as u32 + 1,
            column: source[start..offset].chars().count() as u32 + 1,
            text: text.to_owned(),
            message: message.into(),
        }
    }

    /// An error of `origin` as a whole.
    pub(super) fn whole(origin: &str, message: impl Into<String>) -> Self {
        Self { origin: origin.to_owned(), line: 0, column: 0, text: String::new(), message: message.into() }
    }
}

fn floor_char_boundary(source: &str, offset: usize) -> usize {
    (0..=offset.min(source.len())).rev().find(|&at| source.is_char_boundary(at)).unwrap_or(0)
}

impl fmt::Display for ScriptError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { origin, line, column, text, message } = self;
        if *line == 0 {
            return write!(f, "{origin}: {message}");
        }
        let indent = " ".repeat(*column as usize - 1);
        write!(f, "{origin}:{line}:{column}: {message}\n  {text}\n  {indent}^")
    }
}

impl std::error::Error for ScriptError {}

/// A mistake in a text, at a byte of it; becomes a [`ScriptError`] where the text's origin is known.
#[derive(Debug)]
pub(super) struct Mistake {
    pub(super) offset: usize,
    pub(super) message: String,
}

impl Mistake {
    pub(super) fn new(offset: usize, message: impl Into<String>) -> Self {
        Self { offset, message: message.into() }
    }

    pub(super) fn locate(self, origin: &str, source: &str) -> ScriptError {
        ScriptError::at(origin, source, self.offset, self.message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_names_the_place_and_points_at_it() {
        let error = ScriptError::at("a.sql", "\\set x 1\n\\set é 1 +\n", 18, "wrong");
        assert_eq!(error.to_string(), "a.sql:2:9: wrong\n  \\set é 1 +\n          ^");
        assert_eq!(ScriptError::whole("b.sql", "empty").to_string(), "b.sql: empty");
    }
}
