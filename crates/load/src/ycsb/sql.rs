//! YCSB's operations as prepared SQL statements.

use std::sync::Arc;

use super::distribution::LengthChooser;
use super::operation::{Kind, NUMBER_PAUSE, Operation, Operations, Shared};
use super::{Schema, Workload, value};
use crate::random::Random;
use crate::source::{Source, Sources, SqlSources, Step};
use crate::sql::{Expect, Sql, SqlCommand, SqlRequest};

pub use crate::sql::Dialect;

/// A table's name as it can stand in a statement unquoted: a word, or a schema's word, a dot, and a word.
pub(super) fn check_table(table: &str) -> Result<(), String> {
    let is_word = |part: &str| {
        part.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
            && part.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
    };
    if table.split('.').count() <= 2 && table.split('.').all(is_word) {
        return Ok(());
    }
    Err(format!("table={table:?} must be a word, or two with a dot between"))
}

/// The column with the key.
pub(super) const KEY: &str = "ycsb_key";

/// `field0, field1, ...`
pub(super) fn all_fields(schema: &Schema) -> String {
    (0..schema.n_fields).map(|field| format!("field{field}")).collect::<Vec<_>>().join(", ")
}

/// Where the statements of each kind start in the list; one for each field unless all are taken at once.
#[derive(Clone, Copy, Debug, Default)]
struct Firsts {
    read: u32,
    update: u32,
    insert: u32,
    scan: u32,
}

/// The statements that a workload needs.
#[derive(Debug)]
struct Catalog {
    texts: Vec<String>,
    firsts: Firsts,
}

impl Catalog {
    fn new(workload: &Workload, dialect: Dialect, table: &str) -> Self {
        let shares = workload.proportions;
        let has_rmw = shares.read_modify_write > 0.0;
        let mut catalog = Self { texts: Vec::new(), firsts: Firsts::default() };
        if shares.read > 0.0 || has_rmw {
            let tail = format!("FROM {table} WHERE {KEY} = {}", dialect.placeholder(1));
            catalog.firsts.read = catalog.push_selects(workload, &tail);
        }
        if shares.scan > 0.0 {
            let (from, limit) = (dialect.placeholder(1), dialect.placeholder(2));
            let tail = match dialect {
                // The order of the keys' tokens is the only one there is.
                Dialect::Cql => format!("FROM {table} WHERE token({KEY}) >= token({from}) LIMIT {limit}"),
                _ => format!("FROM {table} WHERE {KEY} >= {from} ORDER BY {KEY} LIMIT {limit}"),
            };
            catalog.firsts.scan = catalog.push_selects(workload, &tail);
        }
        if shares.update > 0.0 || has_rmw {
            catalog.firsts.update = catalog.push_updates(workload, dialect, table);
        }
        if shares.insert > 0.0 {
            catalog.firsts.insert = catalog.texts.len() as u32;
            catalog.texts.push(insert_text(&workload.schema, dialect, table, 1));
        }
        catalog
    }

    fn push_selects(&mut self, workload: &Workload, tail: &str) -> u32 {
        let first = self.texts.len() as u32;
        if workload.reads_all_fields {
            self.texts.push(format!("SELECT {} {tail}", all_fields(&workload.schema)));
        } else {
            self.texts.extend((0..workload.schema.n_fields).map(|field| format!("SELECT field{field} {tail}")));
        }
        first
    }

    fn push_updates(&mut self, workload: &Workload, dialect: Dialect, table: &str) -> u32 {
        let first = self.texts.len() as u32;
        let n_fields = workload.schema.n_fields;
        let set = |field: u32, number: usize| format!("field{field} = {}", dialect.placeholder(number));
        let text =
            |sets: &str, n: usize| format!("UPDATE {table} SET {sets} WHERE {KEY} = {}", dialect.placeholder(n + 1));
        if workload.writes_all_fields {
            let sets: Vec<String> = (0..n_fields).map(|field| set(field, field as usize + 1)).collect();
            self.texts.push(text(&sets.join(", "), n_fields as usize));
        } else {
            self.texts.extend((0..n_fields).map(|field| text(&set(field, 1), 1)));
        }
        first
    }
}

/// An INSERT of so many rows, each a key and all fields.
pub(super) fn insert_text(schema: &Schema, dialect: Dialect, table: &str, n_rows: usize) -> String {
    let mut text = format!("INSERT INTO {table} ({KEY}, {}) VALUES ", all_fields(schema));
    let n_columns = schema.n_fields as usize + 1;
    for row in 0..n_rows {
        text.push_str(if row == 0 { "(" } else { ", (" });
        for column in 0..n_columns {
            if column > 0 {
                text.push_str(", ");
            }
            dialect.write_placeholder(row * n_columns + column + 1, &mut text);
        }
        text.push(')');
    }
    text
}

/// YCSB for SQL servers: makes the source of every user of one run.
#[derive(Clone, Debug)]
pub struct YcsbSources {
    shared: Shared,
    kinds: Arc<[Kind]>,
    catalog: Arc<Catalog>,
}

impl YcsbSources {
    /// For one run: it numbers the records that the run inserts.
    ///
    /// # Errors
    /// A text naming what of the workload or the table's name cannot be, and its value.
    pub fn new(workload: Workload, dialect: Dialect, table: &str) -> Result<Self, String> {
        check_table(table)?;
        let shared = Shared::new(workload)?;
        let shares = workload.proportions.as_array();
        let kinds = Kind::ALL.into_iter().zip(shares).filter(|(_, share)| *share > 0.0).map(|(kind, _)| kind);
        let catalog = Arc::new(Catalog::new(&workload, dialect, table));
        Ok(Self { shared, kinds: kinds.collect(), catalog })
    }

    /// The numbers of the records that the run has inserted or tried to, for whoever takes them out again.
    pub fn inserted(&self) -> std::ops::Range<u64> {
        let workload = &self.shared.workload;
        workload.start + workload.n_records..self.shared.existing.reserved_end()
    }
}

impl SqlSources for YcsbSources {
    fn statements(&self) -> Vec<String> {
        self.catalog.texts.clone()
    }
}

impl Sources<Sql> for YcsbSources {
    fn labels(&self) -> Vec<String> {
        self.kinds.iter().map(|kind| kind.label().to_owned()).collect()
    }

    fn source(&self, user: u32, seed: u64) -> Box<dyn Source<Sql>> {
        Box::new(YcsbSource {
            operations: Operations::new(self.shared.clone(), user, seed),
            lengths: self.shared.workload.schema.lengths(),
            workload: Arc::clone(&self.shared.workload),
            kinds: Arc::clone(&self.kinds),
            firsts: self.catalog.firsts,
            current: None,
            n_steps: 0,
        })
    }
}

/// One user.
struct YcsbSource {
    operations: Operations,
    lengths: LengthChooser,
    workload: Arc<Workload>,
    kinds: Arc<[Kind]>,
    firsts: Firsts,
    current: Option<Operation>,
    n_steps: u32,
}

impl YcsbSource {
    fn write_key(&self, number: u64, request: &mut SqlRequest) {
        request.params.push_written(|text| self.workload.schema.naming.write(number, text));
    }

    /// Only one field, or its place in a statement for all.
    fn statement(first: u32, takes_all: bool, field: u32) -> SqlCommand {
        SqlCommand::Prepared(if takes_all { first } else { first + field })
    }

    fn select(&self, number: u64, operation: &Operation, request: &mut SqlRequest) {
        let is_scan = operation.kind == Kind::Scan;
        let first = if is_scan { self.firsts.scan } else { self.firsts.read };
        request.command = Self::statement(first, self.workload.reads_all_fields, operation.read_field);
        self.write_key(number, request);
        if is_scan {
            request.params.push_int(i64::from(operation.scan_length));
        }
        // A scan near the end of the keys finds fewer rows, but always the one that it starts from.
        let most = if is_scan { u64::from(operation.scan_length) } else { 1 };
        request.expect = Expect { rows: Some((1, most)), column_bytes: self.lengths.constant() };
    }

    fn update(&self, number: u64, operation: &Operation, request: &mut SqlRequest) {
        let takes_all = self.workload.writes_all_fields;
        request.command = Self::statement(self.firsts.update, takes_all, operation.write_field);
        let mut random = Random::new(operation.value_seed, 0);
        for _ in 0..if takes_all { self.workload.schema.n_fields } else { 1 } {
            value::push(&self.lengths, &mut random, &mut request.params);
        }
        self.write_key(number, request);
        request.expect = Expect { rows: Some((1, 1)), column_bytes: None };
    }

    fn insert(&self, number: u64, operation: &Operation, request: &mut SqlRequest) {
        request.command = SqlCommand::Prepared(self.firsts.insert);
        self.write_key(number, request);
        let mut random = Random::new(operation.value_seed, 0);
        for _ in 0..self.workload.schema.n_fields {
            value::push(&self.lengths, &mut random, &mut request.params);
        }
        request.expect = Expect { rows: Some((1, 1)), column_bytes: None };
    }
}

impl Source<Sql> for YcsbSource {
    fn begin(&mut self) -> Option<u32> {
        let operation = self.operations.draw();
        self.current = Some(operation);
        self.n_steps = 0;
        self.kinds.iter().position(|kind| *kind == operation.kind).map(|label| label as u32)
    }

    fn step(&mut self, request: &mut SqlRequest) -> Step {
        let Some(operation) = &mut self.current else { return Step::End };
        let Some(number) = self.operations.number(operation) else { return Step::Sleep(NUMBER_PAUSE) };
        let operation = *operation;
        request.params.clear();
        request.wants_row = false;
        match (operation.kind, self.n_steps) {
            (Kind::Read | Kind::Scan | Kind::ReadModifyWrite, 0) => self.select(number, &operation, request),
            (Kind::Update, 0) | (Kind::ReadModifyWrite, 1) => self.update(number, &operation, request),
            (Kind::Insert, 0) => self.insert(number, &operation, request),
            _ => return Step::End,
        }
        if !self.workload.is_validated {
            request.expect = Expect::default();
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

#[cfg(test)]
mod tests;
