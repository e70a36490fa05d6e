//! Requests as messages: the parameters of a prepared statement in the server's types.

use std::fmt::Write;

use bytes::{BufMut, BytesMut};
use postgres_protocol::{IsNull, message::frontend};

use super::failure;
use crate::driver::Failure;
use crate::sql::{Param, Params};

/// A parameter's type, as far as it matters for how values are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Int2,
    Int4,
    Int8,
    Float4,
    Float8,
    /// Any other type: values go as text.
    Other,
}

impl Kind {
    /// From the server's number of the type, which is fixed for built-in types (`pg_type.dat`).
    pub(super) fn of(oid: u32) -> Self {
        match oid {
            20 => Self::Int8,
            21 => Self::Int2,
            23 => Self::Int4,
            700 => Self::Float4,
            701 => Self::Float8,
            _ => Self::Other,
        }
    }

    /// The value in binary, when it has a type of fixed size and fits; the server refuses the others in its own words.
    #[allow(clippy::cast_possible_truncation, reason = "a float4 has fewer digits by its nature")]
    fn binary(self, param: Param<'_>) -> Option<Binary> {
        match (self, param) {
            (Self::Int2, Param::Int(value)) => i16::try_from(value).ok().map(Binary::Two),
            (Self::Int4, Param::Int(value)) => i32::try_from(value).ok().map(Binary::Four),
            (Self::Int8, Param::Int(value)) => Some(Binary::Eight(value)),
            (Self::Float8, Param::Float(value)) => Some(Binary::Eight(value.to_bits().cast_signed())),
            (Self::Float4, Param::Float(value)) => {
                let short = value as f32;
                (short.is_finite() || !value.is_finite()).then(|| Binary::Four(short.to_bits().cast_signed()))
            }
            _ => None,
        }
    }
}

/// Big-endian bytes of a value.
enum Binary {
    Two(i16),
    Four(i32),
    Eight(i64),
}

/// A statement as one connection knows it.
#[derive(Debug)]
pub(super) struct Prepared {
    /// Its name on the server.
    pub(super) name: String,
    /// Its parameters' types.
    pub(super) kinds: Box<[Kind]>,
}

/// The name of the statement with this number.
pub(super) fn statement_name(number: usize) -> String {
    format!("t{number}")
}

/// Bind, Execute and Sync; results come as text.
pub(super) fn execute(prepared: &Prepared, params: &Params, out: &mut BytesMut) -> Result<(), Failure> {
    let kinds = &prepared.kinds;
    if kinds.len() != params.len() {
        let message =
            format!("statement {} takes {} parameters, and {} came", &prepared.name[1..], kinds.len(), params.len());
        return Err(failure::statement(message));
    }
    let pairs = || kinds.iter().zip(params.iter());
    frontend::bind(
        "",
        &prepared.name,
        pairs().map(|(kind, param)| i16::from(kind.binary(param).is_some())),
        pairs(),
        |(kind, param), out| Ok(put(*kind, param, out)),
        [],
        out,
    )
    .and_then(|()| Ok(frontend::execute("", 0, out)?))
    .map_err(|_| failure::statement("more parameters than the protocol can carry"))?;
    frontend::sync(out);
    Ok(())
}

fn put(kind: Kind, param: Param<'_>, out: &mut BytesMut) -> IsNull {
    match (kind.binary(param), param) {
        (Some(Binary::Two(value)), _) => out.put_i16(value),
        (Some(Binary::Four(value)), _) => out.put_i32(value),
        (Some(Binary::Eight(value)), _) => out.put_i64(value),
        (None, Param::Null) => return IsNull::Yes,
        (None, Param::Text(text)) => out.put_slice(text.as_bytes()),
        // Writing to memory cannot fail.
        (None, Param::Int(value)) => drop(write!(out, "{value}")),
        (None, Param::Float(value)) => drop(write!(out, "{value}")),
    }
    IsNull::No
}

/// A text of any number of statements.
pub(super) fn query(text: &str, out: &mut BytesMut) -> Result<(), Failure> {
    frontend::query(text, out).map_err(|_| failure::statement("the statement holds a NUL character"))
}
