//! Requests as commands.

use super::row::Column;
use crate::driver::Failure;
use crate::driver::access::check_setting;
use crate::sql::{Param, Params};

pub(super) const COM_QUIT: u8 = 0x01;
pub(super) const COM_QUERY: u8 = 0x03;
pub(super) const COM_STMT_PREPARE: u8 = 0x16;
pub(super) const COM_STMT_EXECUTE: u8 = 0x17;

/// Types of parameters.
mod kind {
    pub(super) const DOUBLE: u8 = 5;
    pub(super) const LONGLONG: u8 = 8;
    pub(super) const VAR_STRING: u8 = 253;
}

/// A statement as one connection knows it.
#[derive(Debug)]
pub(super) struct Prepared {
    /// The server's number of it.
    pub(super) id: u32,
    /// How many parameters it takes.
    pub(super) n_params: u16,
    /// Of its last answer, or as the server described them when it was prepared.
    pub(super) columns: Vec<Column>,
    /// The types of the parameters that the server was sent last: it keeps them.
    types: Vec<u8>,
}

impl Prepared {
    pub(super) fn new(id: u32, n_params: u16, columns: Vec<Column>) -> Self {
        Self { id, n_params, columns, types: Vec::new() }
    }

    /// Whether the server reads these parameters by the types that it has; a NULL has no bytes to be read.
    fn knows_types(&self, params: &Params) -> bool {
        let is_known = |(param, &kind): (Param<'_>, &u8)| param == Param::Null || type_of(param) == kind;
        self.types.len() == params.len() && params.iter().zip(&self.types).all(is_known)
    }
}

/// The body of COM_STMT_EXECUTE. `number` is the statement's, as people count.
pub(super) fn execute(
    number: usize,
    prepared: &mut Prepared,
    params: &Params,
    out: &mut Vec<u8>,
) -> Result<(), Failure> {
    if usize::from(prepared.n_params) != params.len() {
        let message = format!("statement {number} takes {} parameters, and {} came", prepared.n_params, params.len());
        return Err(Failure::statement(message));
    }
    out.extend(prepared.id.to_le_bytes());
    // No cursor, one execution.
    out.extend([0, 1, 0, 0, 0]);
    if params.is_empty() {
        return Ok(());
    }
    let nulls = out.len();
    out.resize(nulls + params.len().div_ceil(8), 0);
    for (index, param) in params.iter().enumerate() {
        if param == Param::Null {
            out[nulls + index / 8] |= 1 << (index % 8);
        }
    }
    let are_new = !prepared.knows_types(params);
    out.push(u8::from(are_new));
    if are_new {
        prepared.types.clear();
        prepared.types.extend(params.iter().map(type_of));
        out.extend(prepared.types.iter().flat_map(|&kind| [kind, 0]));
    }
    for param in params.iter() {
        match param {
            Param::Null => {}
            Param::Int(value) => out.extend(value.to_le_bytes()),
            Param::Float(value) => out.extend(value.to_le_bytes()),
            Param::Text(text) => super::fields::put_text(text.as_bytes(), out),
        }
    }
    Ok(())
}

fn type_of(param: Param<'_>) -> u8 {
    match param {
        Param::Int(_) => kind::LONGLONG,
        Param::Float(_) => kind::DOUBLE,
        Param::Null | Param::Text(_) => kind::VAR_STRING,
    }
}

/// `SET SESSION`; numbers go as they are, because the server refuses to take them as text.
pub(super) fn set_statement(name: &str, value: &str) -> Result<String, String> {
    check_setting(name, value)?;
    // What parses as a number in Rust but not in SQL are words: inf, nan.
    let is_number = value.parse::<f64>().is_ok() && value.ends_with(|c: char| c.is_ascii_digit());
    if is_number {
        return Ok(format!("SET SESSION {name} = {value}"));
    }
    Ok(format!("SET SESSION {name} = '{}'", value.replace('\\', r"\\").replace('\'', "''")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_written_by_their_types() {
        let mut params = Params::default();
        params.push_int(-2);
        params.push_null();
        params.push_float(0.5);
        params.push_text("ab");
        let mut out = Vec::new();
        execute(1, &mut Prepared::new(7, 4, Vec::new()), &params, &mut out).expect("sound");
        let mut expected = vec![7, 0, 0, 0, 0, 1, 0, 0, 0, 0b10, 1, 8, 0, 253, 0, 5, 0, 253, 0];
        expected.extend((-2_i64).to_le_bytes());
        expected.extend(0.5_f64.to_le_bytes());
        expected.extend(b"\x02ab");
        assert_eq!(out, expected);
        let mut two = Prepared::new(7, 2, Vec::new());
        let text = execute(3, &mut two, &params, &mut out).expect_err("too many").message;
        assert_eq!(text, "statement 3 takes 2 parameters, and 4 came");
    }

    #[test]
    fn types_are_sent_once_and_again_when_they_change() {
        let mut prepared = Prepared::new(7, 1, Vec::new());
        let mut sent = |push: &dyn Fn(&mut Params)| {
            let (mut params, mut out) = (Params::default(), Vec::new());
            push(&mut params);
            execute(1, &mut prepared, &params, &mut out).expect("sound");
            // Behind number, cursor, executions and NULLs.
            out[10..].to_vec()
        };
        let number = |value: i64| move |params: &mut Params| params.push_int(value);
        assert_eq!(sent(&number(-1)), [&[1, 8, 0][..], &[255; 8]].concat());
        assert_eq!(sent(&number(1)), [0, 1, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(sent(&|params| params.push_null()), [0]);
        assert_eq!(sent(&|params| params.push_text("a")), [1, 253, 0, 1, b'a']);
        assert_eq!(sent(&|params| params.push_text("b")), [0, 1, b'b']);
        assert_eq!(sent(&number(0)), [1, 8, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    }

    #[test]
    fn settings_are_quoted() {
        let set = |name, value| set_statement(name, value).expect("legal");
        assert_eq!(set("sort_buffer_size", "262144"), "SET SESSION sort_buffer_size = 262144");
        assert_eq!(set("long_query_time", "-0.5"), "SET SESSION long_query_time = -0.5");
        assert_eq!(set("sql_mode", r"a'; DROP \"), r"SET SESSION sql_mode = 'a''; DROP \\'");
        assert_eq!(set("x", "inf"), "SET SESSION x = 'inf'");
        for name in ["", "a b", "x'", "1x", "a.", "x=1"] {
            assert!(set_statement(name, "1").expect_err("illegal").contains("no setting can be named"));
        }
    }
}
