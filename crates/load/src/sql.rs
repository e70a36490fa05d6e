//! What SQL drivers are asked: a statement with its parameters, in a buffer that is reused from step to step.

use std::fmt::Write;
use std::ops::Range;
use std::sync::Arc;

use crate::driver::{ErrorClass, Failure};
use crate::protocol::Protocol;

/// SQL servers, whatever their dialect.
#[derive(Clone, Copy, Debug)]
pub enum Sql {}

impl Protocol for Sql {
    type Request = SqlRequest;
    type Answer = SqlAnswer;
}

/// Whose placeholders and lexical rules statements follow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Dialect {
    /// PostgreSQL: `$1`, `$2` and so on.
    #[default]
    Postgres,
    /// MySQL and MariaDB: `?`.
    Mysql,
    /// Cassandra: `?`; an INSERT has one row, and keys have no order but that of their tokens.
    Cql,
}

impl Dialect {
    /// The dialect with this name.
    ///
    /// # Errors
    /// A text with the names that there are.
    pub fn from_name(name: &str) -> Result<Self, String> {
        match name {
            "postgresql" => Ok(Self::Postgres),
            "mysql" => Ok(Self::Mysql),
            "cql" => Ok(Self::Cql),
            _ => Err(format!("dialect={name:?} must be \"postgresql\", \"mysql\" or \"cql\"")),
        }
    }

    /// Appends the placeholder of parameter `number`, counted from 1.
    pub(crate) fn write_placeholder(self, number: usize, text: &mut String) {
        match self {
            // Writing to a String cannot fail.
            Self::Postgres => _ = write!(text, "${number}"),
            Self::Mysql | Self::Cql => text.push('?'),
        }
    }

    /// The placeholder of parameter `number`, counted from 1.
    pub(crate) fn placeholder(self, number: usize) -> String {
        let mut text = String::new();
        self.write_placeholder(number, &mut text);
        text
    }
}

/// One step of an operation for an SQL server.
#[derive(Debug, Default)]
pub struct SqlRequest {
    /// What to run.
    pub command: SqlCommand,
    /// Values of the placeholders of a prepared statement, in order.
    pub params: Params,
    /// What the answer must be.
    pub expect: Expect,
    /// Whether a row is wanted as text.
    pub wants_row: bool,
    /// Whether that is the last one; otherwise it is the first.
    pub keeps_last: bool,
}

/// What a step runs.
#[derive(Clone, Debug, Default)]
pub enum SqlCommand {
    /// Begins a transaction.
    #[default]
    Begin,
    /// Commits it.
    Commit,
    /// Rolls it back.
    Rollback,
    /// The statement with this number among those that the driver prepares on every connection.
    Prepared(u32),
    /// A text as it is; it may hold several statements, has no parameters, and is parsed each time.
    Text(Arc<str>),
}

/// What an answer must be; anything else is a failure of class `Validation`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Expect {
    /// Fewest and most rows returned or touched.
    pub rows: Option<(u64, u64)>,
    /// Length of every column of every row, in bytes.
    pub column_bytes: Option<u32>,
}

impl Expect {
    /// The rows of an answer that is complete, if they are as many as they must be.
    pub(crate) fn judge(&self, n_rows: u64) -> Result<u64, Failure> {
        match self.rows {
            Some((min, max)) if !(min..=max).contains(&n_rows) => {
                let wanted = if min == max { format!("{min}") } else { format!("{min} to {max}") };
                Err(Failure::without_code(ErrorClass::Validation, format!("{n_rows} rows instead of {wanted}")))
            }
            _ => Ok(n_rows),
        }
    }

    /// What is wrong with the lengths of a row's columns, in bytes (`None`: NULL).
    pub(crate) fn judge_lengths(&self, lengths: impl Iterator<Item = Option<usize>>, row: u64) -> Option<Failure> {
        let n_bytes = self.column_bytes?;
        let (index, found) = lengths.enumerate().find(|(_, length)| *length != Some(n_bytes as usize))?;
        let found = found.map_or("NULL".to_owned(), |length| format!("{length} bytes"));
        let message = format!("column {} of row {row} is {found} instead of {n_bytes} bytes", index + 1);
        Some(Failure::without_code(ErrorClass::Validation, message))
    }
}

/// What came back besides the number of rows: one row as text, when the request asked for it.
#[derive(Clone, Debug, Default)]
pub struct SqlAnswer {
    text: String,
    columns: Vec<Option<Range<usize>>>,
    has_row: bool,
}

impl SqlAnswer {
    /// Whether there is a row.
    pub fn has_row(&self) -> bool {
        self.has_row
    }

    /// The columns of the row (`None`: NULL).
    pub fn columns(&self) -> impl ExactSizeIterator<Item = Option<&str>> {
        self.columns.iter().map(|column| column.clone().map(|range| &self.text[range]))
    }

    /// Forgets the row.
    pub fn clear(&mut self) {
        self.text.clear();
        self.columns.clear();
        self.has_row = false;
    }

    /// Takes a row (`None`: NULL; what is no UTF-8 becomes the sign for that).
    pub fn set_row<'a>(&mut self, columns: impl Iterator<Item = Option<&'a [u8]>>) {
        self.clear();
        self.has_row = true;
        for column in columns {
            let start = self.text.len();
            for chunk in column.unwrap_or_default().utf8_chunks() {
                self.text.push_str(chunk.valid());
                if !chunk.invalid().is_empty() {
                    self.text.push(char::REPLACEMENT_CHARACTER);
                }
            }
            self.columns.push(column.map(|_| start..self.text.len()));
        }
    }
}

/// One parameter as the drivers read it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Param<'a> {
    /// NULL.
    Null,
    /// A whole number; sent as whatever numeric type the server wants.
    Int(i64),
    /// A real number.
    Float(f64),
    /// Text, or the text form of any other type (UTF-8).
    Text(&'a str),
}

#[derive(Clone, Debug)]
enum Slot {
    Null,
    Int(i64),
    Float(f64),
    Text(Range<usize>),
}

/// A list of parameters; clearing keeps its memory.
#[derive(Clone, Debug, Default)]
pub struct Params {
    slots: Vec<Slot>,
    text: String,
}

impl Params {
    /// Forgets all.
    pub fn clear(&mut self) {
        self.slots.clear();
        self.text.clear();
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// Appends NULL.
    pub fn push_null(&mut self) {
        self.slots.push(Slot::Null);
    }

    /// Appends a whole number.
    pub fn push_int(&mut self, value: i64) {
        self.slots.push(Slot::Int(value));
    }

    /// Appends a real number.
    pub fn push_float(&mut self, value: f64) {
        self.slots.push(Slot::Float(value));
    }

    /// Appends text.
    pub fn push_text(&mut self, value: &str) {
        self.push_written(|text| text.push_str(value));
    }

    /// Appends text that `write` adds to the buffer it is given, which may hold other text already.
    pub fn push_written(&mut self, write: impl FnOnce(&mut String)) {
        let start = self.text.len();
        write(&mut self.text);
        self.slots.push(Slot::Text(start..self.text.len()));
    }

    /// All in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Param<'_>> {
        self.slots.iter().map(|slot| self.param(slot))
    }

    /// The one with this number, counted from 0.
    pub fn get(&self, index: usize) -> Option<Param<'_>> {
        self.slots.get(index).map(|slot| self.param(slot))
    }

    fn param(&self, slot: &Slot) -> Param<'_> {
        match slot {
            Slot::Null => Param::Null,
            Slot::Int(value) => Param::Int(*value),
            Slot::Float(value) => Param::Float(*value),
            Slot::Text(range) => Param::Text(&self.text[range.clone()]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_read_as_text() {
        let mut answer = SqlAnswer::default();
        assert!(!answer.has_row());
        answer.set_row([Some(&b"ab"[..]), None, Some(b""), Some(b"\xffx")].into_iter());
        let columns: Vec<_> = answer.columns().collect();
        assert_eq!(columns, [Some("ab"), None, Some(""), Some("\u{fffd}x")]);
        answer.set_row([].into_iter());
        assert_eq!((answer.has_row(), answer.columns().len()), (true, 0));
        answer.clear();
        assert!(!answer.has_row());
    }

    #[test]
    fn parameters_come_back_in_order_and_the_buffer_is_reused() {
        let mut params = Params::default();
        for _ in 0..2 {
            params.clear();
            params.push_text("a");
            params.push_int(-7);
            params.push_written(|text| text.push_str("bc"));
            params.push_null();
            params.push_float(0.5);
            let all: Vec<_> = params.iter().collect();
            let expected = [Param::Text("a"), Param::Int(-7), Param::Text("bc"), Param::Null, Param::Float(0.5)];
            assert_eq!(all, expected);
        }
    }
}
