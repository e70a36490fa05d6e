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
}

/// An answer that is coming in.
#[derive(Debug)]
pub(super) struct Reply<'a> {
    request: &'a SqlRequest,
    answer: &'a mut SqlAnswer,
    form: Form,
    /// Of the result at work, when values are wanted; kept by the session for its memory.
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
        self.wants_first() || (self.request.expect.column_bytes.is_some() && self.failure.is_none())
    }

    fn wants_first(&self) -> bool {
        self.request.wants_row && !self.answer.has_row()
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
            _ => match Fields(payload).number() {
                Some(n_columns) => {
                    self.columns.clear();
                    self.go_to(Place::Columns(n_columns))
                }
                None => Flow::Lost(Failure::protocol("an answer that is neither a result nor an error")),
            },
        }
    }

    fn take_column(&mut self, payload: &[u8], n_left: u64) -> Flow {
        if self.wants_values() {
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
        if self.wants_first() {
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
