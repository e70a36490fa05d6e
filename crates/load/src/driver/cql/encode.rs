//! Requests as bodies of messages.

use super::fields::{Fields, put_long, put_short, put_text};
use super::kind::Kind;
use crate::driver::Failure;
use crate::sql::Params;

pub(super) mod opcode {
    pub(crate) const ERROR: u8 = 0x00;
    pub(crate) const STARTUP: u8 = 0x01;
    pub(crate) const READY: u8 = 0x02;
    pub(crate) const AUTHENTICATE: u8 = 0x03;
    pub(crate) const QUERY: u8 = 0x07;
    pub(crate) const RESULT: u8 = 0x08;
    pub(crate) const PREPARE: u8 = 0x09;
    pub(crate) const EXECUTE: u8 = 0x0a;
    pub(crate) const AUTH_RESPONSE: u8 = 0x0f;
    pub(crate) const AUTH_SUCCESS: u8 = 0x10;
}

/// In place of a value's length: what is there stays as it is.
const NOT_SET: i32 = -2;

const HAS_VALUES: u8 = 0x01;
const SKIPS_METADATA: u8 = 0x02;
const HAS_PAGE_SIZE: u8 = 0x04;
const HAS_PAGING_STATE: u8 = 0x08;

/// A statement as one connection knows it.
#[derive(Clone, Debug, Default)]
pub(super) struct Prepared {
    /// The server's name of it.
    pub(super) id: Box<[u8]>,
    /// The server's name of the columns that it gives; version 5 only.
    pub(super) result_id: Box<[u8]>,
    pub(super) kinds: Box<[Kind]>,
    /// Of its table; empty where it has no parameters.
    pub(super) keyspace: Box<str>,
    /// Which parameters are the partition key, in the key's order; none where they are not all of it.
    pub(super) keys: Box<[u16]>,
}

/// What all requests of a connection have in common.
#[derive(Clone, Copy, Debug)]
pub(super) struct Form {
    pub(super) version: u8,
    pub(super) consistency: u16,
}

impl Form {
    fn put_flags(self, flags: u8, out: &mut Vec<u8>) {
        out.extend(self.consistency.to_be_bytes());
        if self.version >= 5 {
            out.extend(u32::from(flags).to_be_bytes());
        } else {
            out.push(flags);
        }
    }
}

/// The body of STARTUP.
pub(super) fn startup(out: &mut Vec<u8>) {
    let options = [("CQL_VERSION", "3.0.0"), ("DRIVER_NAME", "trimtab"), ("DRIVER_VERSION", env!("CARGO_PKG_VERSION"))];
    out.extend((options.len() as u16).to_be_bytes());
    for (name, value) in options {
        put_text(name, out);
        put_text(value, out);
    }
}

/// The answer of PLAIN: a user and a password behind zeros.
pub(super) fn plain(user: &str, password: &str, out: &mut Vec<u8>) {
    put_long(format!("\0{user}\0{password}").as_bytes(), out);
}

/// The body of QUERY.
pub(super) fn query(text: &str, form: Form, out: &mut Vec<u8>) {
    put_long(text.as_bytes(), out);
    form.put_flags(0, out);
}

/// The body of QUERY for one page of its rows; `state` is where the page before has ended.
pub(super) fn page(text: &str, form: Form, n_rows: i32, state: Option<&[u8]>, out: &mut Vec<u8>) {
    put_long(text.as_bytes(), out);
    form.put_flags(HAS_PAGE_SIZE | if state.is_some() { HAS_PAGING_STATE } else { 0 }, out);
    out.extend(n_rows.to_be_bytes());
    if let Some(state) = state {
        put_long(state, out);
    }
}

/// The body of PREPARE.
pub(super) fn prepare(text: &str, form: Form, out: &mut Vec<u8>) {
    put_long(text.as_bytes(), out);
    if form.version >= 5 {
        out.extend([0; 4]);
    }
}

/// The body of EXECUTE. `number` is the statement's, as people count.
pub(super) fn execute(
    number: usize,
    prepared: &Prepared,
    params: &Params,
    wants_columns: bool,
    form: Form,
    out: &mut Vec<u8>,
) -> Result<(), Failure> {
    if prepared.kinds.len() != params.len() {
        let n_params = prepared.kinds.len();
        let message = format!("statement {number} takes {n_params} parameters, and {} came", params.len());
        return Err(Failure::statement(message));
    }
    put_short(&prepared.id, out);
    if form.version >= 5 {
        put_short(&prepared.result_id, out);
    }
    let values = if params.is_empty() { 0 } else { HAS_VALUES };
    form.put_flags(values | if wants_columns { 0 } else { SKIPS_METADATA }, out);
    if params.is_empty() {
        return Ok(());
    }
    out.extend((params.len() as u16).to_be_bytes());
    for (index, (param, kind)) in params.iter().zip(&prepared.kinds).enumerate() {
        kind.put(param, out).ok_or_else(|| {
            let place = index + 1;
            Failure::statement(format!("parameter {place} of statement {number} does not fit its column's type"))
        })?;
    }
    Ok(())
}

/// The body of EXECUTE with the values of a row as a server has sent them, with their lengths. A column without a value gets none:
/// NULL would write a tombstone there.
pub(super) fn execute_with(prepared: &Prepared, n_values: usize, values: &[u8], form: Form, out: &mut Vec<u8>) {
    put_short(&prepared.id, out);
    if form.version >= 5 {
        put_short(&prepared.result_id, out);
    }
    form.put_flags(HAS_VALUES | SKIPS_METADATA, out);
    out.extend((n_values as u16).to_be_bytes());
    let mut fields = Fields(values);
    while let Some(value) = fields.value() {
        match value {
            Some(bytes) => put_long(bytes, out),
            None => out.extend(NOT_SET.to_be_bytes()),
        }
    }
}

/// At which a node answers for its own tables alone.
pub(super) const ONE: u16 = 1;

/// The number of a consistency level.
pub(super) fn consistency(name: &str) -> Option<u16> {
    const NAMES: [&str; 11] = [
        "ANY",
        "ONE",
        "TWO",
        "THREE",
        "QUORUM",
        "ALL",
        "LOCAL_QUORUM",
        "EACH_QUORUM",
        "SERIAL",
        "LOCAL_SERIAL",
        "LOCAL_ONE",
    ];
    NAMES.iter().position(|known| known.eq_ignore_ascii_case(name)).map(|number| number as u16)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FOUR: Form = Form { version: 4, consistency: 4 };
    const FIVE: Form = Form { version: 5, consistency: 4 };

    #[test]
    fn an_execution_names_its_statement_and_its_values() {
        let (id, result_id) = (Box::from(*b"id"), Box::from(*b"r"));
        let prepared = Prepared { id, result_id, kinds: [Kind::Text].into(), ..Prepared::default() };
        let mut params = Params::default();
        params.push_text("k");
        let mut out = Vec::new();
        execute(1, &prepared, &params, false, FOUR, &mut out).expect("sound");
        assert_eq!(out, b"\0\x02id\0\x04\x03\0\x01\0\0\0\x01k");
        out.clear();
        execute(1, &prepared, &params, true, FIVE, &mut out).expect("sound");
        assert_eq!(out, b"\0\x02id\0\x01r\0\x04\0\0\0\x01\0\x01\0\0\0\x01k");
    }

    #[test]
    fn a_copied_row_sets_no_column_that_has_no_value() {
        let prepared = Prepared { id: Box::from(*b"id"), ..Prepared::default() };
        let mut out = Vec::new();
        execute_with(&prepared, 3, b"\0\0\0\x01k\xff\xff\xff\xff\0\0\0\0", FOUR, &mut out);
        assert_eq!(out, b"\0\x02id\0\x04\x03\0\x03\0\0\0\x01k\xff\xff\xff\xfe\0\0\0\0");
    }

    #[test]
    fn parameters_that_do_not_fit_are_told() {
        let prepared = Prepared { kinds: [Kind::Int].into(), ..Prepared::default() };
        let mut params = Params::default();
        let refused =
            |params: &Params| execute(3, &prepared, params, false, FOUR, &mut Vec::new()).expect_err("refused");
        assert_eq!(refused(&params).message, "statement 3 takes 1 parameters, and 0 came");
        params.push_text("x");
        assert_eq!(refused(&params).message, "parameter 1 of statement 3 does not fit its column's type");
    }

    #[test]
    fn levels_have_their_numbers() {
        assert_eq!([consistency("ONE"), consistency("quorum"), consistency("LOCAL_ONE")], [Some(1), Some(4), Some(10)]);
        assert_eq!(consistency("MOST"), None);
    }

    #[test]
    fn pages_go_on_where_the_last_one_ended() {
        let mut out = Vec::new();
        page("q", FOUR, 2, Some(b"s"), &mut out);
        assert_eq!(out, b"\0\0\0\x01q\0\x04\x0c\0\0\0\x02\0\0\0\x01s");
    }
}
