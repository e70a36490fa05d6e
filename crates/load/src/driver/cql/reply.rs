//! What a RESULT holds: rows, a statement that was prepared, or nothing.

use super::encode::Prepared;
use super::fields::Fields;
use super::kind::Kind;
use crate::driver::Failure;
use crate::sql::{SqlAnswer, SqlRequest};

const VOID: i32 = 1;
const ROWS: i32 = 2;
const PREPARED: i32 = 4;

const HAS_COMMON_TABLE: i32 = 1;
const HAS_MORE_PAGES: i32 = 2;
const HAS_NO_COLUMNS: i32 = 4;
const HAS_NEW_RESULT_ID: i32 = 8;

/// Rows, in front of the first of them.
pub(super) struct Rows<'a> {
    pub(super) n_columns: usize,
    pub(super) n_rows: usize,
    /// Of the columns, where they are described.
    pub(super) kinds: Vec<Kind>,
    /// Where the next page begins.
    pub(super) state: Option<&'a [u8]>,
    fields: Fields<'a>,
}

/// How many rows an answer has; a write counts as one. What is wrong with its contents is a failure of class `Validation`.
pub(super) fn take(body: &[u8], request: &SqlRequest, answer: &mut SqlAnswer) -> Result<u64, Failure> {
    answer.clear();
    let mut fields = Fields(body);
    match fields.i32() {
        Some(ROWS) => {
            let rows = Rows::read(fields, request.wants_row).ok_or_else(cut_short)?;
            look_at(rows, request, answer)
        }
        Some(VOID) => request.expect.judge(1),
        Some(_) => request.expect.judge(0),
        None => Err(cut_short()),
    }
}

fn look_at(mut rows: Rows<'_>, request: &SqlRequest, answer: &mut SqlAnswer) -> Result<u64, Failure> {
    if request.wants_row && rows.n_rows > 0 {
        let mut ahead = Rows { kinds: rows.kinds.clone(), ..rows };
        let n_before = if request.keeps_last { rows.n_rows - 1 } else { 0 };
        for _ in 0..n_before {
            ahead.values().ok_or_else(cut_short)?;
        }
        let texts = ahead.texts().ok_or_else(cut_short)?;
        answer.set_row(texts.iter().map(|text| text.as_deref().map(str::as_bytes)));
    }
    if request.expect.column_bytes.is_some() {
        for number in 1..=rows.n_rows {
            let row = rows.fields;
            for _ in 0..rows.n_columns {
                rows.fields.value().ok_or_else(cut_short)?;
            }
            let mut row = row;
            let lengths = (0..rows.n_columns).map(|_| row.value().flatten().map(<[u8]>::len));
            if let Some(failure) = request.expect.judge_lengths(lengths, number as u64) {
                return Err(failure);
            }
        }
    }
    request.expect.judge(rows.n_rows as u64)
}

pub(super) fn cut_short() -> Failure {
    Failure::protocol("a result that is cut short")
}

impl<'a> Rows<'a> {
    /// Reads the description; `None` where it is cut short. Types are read only where they are wanted.
    pub(super) fn read(mut fields: Fields<'a>, wants_kinds: bool) -> Option<Self> {
        let flags = fields.i32()?;
        let n_columns = fields.count()?;
        let state = if flags & HAS_MORE_PAGES != 0 { Some(fields.value()??) } else { None };
        if flags & HAS_NEW_RESULT_ID != 0 {
            fields.short()?;
        }
        let mut kinds = Vec::new();
        if flags & HAS_NO_COLUMNS == 0 {
            let described = columns(&mut fields, flags, n_columns)?;
            kinds = if wants_kinds { described } else { Vec::new() };
        }
        let n_rows = fields.count()?;
        // Every value has its length in front of it, and there is no row without columns.
        let n_bytes = n_rows.checked_mul(n_columns.max(1))?.checked_mul(size_of::<i32>())?;
        (n_bytes <= fields.0.len()).then_some(Self { n_columns, n_rows, kinds, state, fields })
    }

    /// The rows of a RESULT; none where it has none.
    pub(super) fn of(body: &'a [u8]) -> Option<Option<Self>> {
        let mut fields = Fields(body);
        if fields.i32()? == ROWS { Self::read(fields, true).map(Some) } else { Some(None) }
    }

    /// The next row as it came: values with their lengths.
    pub(super) fn values(&mut self) -> Option<&'a [u8]> {
        let start = self.fields.0;
        for _ in 0..self.n_columns {
            self.fields.value()?;
        }
        Some(&start[..start.len() - self.fields.0.len()])
    }

    /// The next row as texts.
    pub(super) fn texts(&mut self) -> Option<Vec<Option<String>>> {
        (0..self.n_columns)
            .map(|index| {
                let kind = self.kinds.get(index).unwrap_or(&Kind::Other);
                self.fields.value().map(|value| value.map(|bytes| kind.show(bytes)))
            })
            .collect()
    }
}

/// The types of so many columns; an empty list if nobody wants them would cost as much.
fn columns(fields: &mut Fields<'_>, flags: i32, n_columns: usize) -> Option<Vec<Kind>> {
    let is_common = flags & HAS_COMMON_TABLE != 0;
    if is_common {
        fields.short()?;
        fields.short()?;
    }
    (0..n_columns)
        .map(|_| {
            if !is_common {
                fields.short()?;
                fields.short()?;
            }
            fields.short()?;
            Kind::read(fields)
        })
        .collect()
}

/// Reads the answer to PREPARE.
pub(super) fn prepared(body: &[u8], version: u8) -> Option<Prepared> {
    let mut fields = Fields(body);
    if fields.i32()? != PREPARED {
        return None;
    }
    let id = Box::from(fields.short()?);
    let result_id = if version >= 5 { Box::from(fields.short()?) } else { Box::default() };
    let flags = fields.i32()?;
    let n_params = fields.count()?;
    let n_keys = fields.count()?;
    let keys = (0..n_keys).map(|_| fields.u16()).collect::<Option<_>>()?;
    let mut ahead = fields;
    let keyspace = if flags & HAS_COMMON_TABLE != 0 { Box::from(ahead.text()?) } else { Box::default() };
    let kinds = columns(&mut fields, flags, n_params)?;
    Some(Prepared { id, result_id, kinds: kinds.into(), keyspace, keys })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver::ErrorClass;
    use crate::sql::Expect;

    /// Two columns without a description, and rows of these values.
    fn rows(values: &[Option<&[u8]>]) -> Vec<u8> {
        let mut body = [ROWS, HAS_NO_COLUMNS, 2, (values.len() / 2) as i32].map(i32::to_be_bytes).concat();
        for value in values {
            match value {
                Some(bytes) => super::super::fields::put_long(bytes, &mut body),
                None => body.extend((-1_i32).to_be_bytes()),
            }
        }
        body
    }

    fn judged(body: &[u8], expect: Expect) -> Result<u64, Failure> {
        take(body, &SqlRequest { expect, ..SqlRequest::default() }, &mut SqlAnswer::default())
    }

    #[test]
    fn rows_are_counted_and_their_lengths_checked() {
        let expect = || Expect { rows: Some((1, 2)), column_bytes: Some(2) };
        let sound = rows(&[Some(b"ab"), Some(b"cd"), Some(b"ef"), Some(b"gh")]);
        assert_eq!(judged(&sound, expect()), Ok(2));
        let failed = |body: &[u8]| judged(body, expect()).expect_err("wrong");
        let text = failed(&rows(&[Some(b"ab"), None])).message;
        assert_eq!(text, "column 2 of row 1 is NULL instead of 2 bytes");
        assert_eq!(failed(&rows(&[])).message, "0 rows instead of 1 to 2");
        assert_eq!(failed(&sound[..sound.len() - 1]).class, ErrorClass::Protocol);
        assert_eq!(judged(&VOID.to_be_bytes(), expect()), Ok(1));
    }

    #[test]
    fn rows_that_did_not_come_do_not_count() {
        let mut body = rows(&[Some(b"ab"), None, None, Some(b"gh")]);
        assert_eq!(judged(&body, Expect::default()), Ok(2));
        body[15] = 5;
        assert_eq!(judged(&body, Expect::default()), Err(cut_short()));
        // As many as can be said, of nothing.
        let none = [ROWS, HAS_NO_COLUMNS, 0, i32::MAX].map(i32::to_be_bytes).concat();
        assert_eq!(judged(&none, Expect::default()), Err(cut_short()));
    }

    #[test]
    fn of_several_rows_the_first_is_kept_or_the_last() {
        let body = rows(&[Some(b"ab"), None, None, Some(b"gh")]);
        for (keeps_last, missing) in [(false, 1), (true, 0)] {
            let mut answer = SqlAnswer::default();
            let request = SqlRequest { wants_row: true, keeps_last, ..SqlRequest::default() };
            assert_eq!(take(&body, &request, &mut answer), Ok(2));
            assert_eq!(answer.columns().position(|column| column.is_none()), Some(missing));
        }
    }

    #[test]
    fn a_prepared_statement_tells_its_keyspace_and_its_key() {
        let mut body = PREPARED.to_be_bytes().to_vec();
        body.extend(b"\0\x02id");
        body.extend([HAS_COMMON_TABLE, 2, 1].map(i32::to_be_bytes).concat());
        body.extend(b"\0\x01\0\x02ks\0\x01t\0\x01v\0\x09\0\x01k\0\x0d");
        let found = prepared(&body, 4).expect("whole");
        assert_eq!((&*found.keyspace, &*found.keys, &*found.kinds), ("ks", &[1][..], &[Kind::Int, Kind::Text][..]));
        for n in 0..body.len() {
            assert!(prepared(&body[..n], 4).is_none(), "{n}");
        }
    }

    #[test]
    fn a_result_that_is_cut_short_is_told_wherever_it_ends() {
        let body = rows(&[Some(b"ab"), Some(b"cd")]);
        for n in 0..body.len() {
            assert!(judged(&body[..n], Expect { rows: None, column_bytes: Some(2) }).is_err(), "{n}");
        }
    }
}
