//! The load phase: every record of a range once, in multi-row INSERTs, split over the users.

use std::ops::Range;

use super::distribution::LengthChooser;
use super::sql::{Dialect, check_table, insert_text};
use super::{Schema, check_records, value};
use crate::random::Random;
use crate::source::{Source, Sources, SqlSources, Step};
use crate::sql::{Expect, Sql, SqlCommand, SqlRequest};

/// Which records are loaded, and how.
#[derive(Clone, Copy, Debug)]
pub struct Rows {
    /// The table's records.
    pub schema: Schema,
    /// Number of the first record.
    pub start: u64,
    /// How many.
    pub n_records: u64,
    /// Rows of one INSERT; the last one of all may have fewer.
    pub batch_rows: u32,
    /// The same seed gives every record the same contents, whatever the batches and the users.
    pub content_seed: u64,
}

/// Makes the sources of the load phase; each user ends when its share is done.
#[derive(Clone, Debug)]
pub struct YcsbLoadSources {
    rows: Rows,
    n_users: u32,
    statements: Vec<String>,
}

impl YcsbLoadSources {
    /// Neither PostgreSQL nor MySQL counts parameters with more than 16 bits.
    const MAX_PARAMS: u64 = 65_535;

    /// For `n_users` users, whose numbers start at 0.
    ///
    /// # Errors
    /// A text naming what cannot be, and its value.
    pub fn new(rows: Rows, n_users: u32, dialect: Dialect, table: &str) -> Result<Self, String> {
        check_table(table)?;
        rows.schema.check()?;
        check_records(rows.start, rows.n_records)?;
        if n_users == 0 {
            return Err("n_users=0 must be at least 1".to_owned());
        }
        let most = Self::MAX_PARAMS / (u64::from(rows.schema.n_fields) + 1);
        if rows.batch_rows == 0 || u64::from(rows.batch_rows) > most {
            return Err(format!(
                "batch_rows={} must be 1 to {most}: a statement has at most {} parameters",
                rows.batch_rows,
                Self::MAX_PARAMS
            ));
        }
        let full = u64::from(rows.batch_rows);
        let sizes = [full.min(rows.n_records), rows.n_records % full];
        let n_sizes = if rows.n_records > full && sizes[1] > 0 { 2 } else { 1 };
        let statements =
            sizes[..n_sizes].iter().map(|&size| insert_text(&rows.schema, dialect, table, size as usize)).collect();
        Ok(Self { rows, n_users, statements })
    }
}

impl SqlSources for YcsbLoadSources {
    fn statements(&self) -> Vec<String> {
        self.statements.clone()
    }
}

impl Sources<Sql> for YcsbLoadSources {
    fn labels(&self) -> Vec<String> {
        vec!["INSERT".to_owned()]
    }

    /// The seed is not used: see [`Rows::content_seed`].
    fn source(&self, user: u32, _seed: u64) -> Box<dyn Source<Sql>> {
        Box::new(LoadSource(Share::new(self.rows, user, self.n_users)))
    }
}

/// One user's share of the load phase, batch by batch.
pub(super) struct Share {
    pub(super) rows: Rows,
    pub(super) lengths: LengthChooser,
    batches: Range<u64>,
    batch: u64,
    is_sent: bool,
}

impl Share {
    /// That of user number `user` of so many.
    pub(super) fn new(rows: Rows, user: u32, n_users: u32) -> Self {
        let n_batches = rows.n_records.div_ceil(u64::from(rows.batch_rows));
        let bound = |user: u32| (u128::from(n_batches) * u128::from(user.min(n_users)) / u128::from(n_users)) as u64;
        let batches = bound(user)..bound(user.saturating_add(1));
        Self { rows, lengths: rows.schema.lengths(), batches, batch: 0, is_sent: false }
    }

    /// Goes on to the next batch, whose only label it gives.
    pub(super) fn begin(&mut self) -> Option<u32> {
        self.batch = self.batches.next()?;
        self.is_sent = false;
        Some(0)
    }

    /// The numbers of the batch's records; `None` when they were taken already.
    pub(super) fn take(&mut self) -> Option<Range<u64>> {
        if std::mem::replace(&mut self.is_sent, true) {
            return None;
        }
        let full = u64::from(self.rows.batch_rows);
        let first = self.batch * full;
        Some(self.rows.start + first..self.rows.start + (first + full).min(self.rows.n_records))
    }

    /// The same batch again.
    pub(super) fn rewind(&mut self) {
        self.is_sent = false;
    }
}

/// One user.
struct LoadSource(Share);

impl Source<Sql> for LoadSource {
    fn begin(&mut self) -> Option<u32> {
        self.0.begin()
    }

    fn step(&mut self, request: &mut SqlRequest) -> Step {
        let Some(numbers) = self.0.take() else { return Step::End };
        let Share { rows, lengths, .. } = &self.0;
        let n_rows = numbers.end - numbers.start;
        let is_short = n_rows < u64::from(rows.batch_rows).min(rows.n_records);
        request.command = SqlCommand::Prepared(u32::from(is_short));
        request.params.clear();
        for number in numbers {
            request.params.push_written(|text| rows.schema.naming.write(number, text));
            let mut random = Random::new(rows.content_seed, number);
            for _ in 0..rows.schema.n_fields {
                value::push(lengths, &mut random, &mut request.params);
            }
        }
        request.expect = Expect { rows: Some((n_rows, n_rows)), column_bytes: None };
        request.wants_row = false;
        Step::Request
    }

    fn rewind(&mut self) {
        self.0.rewind();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sql::Param;

    fn rows(n_records: u64, batch_rows: u32) -> Rows {
        let schema = Schema { n_fields: 2, field_length: 10, ..Schema::default() };
        Rows { schema, start: 100, n_records, batch_rows, content_seed: 4 }
    }

    /// All rows of all users, each as its parameters, with the statement that each user sent last.
    fn load(rows: Rows, n_users: u32) -> (Vec<Vec<String>>, Vec<SqlCommand>) {
        let sources = YcsbLoadSources::new(rows, n_users, Dialect::Mysql, "usertable").expect("sound");
        let mut loaded = Vec::new();
        let mut commands = Vec::new();
        for user in 0..n_users {
            let mut source = sources.source(user, u64::from(user));
            let mut request = SqlRequest::default();
            while source.begin().is_some() {
                assert_eq!(source.step(&mut request), Step::Request);
                let values = request.params.iter().map(|param| match param {
                    Param::Text(text) => text.to_owned(),
                    other => panic!("{other:?}"),
                });
                let values: Vec<String> = values.collect();
                assert_eq!(request.expect.rows, Some(((values.len() / 3) as u64, (values.len() / 3) as u64)));
                loaded.extend(values.chunks(3).map(<[String]>::to_vec));
                assert_eq!(source.step(&mut request), Step::End);
                source.end(true);
            }
            commands.push(request.command);
        }
        (loaded, commands)
    }

    #[test]
    fn every_record_is_loaded_once_with_the_same_contents() {
        let (whole, _) = load(rows(1_003, 100), 1);
        assert_eq!(whole.len(), 1_003);
        assert_eq!(whole[0][0], format!("user{}", crate::ycsb::key::fnv_hash(100)));
        assert!(whole.iter().all(|row| row[1].len() == 10 && row[2].len() == 10 && row[1] != row[2]));
        for (batch_rows, n_users) in [(100, 3), (7, 4), (1, 2), (2_000, 5)] {
            assert_eq!(load(rows(1_003, batch_rows), n_users).0, whole, "{batch_rows} {n_users}");
        }
    }

    #[test]
    fn the_last_batch_has_a_statement_of_its_own() {
        let texts = |n_records| {
            YcsbLoadSources::new(rows(n_records, 2), 1, Dialect::Postgres, "t").expect("sound").statements()
        };
        assert_eq!(
            texts(3),
            [
                "INSERT INTO t (ycsb_key, field0, field1) VALUES ($1, $2, $3), ($4, $5, $6)",
                "INSERT INTO t (ycsb_key, field0, field1) VALUES ($1, $2, $3)"
            ]
        );
        assert_eq!(texts(4).len(), 1);
        assert_eq!(texts(1), ["INSERT INTO t (ycsb_key, field0, field1) VALUES ($1, $2, $3)"]);
        let (_, commands) = load(rows(5, 2), 3);
        assert!(matches!(commands[..], [SqlCommand::Prepared(0), SqlCommand::Prepared(0), SqlCommand::Prepared(1)]));
    }

    #[test]
    fn a_repeated_batch_is_the_same() {
        let sources = YcsbLoadSources::new(rows(10, 5), 1, Dialect::Mysql, "t").expect("sound");
        let mut source = sources.source(0, 0);
        let mut request = SqlRequest::default();
        source.begin();
        source.step(&mut request);
        let first = format!("{request:?}");
        source.rewind();
        source.step(&mut request);
        assert_eq!(format!("{request:?}"), first);
    }

    #[test]
    fn what_cannot_be_is_refused_with_its_value() {
        let refused = |rows: Rows, n_users, table| {
            YcsbLoadSources::new(rows, n_users, Dialect::Mysql, table).expect_err("out of bounds")
        };
        assert_eq!(
            refused(rows(1, 0), 1, "t"),
            "batch_rows=0 must be 1 to 21845: a statement has at most 65535 parameters"
        );
        assert!(refused(rows(1, 21_846), 1, "t").starts_with("batch_rows=21846 must be"));
        assert_eq!(refused(rows(0, 1), 1, "t"), "n_records=0 must be at least 1");
        assert_eq!(refused(rows(1, 1), 0, "t"), "n_users=0 must be at least 1");
        assert_eq!(refused(rows(1, 1), 1, "a; b"), "table=\"a; b\" must be a word, or two with a dot between");
    }
}
