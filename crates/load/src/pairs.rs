//! What stores of records by key are asked: a key-value engine, or a document server. Buffers are reused from step to step.

use crate::driver::{ErrorClass, Failure};
use crate::protocol::Protocol;

/// Stores that keep records, each with fields, by their keys, and know the order of the keys.
#[derive(Clone, Copy, Debug)]
pub enum Pairs {}

impl Protocol for Pairs {
    type Request = PairsRequest;
    type Answer = PairsAnswer;
}

/// What is done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Command {
    /// Reads the record of the key.
    #[default]
    Get,
    /// Writes fields of the record of the key, which must be there.
    Update,
    /// Adds the records, which must not be there.
    Insert,
    /// Reads records in the order of keys, from the first that is not before the key.
    Scan,
}

/// One step of an operation.
#[derive(Debug, Default)]
pub struct PairsRequest {
    /// What is done.
    pub command: Command,
    /// The field that is read or written; `None`: all of them.
    pub field: Option<u32>,
    /// Fields of a record.
    pub n_fields: u32,
    /// Most records of a scan.
    pub limit: u32,
    /// Fewest and most records that must come or be touched.
    pub rows: Option<(u64, u64)>,
    /// Length of every field that comes, in bytes.
    pub field_bytes: Option<u32>,
    keys: Texts,
    values: Texts,
}

/// Nothing comes back but the number of records.
#[derive(Clone, Copy, Debug, Default)]
pub struct PairsAnswer;

/// Texts one after the other in one buffer.
#[derive(Debug, Default)]
struct Texts {
    text: String,
    ends: Vec<usize>,
}

impl Texts {
    fn clear(&mut self) {
        self.text.clear();
        self.ends.clear();
    }

    fn push_written(&mut self, write: impl FnOnce(&mut String)) {
        write(&mut self.text);
        self.ends.push(self.text.len());
    }

    fn get(&self, index: usize) -> &str {
        let start = if index == 0 { 0 } else { self.ends[index - 1] };
        &self.text[start..self.ends[index]]
    }
}

impl PairsRequest {
    /// Begins another request in the same buffers.
    pub fn begin(&mut self, command: Command, n_fields: u32) {
        self.keys.clear();
        self.values.clear();
        (self.command, self.n_fields) = (command, n_fields);
        (self.field, self.limit, self.rows, self.field_bytes) = (None, 1, None, None);
    }

    /// Adds a key.
    pub fn push_key(&mut self, write: impl FnOnce(&mut String)) {
        self.keys.push_written(write);
    }

    /// Adds the content of a field.
    pub fn push_value(&mut self, write: impl FnOnce(&mut String)) {
        self.values.push_written(write);
    }

    /// How many keys there are.
    pub fn n_keys(&self) -> usize {
        self.keys.ends.len()
    }

    /// A key.
    ///
    /// # Panics
    /// There is no such one.
    pub fn key(&self, index: usize) -> &str {
        self.keys.get(index)
    }

    /// The values of a record, in the order of its fields: all of them, or the one of `field`.
    pub fn values(&self, record: usize) -> impl ExactSizeIterator<Item = &str> {
        let n = if self.field.is_some() { 1 } else { self.n_fields as usize };
        (record * n..(record + 1) * n).map(|index| self.values.get(index))
    }

    /// The number of records, if it is what it must be.
    ///
    /// # Errors
    /// `Validation`.
    pub fn judge(&self, n_rows: u64) -> Result<u64, Failure> {
        match self.rows {
            Some((min, max)) if !(min..=max).contains(&n_rows) => {
                let wanted = if min == max { format!("{min}") } else { format!("{min} to {max}") };
                Err(wrong(format!("{n_rows} records instead of {wanted}")))
            }
            _ => Ok(n_rows),
        }
    }

    /// Whether a record came with the fields that it must have.
    ///
    /// # Errors
    /// `Validation`.
    pub fn judge_fields(&self, lengths: impl Iterator<Item = usize>) -> Result<(), Failure> {
        let Some(n_bytes) = self.field_bytes else { return Ok(()) };
        let (mut n, mut other) = (0_u32, None);
        for length in lengths {
            n += 1;
            if length != n_bytes as usize {
                other = Some(length);
            }
        }
        let wanted = if self.field.is_some() { 1 } else { self.n_fields };
        match other {
            Some(length) => Err(wrong(format!("a field of {length} bytes instead of {n_bytes}"))),
            None if n != wanted => Err(wrong(format!("{n} fields instead of {wanted}"))),
            None => Ok(()),
        }
    }
}

fn wrong(message: String) -> Failure {
    Failure::without_code(ErrorClass::Validation, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_have_their_own_values() {
        let mut request = PairsRequest::default();
        request.begin(Command::Insert, 2);
        for text in ["a", "bc"] {
            request.push_key(|key| key.push_str(text));
            request.push_value(|value| value.push_str(text));
            request.push_value(|value| value.push('x'));
        }
        assert_eq!((request.n_keys(), request.key(0), request.key(1)), (2, "a", "bc"));
        assert_eq!(request.values(1).collect::<Vec<_>>(), ["bc", "x"]);
        request.begin(Command::Update, 2);
        request.field = Some(1);
        request.push_key(|key| key.push('k'));
        request.push_value(|value| value.push('v'));
        assert_eq!((request.key(0), request.values(0).collect::<Vec<_>>()), ("k", vec!["v"]));
    }

    #[test]
    fn a_wrong_answer_is_told() {
        let mut request = PairsRequest::default();
        request.begin(Command::Scan, 2);
        (request.rows, request.field_bytes) = (Some((1, 3)), Some(10));
        assert_eq!(request.judge(3), Ok(3));
        let text = |failure: Failure| failure.to_string();
        assert_eq!(request.judge(4).map_err(text), Err("4 records instead of 1 to 3".to_owned()));
        assert_eq!(request.judge_fields([10, 10].into_iter()), Ok(()));
        let short = request.judge_fields([10, 9].into_iter()).map_err(text);
        assert_eq!(short, Err("a field of 9 bytes instead of 10".to_owned()));
        let few = request.judge_fields([10].into_iter()).map_err(text);
        assert_eq!(few, Err("1 fields instead of 2".to_owned()));
    }
}
