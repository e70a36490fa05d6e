//! YCSB's operations for stores of records by key, and their load phase.

use std::ops::Range;
use std::sync::Arc;

use super::distribution::LengthChooser;
use super::operation::{Kind, NUMBER_PAUSE, Operation, Operations, Shared};
use super::rows::{Rows, Share};
use super::{Workload, check_records, value};
use crate::pairs::{Command, Pairs, PairsRequest};
use crate::random::Random;
use crate::source::{Source, Sources, Step};

/// YCSB for stores of records: makes the source of every user of one run.
#[derive(Clone, Debug)]
pub struct YcsbPairSources {
    shared: Shared,
    kinds: Arc<[Kind]>,
}

impl YcsbPairSources {
    /// For one run: it numbers the records that the run inserts.
    ///
    /// # Errors
    /// A text naming what of the workload cannot be, and its value.
    pub fn new(workload: Workload) -> Result<Self, String> {
        let shared = Shared::new(workload)?;
        let shares = workload.proportions.as_array();
        let kinds = Kind::ALL.into_iter().zip(shares).filter(|(_, share)| *share > 0.0).map(|(kind, _)| kind);
        Ok(Self { shared, kinds: kinds.collect() })
    }

    /// The numbers of the records that the run has inserted or tried to.
    pub fn inserted(&self) -> Range<u64> {
        let workload = &self.shared.workload;
        workload.start + workload.n_records..self.shared.existing.reserved_end()
    }
}

impl Sources<Pairs> for YcsbPairSources {
    fn labels(&self) -> Vec<String> {
        self.kinds.iter().map(|kind| kind.label().to_owned()).collect()
    }

    fn source(&self, user: u32, seed: u64) -> Box<dyn Source<Pairs>> {
        Box::new(PairSource {
            operations: Operations::new(self.shared.clone(), user, seed),
            lengths: self.shared.workload.schema.lengths(),
            workload: Arc::clone(&self.shared.workload),
            kinds: Arc::clone(&self.kinds),
            current: None,
            n_steps: 0,
        })
    }
}

/// One user.
struct PairSource {
    operations: Operations,
    lengths: LengthChooser,
    workload: Arc<Workload>,
    kinds: Arc<[Kind]>,
    current: Option<Operation>,
    n_steps: u32,
}

impl PairSource {
    fn begin_request(&self, command: Command, number: u64, request: &mut PairsRequest) {
        let schema = &self.workload.schema;
        request.begin(command, schema.n_fields);
        request.push_key(|text| schema.naming.write(number, text));
        request.rows = Some((1, 1));
    }

    fn read(&self, number: u64, operation: &Operation, request: &mut PairsRequest) {
        let is_scan = operation.kind == Kind::Scan;
        self.begin_request(if is_scan { Command::Scan } else { Command::Get }, number, request);
        request.field = (!self.workload.reads_all_fields).then_some(operation.read_field);
        request.field_bytes = self.lengths.constant();
        if is_scan {
            // A scan near the end of the keys finds fewer records, but always the one that it starts from.
            request.limit = operation.scan_length;
            request.rows = Some((1, u64::from(operation.scan_length)));
        }
    }

    fn write(&self, command: Command, number: u64, operation: &Operation, request: &mut PairsRequest) {
        self.begin_request(command, number, request);
        let is_whole = command == Command::Insert || self.workload.writes_all_fields;
        request.field = (!is_whole).then_some(operation.write_field);
        let mut random = Random::new(operation.value_seed, 0);
        for _ in 0..if is_whole { self.workload.schema.n_fields } else { 1 } {
            let length = self.lengths.draw(&mut random);
            request.push_value(|text| value::write(length, &mut random, text));
        }
    }
}

impl Source<Pairs> for PairSource {
    fn begin(&mut self) -> Option<u32> {
        let operation = self.operations.draw();
        self.current = Some(operation);
        self.n_steps = 0;
        self.kinds.iter().position(|kind| *kind == operation.kind).map(|label| label as u32)
    }

    fn step(&mut self, request: &mut PairsRequest) -> Step {
        let Some(operation) = &mut self.current else { return Step::End };
        let Some(number) = self.operations.number(operation) else { return Step::Sleep(NUMBER_PAUSE) };
        let operation = *operation;
        match (operation.kind, self.n_steps) {
            (Kind::Read | Kind::Scan | Kind::ReadModifyWrite, 0) => self.read(number, &operation, request),
            (Kind::Update, 0) | (Kind::ReadModifyWrite, 1) => self.write(Command::Update, number, &operation, request),
            (Kind::Insert, 0) => self.write(Command::Insert, number, &operation, request),
            _ => return Step::End,
        }
        if !self.workload.is_validated {
            (request.rows, request.field_bytes) = (None, None);
        }
        self.n_steps += 1;
        Step::Request
    }

    fn rewind(&mut self) {
        self.n_steps = 0;
    }

    fn end(&mut self, is_ok: bool) {
        if let Some(operation) = self.current.take() {
            self.operations.end(&operation, is_ok);
        }
    }
}

/// The load phase: every record of a range once, in batches, split over the users.
#[derive(Clone, Debug)]
pub struct YcsbPairRows {
    rows: Rows,
    n_users: u32,
}

impl YcsbPairRows {
    /// For `n_users` users, whose numbers start at 0.
    ///
    /// # Errors
    /// A text naming what cannot be, and its value.
    pub fn new(rows: Rows, n_users: u32) -> Result<Self, String> {
        rows.schema.check()?;
        check_records(rows.start, rows.n_records)?;
        if n_users == 0 || rows.batch_rows == 0 {
            return Err(format!("n_users={n_users} and batch_rows={} must be at least 1", rows.batch_rows));
        }
        Ok(Self { rows, n_users })
    }
}

impl Sources<Pairs> for YcsbPairRows {
    fn labels(&self) -> Vec<String> {
        vec!["INSERT".to_owned()]
    }

    /// The seed is not used: see [`Rows::content_seed`].
    fn source(&self, user: u32, _seed: u64) -> Box<dyn Source<Pairs>> {
        Box::new(RowSource(Share::new(self.rows, user, self.n_users)))
    }
}

/// One user of the load phase.
struct RowSource(Share);

impl Source<Pairs> for RowSource {
    fn begin(&mut self) -> Option<u32> {
        self.0.begin()
    }

    fn step(&mut self, request: &mut PairsRequest) -> Step {
        let Some(numbers) = self.0.take() else { return Step::End };
        let Share { rows, lengths, .. } = &self.0;
        let n_rows = numbers.end - numbers.start;
        request.begin(Command::Insert, rows.schema.n_fields);
        for number in numbers {
            request.push_key(|text| rows.schema.naming.write(number, text));
            let mut random = Random::new(rows.content_seed, number);
            for _ in 0..rows.schema.n_fields {
                let length = lengths.draw(&mut random);
                request.push_value(|text| value::write(length, &mut random, text));
            }
        }
        request.rows = Some((n_rows, n_rows));
        Step::Request
    }

    fn rewind(&mut self) {
        self.0.rewind();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ycsb::Schema;

    fn commands(letter: char, n: usize) -> Vec<(Command, usize, u32)> {
        let sources = YcsbPairSources::new(Workload::core(letter, 1_000).expect("core")).expect("sound");
        let (mut source, mut request, mut seen) = (sources.source(0, 7), PairsRequest::default(), Vec::new());
        for _ in 0..n {
            source.begin().expect("an operation");
            while source.step(&mut request) == Step::Request {
                let n_values = if request.command == Command::Insert || request.command == Command::Update {
                    request.values(0).len()
                } else {
                    0
                };
                seen.push((request.command, n_values, request.limit));
            }
            source.end(true);
        }
        seen
    }

    #[test]
    fn operations_ask_for_what_their_kinds_do() {
        let has = |seen: &[(Command, usize, u32)], command, n| seen.iter().any(|row| (row.0, row.1) == (command, n));
        let (a, e, f) = (commands('a', 200), commands('e', 400), commands('f', 200));
        assert!(has(&a, Command::Get, 0) && has(&a, Command::Update, 1) && !has(&a, Command::Insert, 10));
        assert!(has(&e, Command::Scan, 0) && has(&e, Command::Insert, 10));
        assert!(e.iter().all(|row| row.2 <= 100) && e.iter().any(|row| row.2 > 50));
        // A read-modify-write asks twice.
        assert!(f.windows(2).any(|pair| pair[0].0 == Command::Get && pair[1].0 == Command::Update));
    }

    #[test]
    fn every_record_is_loaded_once_with_the_same_contents() {
        let load = |batch_rows, n_users| {
            let schema = Schema { n_fields: 2, field_length: 10, ..Schema::default() };
            let rows = Rows { schema, start: 100, n_records: 1_003, batch_rows, content_seed: 4 };
            let sources = YcsbPairRows::new(rows, n_users).expect("sound");
            let mut loaded = Vec::new();
            for user in 0..n_users {
                let (mut source, mut request) = (sources.source(user, 0), PairsRequest::default());
                while source.begin().is_some() {
                    assert_eq!(source.step(&mut request), Step::Request);
                    for index in 0..request.n_keys() {
                        loaded.push((request.key(index).to_owned(), request.values(index).collect::<String>()));
                    }
                    assert_eq!(source.step(&mut request), Step::End);
                }
            }
            loaded
        };
        let whole = load(100, 1);
        assert_eq!(whole.len(), 1_003);
        for (batch_rows, n_users) in [(7, 4), (1, 2), (2_000, 5)] {
            assert_eq!(load(batch_rows, n_users), whole);
        }
    }
}
