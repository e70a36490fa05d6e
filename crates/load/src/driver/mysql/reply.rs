//! What the server answers to one command, packet by packet, until it is ready for the next.

use super::failure;
use super::fields::Fields;
use super::row::{Column, Value, Values};
use crate::driver::Failure;
use crate::sql::{SqlAnswer, SqlRequest};

/// More results follow, by the bits of the server's status.
const MORE_RESULTS: u16 = 1 << 3;

/// An OK packet after rows is shorter than any packet that a row with the same first byte could be.
const END_BYTES_MAX: usize = 0xff_ffff;

/// An EOF packet is never longer; rows with the same first byte are.
const EOF_BYTES_MAX: usize = 8;

/// What to do after a packet.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Flow {
    /// Read the next one.
    More,
    /// The answer is complete; the status, if the server told it.
    Ready(Option<u16>),
    /// The connection is of no use any more.
    Lost(Failure),
}

/// Which packet comes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Head,
    Columns(u64),
    ColumnsEnd,
    Rows,
}

/// How answers are written on this connection.
#[derive(Clone, Copy, Debug)]
pub(super) struct Form {
    /// Rows of prepared statements are binary, others text.
    pub(super) is_binary: bool,
    /// Descriptions and rows end with EOF packets, as in servers that are older than MySQL 5.7.
    pub(super) has_eof: bool,
    /// A result's head says whether descriptions of its columns follow: those of a prepared statement do only when they are
    /// not what they were when it was prepared or run before.
    pub(super) tells_metadata: bool,
}

/// An answer that is coming in.
#[derive(Debug)]
pub(super) struct Reply<'a> {
    request: &'a SqlRequest,
    answer: &'a mut SqlAnswer,
    form: Form,
    /// Of the statement's last result, and of the one at work where anybody may look at them.
    columns: &'a mut Vec<Column>,
    place: Place,
    n_rows: u64,
    n_rows_now: u64,
    failure: Option<Failure>,
    /// What the server said at the end of the last statement; an error says nothing.
    status: Option<u16>,
}

impl<'a> Reply<'a> {
    pub(super) fn new(
        request: &'a SqlRequest,
        answer: &'a mut SqlAnswer,
        form: Form,
        columns: &'a mut Vec<Column>,
    ) -> Self {
        answer.clear();
        let (place, n_rows, n_rows_now) = (Place::Head, 0, 0);
        Self { request, answer, form, columns, place, n_rows, n_rows_now, failure: None, status: None }
    }

    /// Whether rows are coming whose contents do not matter.
    pub(super) fn ignores_rows(&self) -> bool {
        self.place == Place::Rows && !self.wants_values()
    }

    fn wants_values(&self) -> bool {
        self.keeps_row() || (self.request.expect.column_bytes.is_some() && self.failure.is_none())
    }

    /// Whether the row that comes is the one that is wanted, as far as can be told.
    fn keeps_row(&self) -> bool {
        self.request.wants_row && (self.request.keeps_last || !self.answer.has_row())
    }

    /// Takes one packet, which is empty for a long row that nobody wants.
    pub(super) fn take(&mut self, payload: &[u8]) -> Flow {
        if payload.first() == Some(&0xff) {
            let failure = failure::read_error(payload);
            if failure::is_fatal(&failure) {
                return Flow::Lost(failure);
            }
            self.failure = Some(failure);
            return Flow::Ready(self.status);
        }
        match self.place {
            Place::Head => self.take_head(payload),
            Place::Columns(n_left) => self.take_column(payload, n_left),
            Place::ColumnsEnd => self.go_to(Place::Rows),
            Place::Rows => self.take_row(payload),
        }
    }

    fn go_to(&mut self, place: Place) -> Flow {
        self.place = place;
        Flow::More
    }

    fn take_head(&mut self, payload: &[u8]) -> Flow {
        match payload.first() {
            Some(0) => self.complete(read_ok(payload), true),
            Some(0xfb) => {
                Flow::Lost(Failure::statement("the statement waits for a file's contents, which cannot be sent"))
            }
            _ => {
                let mut fields = Fields(payload);
                let n_columns = fields.number();
                let is_described =
                    if self.form.tells_metadata { fields.u8().map(|flag| flag != 0) } else { Some(true) };
                match n_columns.zip(is_described) {
                    Some((n_columns, is_described)) => self.take_count(n_columns, is_described),
                    None => Flow::Lost(Failure::protocol("an answer that is neither a result nor an error")),
                }
            }
        }
    }

    fn take_count(&mut self, n_columns: u64, is_described: bool) -> Flow {
        if is_described {
            self.columns.clear();
            return self.go_to(Place::Columns(n_columns));
        }
        if self.columns.len() as u64 != n_columns {
            return Flow::Lost(Failure::protocol("a result whose columns were never described"));
        }
        self.go_to(Place::Rows)
    }

    fn take_column(&mut self, payload: &[u8], n_left: u64) -> Flow {
        // The next answer of the same statement may come without them.
        if self.form.tells_metadata || self.wants_values() {
            let Some(column) = Column::read(payload) else {
                return Flow::Lost(Failure::protocol("a column's description that is cut short"));
            };
            self.columns.push(column);
        }
        self.go_to(match n_left {
            2.. => Place::Columns(n_left - 1),
            _ if self.form.has_eof => Place::ColumnsEnd,
            _ => Place::Rows,
        })
    }

    fn take_row(&mut self, payload: &[u8]) -> Flow {
        if payload.first() == Some(&0xfe) {
            if self.form.has_eof && payload.len() <= EOF_BYTES_MAX {
                let mut fields = Fields(&payload[1..]);
                let _warnings = fields.u16();
                return self.complete(fields.u16().map(|status| (0, status)), false);
            }
            if !self.form.has_eof && payload.len() < END_BYTES_MAX {
                return self.complete(read_ok(payload), false);
            }
        }
        self.n_rows_now += 1;
        if self.wants_values() { self.look_at(payload) } else { Flow::More }
    }

    fn look_at(&mut self, payload: &[u8]) -> Flow {
        let values = Values::new(payload, self.columns, self.form.is_binary);
        let Some(values) = values.filter(|values| values.clone().all(|value| value.is_some())) else {
            return Flow::Lost(Failure::protocol("a row that is shorter than its columns, or above 16 MB"));
        };
        if self.keeps_row() {
            let texts: Vec<_> = values.clone().flatten().map(Value::into_text).collect();
            self.answer.set_row(texts.iter().map(|text| text.as_deref().map(str::as_bytes)));
        }
        if self.failure.is_none() {
            let lengths = values.flatten().map(Value::text_length);
            self.failure = self.request.expect.judge_lengths(lengths, self.n_rows_now);
        }
        Flow::More
    }

    /// `ok`: rows touched and the server's status, if they could be read; rows touched count only without a result.
    fn complete(&mut self, ok: Option<(u64, u16)>, has_touched: bool) -> Flow {
        let Some((n_touched, status)) = ok else { return Flow::Lost(Failure::protocol("an end that is cut short")) };
        self.n_rows += if has_touched { n_touched } else { self.n_rows_now };
        self.n_rows_now = 0;
        self.status = Some(status);
        if status & MORE_RESULTS != 0 { self.go_to(Place::Head) } else { Flow::Ready(Some(status)) }
    }

    /// How many rows there were, if the answer is what it must be.
    pub(super) fn finish(self) -> Result<u64, Failure> {
        self.failure.map_or_else(|| self.request.expect.judge(self.n_rows), Err)
    }
}

/// Rows touched and the status of an OK packet.
fn read_ok(payload: &[u8]) -> Option<(u64, u16)> {
    let mut fields = Fields(payload.get(1..)?);
    let n_touched = fields.number()?;
    let _last_id = fields.number()?;
    Some((n_touched, fields.u16()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sql::Expect;

    /// A long column named "a", and one of text.
    const LONG: &[u8] = b"\x03def\0\0\0\x01a\0\x0c\x3f\0\x0b\0\0\0\x03\0\0\0\0\0";
    const TEXT: &[u8] = b"\x03def\0\0\0\x01a\0\x0c\x3f\0\x0b\0\0\0\xfd\0\0\0\0\0";
    const END: &[u8] = b"\xfe\0\0\x02\0\0\0";

    fn outcome(columns: &mut Vec<Column>, wants_row: bool, packets: &[&[u8]]) -> Result<(u64, String), String> {
        asked(&SqlRequest { wants_row, expect: Expect::default(), ..SqlRequest::default() }, columns, packets)
    }

    fn asked(request: &SqlRequest, columns: &mut Vec<Column>, packets: &[&[u8]]) -> Result<(u64, String), String> {
        let mut answer = SqlAnswer::default();
        let form = Form { is_binary: true, has_eof: false, tells_metadata: true };
        let mut reply = Reply::new(request, &mut answer, form, columns);
        for packet in packets {
            match reply.take(packet) {
                Flow::More => {}
                Flow::Ready(_) => {
                    let n_rows = reply.finish().map_err(|failure| failure.message)?;
                    return Ok((n_rows, answer.columns().flatten().collect()));
                }
                Flow::Lost(failure) => return Err(failure.message),
            }
        }
        panic!("the answer has no end");
    }

    #[test]
    fn columns_that_are_not_described_again_are_those_of_the_last_answer() {
        let mut columns = Vec::new();
        let number = b"\0\0\x07\0\0\0";
        // Nobody looks at the first answer's row, and still its columns are kept.
        assert_eq!(outcome(&mut columns, false, &[b"\x01\x01", LONG, number, END]), Ok((1, String::new())));
        assert_eq!(outcome(&mut columns, true, &[b"\x01\0", number, END]), Ok((1, "7".to_owned())));
        // The table has changed, and the server says so.
        assert_eq!(outcome(&mut columns, true, &[b"\x01\x01", TEXT, b"\0\0\x02ab", END]), Ok((1, "ab".to_owned())));
        assert_eq!(outcome(&mut columns, true, &[b"\x01\0", b"\0\0\x01c", END]), Ok((1, "c".to_owned())));
        assert_eq!(outcome(&mut columns, true, &[b"\x01\0", END]), Ok((0, String::new())));
    }

    #[test]
    fn of_several_rows_the_first_is_kept_or_the_last() {
        let rows: [&[u8]; 5] = [b"\x01\x01", LONG, b"\0\0\x07\0\0\0", b"\0\0\x08\0\0\0", END];
        for (keeps_last, kept) in [(false, "7"), (true, "8")] {
            let request = SqlRequest { wants_row: true, keeps_last, ..SqlRequest::default() };
            assert_eq!(asked(&request, &mut Vec::new(), &rows), Ok((2, kept.to_owned())));
        }
    }

    #[test]
    fn columns_that_are_not_known_lose_the_connection() {
        let mut columns = Vec::new();
        let never = "a result whose columns were never described";
        assert_eq!(outcome(&mut columns, false, &[b"\x01\0"]), Err(never.to_owned()));
        outcome(&mut columns, false, &[b"\x01\x01", LONG, END]).expect("no rows");
        assert_eq!(outcome(&mut columns, false, &[b"\x02\0"]), Err(never.to_owned()));
        let neither = "an answer that is neither a result nor an error";
        assert_eq!(outcome(&mut columns, false, &[b"\x01"]), Err(neither.to_owned()));
        assert_eq!(outcome(&mut columns, false, &[b""]), Err(neither.to_owned()));
    }
}
