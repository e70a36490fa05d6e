//! What the server answers to one request, message by message, until it is ready for the next.

use super::failure::ServerError;
use crate::driver::{ErrorClass, Failure};
use crate::sql::{SqlAnswer, SqlCommand, SqlRequest};

/// What to do after a message.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Flow {
    /// Read the next one.
    More,
    /// The answer is complete; the transaction's state comes with it.
    Ready(u8),
    /// The connection is of no use any more.
    Lost(Failure),
}

/// An answer that is coming in.
#[derive(Debug)]
pub(super) struct Reply<'a> {
    request: &'a SqlRequest,
    answer: &'a mut SqlAnswer,
    /// Rows of the statements that are complete.
    n_rows: u64,
    /// Rows that came for the statement at work.
    n_rows_now: u64,
    failure: Option<Failure>,
}

impl<'a> Reply<'a> {
    /// Forgets what `answer` held.
    pub(super) fn new(request: &'a SqlRequest, answer: &'a mut SqlAnswer) -> Self {
        answer.clear();
        Self { request, answer, n_rows: 0, n_rows_now: 0, failure: None }
    }

    /// Whether the contents of rows matter for the rest of this answer.
    pub(super) fn wants_rows(&self) -> bool {
        self.keeps_row() || (self.request.expect.column_bytes.is_some() && self.failure.is_none())
    }

    /// Takes one message. `body` is empty for rows that nobody wants.
    pub(super) fn take(&mut self, tag: u8, body: &[u8]) -> Flow {
        match tag {
            b'D' => return self.take_row(body),
            b'C' => self.complete(body),
            b'E' => {
                let error = ServerError::read(body);
                if error.is_fatal {
                    return Flow::Lost(error.failure);
                }
                self.failure = Some(error.failure);
            }
            b'Z' => return Flow::Ready(body.first().copied().unwrap_or(b'I')),
            b'G' | b'W' => {
                return Flow::Lost(Failure::statement("the statement waits for COPY data, which cannot be sent"));
            }
            // Parse, bind and close complete; no data, descriptions of rows and parameters; empty query; settings, notices,
            // notifications; COPY's output.
            b'1' | b'2' | b'3' | b'n' | b'T' | b't' | b'I' | b'S' | b'N' | b'A' | b'H' | b'd' | b'c' => {}
            _ => return Flow::Lost(Failure::protocol(format!("unexpected message {:?}", char::from(tag)))),
        }
        Flow::More
    }

    /// Whether the row that comes is the one that is wanted, as far as can be told.
    fn keeps_row(&self) -> bool {
        self.request.wants_row && (self.request.keeps_last || !self.answer.has_row())
    }

    fn take_row(&mut self, body: &[u8]) -> Flow {
        self.n_rows_now += 1;
        if !self.wants_rows() {
            return Flow::More;
        }
        let Some(columns) = Columns::new(body) else {
            return Flow::Lost(Failure::protocol("a row that is shorter than its columns"));
        };
        if self.keeps_row() {
            self.answer.set_row(columns.clone());
        }
        if self.failure.is_none() {
            let lengths = columns.map(|column| column.map(<[u8]>::len));
            self.failure = self.request.expect.judge_lengths(lengths, self.n_rows_now);
        }
        Flow::More
    }

    fn complete(&mut self, tag: &[u8]) {
        self.n_rows += rows_of(tag).unwrap_or(self.n_rows_now);
        self.n_rows_now = 0;
        // No error, but nothing was committed either.
        if matches!(self.request.command, SqlCommand::Commit) && tag.starts_with(b"ROLLBACK") {
            let message = "COMMIT rolled back: the transaction had failed";
            self.failure = Some(Failure::without_code(ErrorClass::Other, message));
        }
    }

    /// How many rows there were, if the answer is what it must be.
    pub(super) fn finish(self) -> Result<u64, Failure> {
        self.failure.map_or_else(|| self.request.expect.judge(self.n_rows), Err)
    }
}

/// The rows that a command's tag tells ("SELECT 3", "INSERT 0 1"); `None` for tags without a number ("BEGIN", "SHOW").
fn rows_of(tag: &[u8]) -> Option<u64> {
    let tag = std::str::from_utf8(tag.strip_suffix(b"\0").unwrap_or(tag)).ok()?;
    tag.rsplit_once(' ')?.1.parse().ok()
}

/// The columns of a row; `None` is NULL.
#[derive(Clone)]
struct Columns<'a> {
    rest: &'a [u8],
    n_left: u16,
}

impl<'a> Columns<'a> {
    /// `None` when the row's lengths do not fit into its bytes.
    fn new(body: &'a [u8]) -> Option<Self> {
        let (count, rest) = body.split_first_chunk()?;
        let columns = Self { rest, n_left: u16::from_be_bytes(*count) };
        let mut check = columns.clone();
        while check.n_left > 0 {
            check.advance()?;
        }
        Some(columns)
    }

    /// `None` when the bytes do not hold another column.
    fn advance(&mut self) -> Option<Option<&'a [u8]>> {
        let (length, rest) = self.rest.split_first_chunk()?;
        self.n_left -= 1;
        self.rest = rest;
        let Ok(length) = usize::try_from(i32::from_be_bytes(*length)) else { return Some(None) };
        let (value, rest) = rest.split_at_checked(length)?;
        self.rest = rest;
        Some(Some(value))
    }
}

impl<'a> Iterator for Columns<'a> {
    type Item = Option<&'a [u8]>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.n_left == 0 { None } else { self.advance() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sql::Expect;

    fn row(columns: &[Option<&[u8]>]) -> Vec<u8> {
        let mut body = u16::try_from(columns.len()).expect("few columns").to_be_bytes().to_vec();
        for column in columns {
            let length = column.map_or(-1, |bytes| i32::try_from(bytes.len()).expect("short"));
            body.extend(length.to_be_bytes());
            body.extend(column.unwrap_or_default());
        }
        body
    }

    /// The outcome of messages that end with the server being ready.
    fn outcome(request: &SqlRequest, messages: &[(u8, &[u8])]) -> Result<u64, Failure> {
        finished(request, &mut SqlAnswer::default(), messages)
    }

    fn finished(request: &SqlRequest, answer: &mut SqlAnswer, messages: &[(u8, &[u8])]) -> Result<u64, Failure> {
        let mut reply = Reply::new(request, answer);
        for (tag, body) in messages {
            assert_eq!(reply.take(*tag, body), Flow::More, "{tag}");
        }
        assert_eq!(reply.take(b'Z', b"T"), Flow::Ready(b'T'));
        reply.finish()
    }

    fn lost(tag: u8, body: &[u8]) -> Failure {
        let request = SqlRequest { wants_row: true, ..SqlRequest::default() };
        match Reply::new(&request, &mut SqlAnswer::default()).take(tag, body) {
            Flow::Lost(failure) => failure,
            flow => panic!("{flow:?}"),
        }
    }

    #[test]
    fn rows_are_what_the_tags_tell() {
        let tags = [
            ("SELECT 12\0", 12),
            ("INSERT 0 3\0", 3),
            ("UPDATE 4\0", 4),
            ("DELETE 5\0", 5),
            ("COPY 6\0", 6),
            ("MERGE 7\0", 7),
            ("BEGIN\0", 0),
            ("CREATE TABLE\0", 0),
            ("", 0),
        ];
        let request = SqlRequest::default();
        for (tag, rows) in tags {
            assert_eq!(outcome(&request, &[(b'C', tag.as_bytes())]).expect("no error"), rows, "{tag}");
        }
        let all: Vec<_> = tags.iter().map(|(tag, _)| (b'C', tag.as_bytes())).collect();
        assert_eq!(outcome(&request, &all).expect("no error"), 37);
    }

    #[test]
    fn rows_of_commands_without_a_number_are_counted() {
        let messages: [(u8, &[u8]); 5] =
            [(b'T', b""), (b'D', b""), (b'D', b""), (b'C', b"EXPLAIN\0"), (b'C', b"SHOW\0")];
        assert_eq!(outcome(&SqlRequest::default(), &messages).expect("no error"), 2);
    }

    #[test]
    fn a_row_comes_as_text_when_it_is_wanted() {
        let request = SqlRequest { wants_row: true, ..SqlRequest::default() };
        let (first, second) = (row(&[Some(b"7"), None, Some(b"")]), row(&[Some(b"8"), None, None]));
        let messages: [(u8, &[u8]); 3] = [(b'D', &first), (b'D', &second), (b'C', b"SELECT 2\0")];
        let mut answer = SqlAnswer::default();
        assert_eq!(finished(&request, &mut answer, &messages), Ok(2));
        assert_eq!(answer.columns().collect::<Vec<_>>(), [Some("7"), None, Some("")]);
        let last = SqlRequest { keeps_last: true, ..request };
        assert_eq!(finished(&last, &mut answer, &messages), Ok(2));
        assert_eq!(answer.columns().collect::<Vec<_>>(), [Some("8"), None, None]);
        assert_eq!(finished(&SqlRequest::default(), &mut answer, &messages), Ok(2));
        assert!(!answer.has_row());
    }

    #[test]
    fn answers_that_are_not_as_expected_fail() {
        let mut request = SqlRequest::default();
        let (good, short, null) = (row(&[Some(b"abc")]), row(&[Some(b"abc"), Some(b"ab")]), row(&[None]));
        let check = |request: &SqlRequest, second: &[u8]| {
            outcome(request, &[(b'D', &good), (b'D', second), (b'C', b"SELECT 2\0")])
        };
        request.expect.column_bytes = Some(3);
        assert_eq!(check(&request, &good), Ok(2));
        let failure = check(&request, &short).expect_err("two bytes");
        assert_eq!(
            (failure.class, failure.message.as_str()),
            (ErrorClass::Validation, "column 2 of row 2 is 2 bytes instead of 3 bytes")
        );
        assert_eq!(check(&request, &null).expect_err("NULL").message, "column 1 of row 2 is NULL instead of 3 bytes");
        request.expect = Expect { rows: Some((1, 1)), column_bytes: None };
        let failure = check(&request, &good).expect_err("too many");
        assert_eq!((failure.class, failure.message.as_str()), (ErrorClass::Validation, "2 rows instead of 1"));
        request.expect.rows = Some((3, 9));
        assert_eq!(check(&request, &good).expect_err("too few").message, "2 rows instead of 3 to 9");
    }

    #[test]
    fn an_error_of_a_statement_leaves_the_connection_usable() {
        let body = b"SERROR\0VERROR\0C40001\0Mcould not serialize access\0\0";
        let failure = outcome(&SqlRequest::default(), &[(b'C', b"UPDATE 1\0"), (b'E', body)]).expect_err("an error");
        assert!(failure.class.is_retryable());
    }

    #[test]
    fn a_commit_that_rolled_back_is_no_success() {
        let request = SqlRequest { command: SqlCommand::Commit, ..SqlRequest::default() };
        assert!(outcome(&request, &[(b'C', b"COMMIT\0")]).is_ok());
        let failure = outcome(&request, &[(b'C', b"ROLLBACK\0")]).expect_err("nothing was committed");
        assert_eq!(failure.message, "COMMIT rolled back: the transaction had failed");
    }

    #[test]
    fn what_the_driver_cannot_go_on_after_loses_the_connection() {
        assert_eq!(lost(b'E', b"SFATAL\0VFATAL\0C57P01\0Mterminating\0\0").class, ErrorClass::Connect);
        assert_eq!(lost(b'G', b"").class, ErrorClass::Statement);
        assert_eq!(lost(b'?', b"").class, ErrorClass::Protocol);
        for body in [&b""[..], b"\0", b"\0\x01\0\0", b"\0\x01\0\0\0\x02a"] {
            assert_eq!(lost(b'D', body).message, "a row that is shorter than its columns");
        }
    }
}
