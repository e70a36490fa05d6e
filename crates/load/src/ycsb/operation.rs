//! The operations of one user, in no database's terms.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use super::Workload;
use super::acknowledged::Acknowledged;
use super::distribution::{KeyChooser, LengthChooser};
use crate::random::Random;

/// Types of operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Reads one record.
    Read,
    /// Writes into one record.
    Update,
    /// Adds a record.
    Insert,
    /// Reads records from one key on, in key order.
    Scan,
    /// Reads a record, then writes into it.
    ReadModifyWrite,
}

impl Kind {
    /// In the order of [`super::Proportions::as_array`].
    pub const ALL: [Self; 5] = [Self::Read, Self::Update, Self::Insert, Self::Scan, Self::ReadModifyWrite];

    /// YCSB's name.
    pub fn label(self) -> &'static str {
        match self {
            Self::Read => "READ",
            Self::Update => "UPDATE",
            Self::Insert => "INSERT",
            Self::Scan => "SCAN",
            Self::ReadModifyWrite => "READ-MODIFY-WRITE",
        }
    }
}

/// One operation with all its choices made; the same values come out of it each time it is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operation {
    /// What it does.
    pub kind: Kind,
    /// The record's number; an insert has none before [`Operations::number`] gives it one.
    pub number: Option<u64>,
    /// The field that is read or written, where it is only one; a read-modify-write reads another one than it writes.
    pub read_field: u32,
    /// See `read_field`.
    pub write_field: u32,
    /// Rows of a scan.
    pub scan_length: u32,
    /// Seed of the values that are written.
    pub value_seed: u64,
}

/// A user whose insert can have no number yet asks again after this.
pub const NUMBER_PAUSE: Duration = Duration::from_millis(1);

/// What all users of a run share: the numbers of new records, and the place of a sequential walk.
#[derive(Clone, Debug)]
pub struct Shared {
    /// The workload.
    pub workload: Arc<Workload>,
    /// Which records exist.
    pub existing: Arc<Acknowledged>,
    position: Arc<AtomicU64>,
}

impl Shared {
    /// For one run; a second run on the same data would not know what the first one inserted.
    ///
    /// # Errors
    /// See [`Workload::check`].
    pub fn new(workload: Workload) -> Result<Self, String> {
        workload.check()?;
        let existing = Arc::new(Acknowledged::new(workload.start + workload.n_records));
        Ok(Self { workload: Arc::new(workload), existing, position: Arc::default() })
    }
}

/// The operations of one user: a pure function of the seed and of which records exist.
#[derive(Debug)]
pub struct Operations {
    shared: Shared,
    random: Random,
    /// Upper bounds of a random number for each kind.
    bounds: [f64; 5],
    keys: KeyChooser,
    scan_lengths: LengthChooser,
}

impl Operations {
    /// Those of user number `user`.
    pub fn new(shared: Shared, user: u32, seed: u64) -> Self {
        let workload = &shared.workload;
        let keys = KeyChooser::new(
            workload.distribution,
            (workload.start, workload.n_records),
            workload.expected_inserts,
            Arc::clone(&shared.existing),
            Arc::clone(&shared.position),
        );
        let scan_lengths =
            LengthChooser::new(workload.scan_lengths, workload.scan_length_min, workload.scan_length_max);
        let bounds = cumulate(workload.proportions.as_array());
        Self { random: Random::of_choices(seed, user), bounds, keys, scan_lengths, shared }
    }

    /// Draws the next one.
    pub fn draw(&mut self) -> Operation {
        let u = self.random.unit();
        let kind = Kind::ALL[self.bounds.iter().position(|&bound| u < bound).unwrap_or(0)];
        let number = match kind {
            Kind::Insert => None,
            _ => Some(self.keys.draw(&mut self.random)),
        };
        let n_fields = u64::from(self.shared.workload.schema.n_fields);
        Operation {
            kind,
            number,
            read_field: self.random.below(n_fields) as u32,
            write_field: self.random.below(n_fields) as u32,
            scan_length: if kind == Kind::Scan { self.scan_lengths.draw(&mut self.random) } else { 0 },
            value_seed: self.random.bits(),
        }
    }

    /// The number of the operation's record. That of an insert is given to it here, when it is sent: one whose user waits for a
    /// connection must not hold up the records behind it. `None` as long as more inserts are under way than the window of
    /// [`Acknowledged`] holds.
    pub fn number(&self, operation: &mut Operation) -> Option<u64> {
        operation.number = operation.number.or_else(|| self.shared.existing.reserve());
        operation.number
    }

    /// An operation that was drawn is over.
    pub fn end(&self, operation: &Operation, is_ok: bool) {
        if operation.kind == Kind::Insert
            && let Some(number) = operation.number
        {
            self.shared.existing.settle(number, is_ok);
        }
    }
}

/// Sums, so that `u` in [0, 1) falls into the first whose bound is above it; the last share that is not 0 ends at infinity,
/// because a sum of decimal fractions may stay below 1.
fn cumulate(shares: [f64; 5]) -> [f64; 5] {
    let mut sum = 0.0;
    let mut bounds = shares.map(|share| {
        sum += share;
        sum
    });
    if let Some(last) = shares.iter().rposition(|&share| share > 0.0) {
        bounds[last] = f64::INFINITY;
    }
    bounds
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ycsb::Proportions;

    fn operations(workload: Workload, seed: u64) -> Operations {
        Operations::new(Shared::new(workload).expect("a sound workload"), 0, seed)
    }

    #[test]
    fn proportions_hold() {
        let shares = Proportions { read: 0.4, update: 0.3, insert: 0.0, scan: 0.2, read_modify_write: 0.1 };
        let workload = Workload { proportions: shares, ..Workload::core('a', 1_000).expect("core") };
        let mut operations = operations(workload, 5);
        let mut counts = [0_u32; 5];
        for _ in 0..100_000 {
            counts[operations.draw().kind as usize] += 1;
        }
        for (count, share) in counts.iter().zip(shares.as_array()) {
            // Four standard deviations.
            let bound = 4.0 * (share * (1.0 - share) * 100_000.0).sqrt();
            assert!((f64::from(*count) - share * 100_000.0).abs() <= bound, "{counts:?}");
        }
    }

    #[test]
    fn a_share_of_zero_is_never_drawn() {
        let bounds = cumulate([0.1, 0.0, 0.2, 0.7 - 1e-7, 0.0]);
        let kind = |u: f64| bounds.iter().position(|&bound| u < bound);
        assert_eq!([0.0, 0.1, 0.35, 1.0 - f64::EPSILON].map(kind), [Some(0), Some(2), Some(3), Some(3)]);
    }

    #[test]
    fn the_same_seed_gives_the_same_operations() {
        let draw = |user, seed| {
            let shared = Shared::new(Workload::core('f', 1_000).expect("core")).expect("sound");
            let mut operations = Operations::new(shared, user, seed);
            (0..50).map(|_| operations.draw()).collect::<Vec<_>>()
        };
        assert_eq!(draw(3, 8), draw(3, 8));
        assert_ne!(draw(3, 8), draw(4, 8));
        assert_ne!(draw(3, 8), draw(3, 9));
    }

    #[test]
    fn inserts_are_numbered_behind_the_records_and_read_once_they_are_over() {
        let shares = Proportions { read: 0.5, insert: 0.5, ..Proportions::default() };
        let workload = Workload { proportions: shares, start: 10, ..Workload::core('d', 100).expect("core") };
        let mut operations = operations(workload, 1);
        let mut inserted = Vec::new();
        for _ in 0..200 {
            let mut operation = operations.draw();
            let number = operations.number(&mut operation).expect("room");
            match operation.kind {
                Kind::Insert => inserted.push(operation),
                _ => assert!((10..110).contains(&number)),
            }
        }
        let numbers: Vec<u64> = inserted.iter().filter_map(|operation| operation.number).collect();
        assert_eq!(numbers, (110..110 + numbers.len() as u64).collect::<Vec<_>>());
        inserted.iter().for_each(|operation| operations.end(operation, true));
        let newest = (0..200).map(|_| operations.draw()).filter(|o| o.kind == Kind::Read && o.number >= Some(110));
        assert!(newest.count() > 50);
    }
}
