//! Requests as commands.

use crate::driver::Failure;
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
#[derive(Clone, Copy, Debug)]
pub(super) struct Prepared {
    /// The server's number of it.
    pub(super) id: u32,
    /// How many parameters it takes.
    pub(super) n_params: u16,
}

/// The body of COM_STMT_EXECUTE. `number` is the statement's, as people count.
pub(super) fn execute(number: usize, prepared: Prepared, params: &Params, out: &mut Vec<u8>) -> Result<(), Failure> {
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
    // Types follow.
    out.push(1);
    for (index, param) in params.iter().enumerate() {
        out.extend([type_of(param), 0]);
        if param == Param::Null {
            out[nulls + index / 8] |= 1 << (index % 8);
        }
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
    let is_word = |part: &str| {
        part.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
            && part.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
    };
    if !name.split('.').all(is_word) {
        return Err(format!("settings: no setting can be named {name:?}"));
    }
    if value.contains('\0') {
        return Err(format!("settings: the value of {name} holds a NUL character"));
    }
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
        execute(1, Prepared { id: 7, n_params: 4 }, &params, &mut out).expect("sound");
        let mut expected = vec![7, 0, 0, 0, 0, 1, 0, 0, 0, 0b10, 1, 8, 0, 253, 0, 5, 0, 253, 0];
        expected.extend((-2_i64).to_le_bytes());
        expected.extend(0.5_f64.to_le_bytes());
        expected.extend(b"\x02ab");
        assert_eq!(out, expected);
        let text = execute(3, Prepared { id: 7, n_params: 2 }, &params, &mut out).expect_err("too many").message;
        assert_eq!(text, "statement 3 takes 2 parameters, and 4 came");
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
