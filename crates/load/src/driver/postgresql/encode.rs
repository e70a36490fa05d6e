//! Requests as messages: the parameters of a prepared statement in the server's types.

use std::fmt::Write;

use bytes::{BufMut, BytesMut};
use postgres_protocol::{IsNull, message::frontend};

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
        return Err(Failure::statement(message));
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
    .map_err(|_| Failure::statement("more parameters than the protocol can carry"))?;
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
    frontend::query(text, out).map_err(|_| Failure::statement("the statement holds a NUL character"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver::ErrorClass;

    const TEXT: u32 = 25;

    fn prepared(oids: &[u32]) -> Prepared {
        Prepared { name: statement_name(3), kinds: oids.iter().map(|&oid| Kind::of(oid)).collect() }
    }

    /// What follows the portal's and the statement's name: formats, values, result formats.
    fn bound(oids: &[u32], params: &Params) -> Vec<u8> {
        let mut out = BytesMut::new();
        execute(&prepared(oids), params, &mut out).expect("a legal request");
        let length = u32::from_be_bytes([out[1], out[2], out[3], out[4]]) as usize;
        assert_eq!((out[0], &out[5..9]), (b'B', &b"\0t3\0"[..]));
        assert_eq!(&out[length + 1..], b"E\0\0\0\x09\0\0\0\0\0S\0\0\0\x04");
        out[9..=length].to_vec()
    }

    #[test]
    fn numbers_go_in_the_servers_binary_form() {
        let mut params = Params::default();
        params.push_int(-2);
        params.push_int(70_000);
        params.push_int(1);
        params.push_float(0.5);
        params.push_float(-1.5);
        let expected = [
            &[0, 5, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 5][..],
            &[0, 0, 0, 2, 0xff, 0xfe],
            &[0, 0, 0, 4, 0, 1, 0x11, 0x70],
            &[0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0, 1],
            &[0, 0, 0, 4, 0x3f, 0, 0, 0],
            &[0, 0, 0, 8, 0xbf, 0xf8, 0, 0, 0, 0, 0, 0],
            &[0, 0],
        ];
        assert_eq!(bound(&[21, 23, 20, 700, 701], &params), expected.concat());
    }

    #[test]
    fn what_has_no_binary_form_for_the_servers_type_goes_as_text() {
        let mut params = Params::default();
        params.push_null();
        params.push_int(-7);
        params.push_text("ab");
        params.push_int(40_000);
        params.push_float(2.0);
        params.push_float(1e300);
        let expected = [
            &[0, 6, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 6][..],
            &[0xff, 0xff, 0xff, 0xff],
            b"\0\0\0\x02-7",
            b"\0\0\0\x02ab",
            b"\0\0\0\x0540000",
            b"\0\0\0\x012",
            &[&301_u32.to_be_bytes()[..], b"1", &[b'0'; 300]].concat(),
            &[0, 0],
        ];
        assert_eq!(bound(&[23, TEXT, 20, 21, 23, 700], &params), expected.concat());
    }

    #[test]
    fn a_wrong_number_of_parameters_is_not_sent() {
        let mut out = BytesMut::new();
        let failure = execute(&prepared(&[23, 23]), &Params::default(), &mut out).expect_err("two are missing");
        assert_eq!(failure.class, ErrorClass::Statement);
        assert_eq!(failure.message, "statement 3 takes 2 parameters, and 0 came");
        assert!(out.is_empty());
    }

    #[test]
    fn a_text_is_one_message() {
        let mut out = BytesMut::new();
        query("BEGIN", &mut out).expect("a legal text");
        assert_eq!(&out[..], b"Q\0\0\0\x0aBEGIN\0");
        let failure = query("SELECT '\0'", &mut BytesMut::new()).expect_err("NUL");
        assert_eq!(failure.message, "the statement holds a NUL character");
    }
}
