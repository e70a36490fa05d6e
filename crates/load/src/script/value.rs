//! Values of variables, and how pgbench turns one type into another.

use std::fmt::Write;

use crate::sql::{Dialect, Params};

/// A value that an expression can have; `Text` and `Unset` stand only in a [`Slot`].
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) enum Scalar {
    /// Nothing was ever assigned.
    #[default]
    Unset,
    Null,
    Bool(bool),
    Int(i64),
    Float(f64),
    /// The text beside it.
    Text,
}

/// One variable; its text buffer is kept from value to value.
#[derive(Debug, Default)]
pub(super) struct Slot {
    pub(super) value: Scalar,
    pub(super) text: String,
}

impl Clone for Slot {
    fn clone(&self) -> Self {
        Self { value: self.value, text: self.text.clone() }
    }

    // Called at the start of every transaction: a text that is not in use is not copied.
    fn clone_from(&mut self, other: &Self) {
        self.value = other.value;
        if other.value == Scalar::Text {
            self.text.clone_from(&other.text);
        }
    }
}

impl Slot {
    pub(super) fn set_text(&mut self, text: &str) {
        self.write_text(|buffer| buffer.push_str(text));
    }

    pub(super) fn write_text(&mut self, write: impl FnOnce(&mut String)) {
        self.text.clear();
        write(&mut self.text);
        self.value = Scalar::Text;
    }

    /// As the parameter of a prepared statement.
    pub(super) fn push(&self, params: &mut Params, dialect: Dialect) {
        match self.value {
            Scalar::Unset | Scalar::Null => params.push_null(),
            // MySQL has no type of its own for truth values.
            Scalar::Bool(value) if dialect == Dialect::Mysql => params.push_int(value.into()),
            Scalar::Bool(value) => params.push_text(if value { "true" } else { "false" }),
            Scalar::Int(value) => params.push_int(value),
            Scalar::Float(value) => params.push_float(value),
            Scalar::Text => params.push_text(&self.text),
        }
    }

    /// As it stands in a statement's text.
    pub(super) fn write(&self, text: &mut String) {
        match self.value {
            Scalar::Unset | Scalar::Null => text.push_str("NULL"),
            Scalar::Bool(value) => text.push_str(if value { "true" } else { "false" }),
            Scalar::Text => text.push_str(&self.text),
            // Writing to a string cannot fail.
            Scalar::Int(value) => _ = write!(text, "{value}"),
            Scalar::Float(value) => _ = write!(text, "{value:?}"),
        }
    }

    /// As an SQL literal.
    pub(super) fn write_literal(&self, text: &mut String, dialect: Dialect) {
        if self.value != Scalar::Text {
            return self.write(text);
        }
        text.push('\'');
        for c in self.text.chars() {
            if c == '\'' || c == '\\' && dialect == Dialect::Mysql {
                text.push(c);
            }
            text.push(c);
        }
        text.push('\'');
    }

    /// As an operand; a text (of `-D` or `\gset`) is read as pgbench reads it.
    pub(super) fn operand(&self) -> Result<Scalar, String> {
        match self.value {
            Scalar::Text => read(&self.text),
            value => Ok(value),
        }
    }
}

/// The value that a variable's text means in an expression.
fn read(text: &str) -> Result<Scalar, String> {
    let number = text.trim_ascii_start();
    if let Ok(value) = number.parse() {
        return Ok(Scalar::Int(value));
    }
    if !number.is_empty() && number.trim_start_matches(['+', '-']).bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(format!("{text:?} is out of the range of bigint"));
    }
    let lower = text.to_ascii_lowercase();
    let abbreviates = |word: &str, fewest: usize| lower.len() >= fewest && word.starts_with(&lower);
    if lower == "null" {
        return Ok(Scalar::Null);
    }
    if abbreviates("true", 1) || abbreviates("yes", 1) || lower == "on" {
        return Ok(Scalar::Bool(true));
    }
    if abbreviates("false", 1) || abbreviates("no", 1) || abbreviates("off", 2) {
        return Ok(Scalar::Bool(false));
    }
    number.parse().map(Scalar::Float).map_err(|_| format!("{text:?} is no value that an expression can use"))
}

impl Scalar {
    fn type_name(self) -> &'static str {
        match self {
            Self::Unset | Self::Null => "null",
            Self::Bool(_) => "boolean",
            Self::Int(_) => "int",
            Self::Float(_) => "double",
            Self::Text => "text",
        }
    }

    fn cannot_become<T>(self, name: &str) -> Result<T, String> {
        Err(format!("cannot coerce {} to {name}", self.type_name()))
    }

    pub(super) fn to_bool(self) -> Result<bool, String> {
        match self {
            Self::Bool(value) => Ok(value),
            _ => self.cannot_become("boolean"),
        }
    }

    /// A double is rounded half to even.
    pub(super) fn to_int(self) -> Result<i64, String> {
        match self {
            Self::Int(value) => Ok(value),
            Self::Float(value) => {
                let rounded = value.round_ties_even();
                // 2⁶³ is a double, 2⁶³ − 1 is not.
                if (-(2.0_f64.powi(63))..2.0_f64.powi(63)).contains(&rounded) {
                    Ok(rounded as i64)
                } else {
                    Err(format!("double to int overflow for {value:?}"))
                }
            }
            _ => self.cannot_become("int"),
        }
    }

    pub(super) fn to_float(self) -> Result<f64, String> {
        match self {
            Self::Int(value) => Ok(value as f64),
            Self::Float(value) => Ok(value),
            _ => self.cannot_become("double"),
        }
    }

    /// As a condition of CASE and `\if`: numbers other than zero are true, NULL is false.
    pub(super) fn is_true(self) -> bool {
        match self {
            Self::Bool(value) => value,
            Self::Int(value) => value != 0,
            Self::Float(value) => value != 0.0,
            Self::Unset | Self::Null | Self::Text => false,
        }
    }
}
