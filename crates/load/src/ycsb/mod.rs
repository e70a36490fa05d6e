//! The YCSB core workloads: which operation comes next, on which record, with which values.
//!
//! Keys, distributions and proportions are YCSB's own, so that figures can be compared; time, concurrency and errors are the
//! engine's. [`operation`] knows no database; [`sql`] and [`rows`] put its operations into SQL.

pub mod acknowledged;
pub mod distribution;
pub mod key;
pub mod operation;
pub mod pairs;
pub mod rows;
pub mod sql;
pub mod value;
pub mod zipfian;

use distribution::{KeyDistribution, LengthChooser, LengthDistribution};
use key::KeyNaming;

/// The shape of the table's records.
#[derive(Clone, Copy, Debug)]
pub struct Schema {
    /// Columns field0, field1, and so on.
    pub n_fields: u32,
    /// Bytes of the longest field.
    pub field_length: u32,
    /// Bytes of the shortest, unless all have the same.
    pub field_length_min: u32,
    /// Lengths between them.
    pub field_lengths: LengthDistribution,
    /// How a record's number becomes its key.
    pub naming: KeyNaming,
}

impl Default for Schema {
    /// YCSB's: ten fields of 100 bytes.
    fn default() -> Self {
        Self {
            n_fields: 10,
            field_length: 100,
            field_length_min: 1,
            field_lengths: LengthDistribution::Constant,
            naming: KeyNaming::default(),
        }
    }
}

impl Schema {
    /// The chooser of field lengths.
    pub fn lengths(&self) -> LengthChooser {
        LengthChooser::new(self.field_lengths, self.field_length_min, self.field_length)
    }

    fn check(&self) -> Result<(), String> {
        if self.n_fields == 0 {
            return Err("n_fields=0 must be at least 1".to_owned());
        }
        if self.field_length == 0 {
            return Err("field_length=0 must be at least 1".to_owned());
        }
        check_range(self.field_lengths, ("field_length", self.field_length_min, self.field_length))
    }
}

/// Shares of the operation types; they sum to 1.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Proportions {
    /// One record.
    pub read: f64,
    /// One field of a record, or all.
    pub update: f64,
    /// A new record.
    pub insert: f64,
    /// Neighbours in key order.
    pub scan: f64,
    /// A read and an update of the same record.
    pub read_modify_write: f64,
}

impl Proportions {
    /// In the order of [`operation::Kind::ALL`].
    pub fn as_array(&self) -> [f64; 5] {
        [self.read, self.update, self.insert, self.scan, self.read_modify_write]
    }

    fn check(&self) -> Result<(), String> {
        const NAMES: [&str; 5] = ["read", "update", "insert", "scan", "read_modify_write"];
        for (name, share) in NAMES.iter().zip(self.as_array()) {
            if !(0.0..=1.0).contains(&share) {
                return Err(format!("proportions: {name}={share} must be 0 to 1"));
            }
        }
        let sum: f64 = self.as_array().iter().sum();
        if (sum - 1.0).abs() > 1e-6 {
            return Err(format!("proportions sum to {sum}, not to 1"));
        }
        Ok(())
    }
}

/// What the users do.
#[derive(Clone, Copy, Debug)]
pub struct Workload {
    /// The table's records.
    pub schema: Schema,
    /// Number of the first record.
    pub start: u64,
    /// How many records the table has when the run starts, numbered from `start` on.
    pub n_records: u64,
    /// How many the run will insert, as far as is known; see [`distribution::KeyChooser::new`].
    pub expected_inserts: u64,
    /// The mix.
    pub proportions: Proportions,
    /// Which records are popular.
    pub distribution: KeyDistribution,
    /// Whether a read or scan takes all fields, or one.
    pub reads_all_fields: bool,
    /// Whether an update writes all fields, or one.
    pub writes_all_fields: bool,
    /// Rows of the shortest scan.
    pub scan_length_min: u32,
    /// Rows of the longest scan.
    pub scan_length_max: u32,
    /// Lengths between them.
    pub scan_lengths: LengthDistribution,
    /// Whether the rows and lengths of every answer are checked.
    pub is_validated: bool,
}

impl Workload {
    /// YCSB's core workload with this letter, "a" to "f", over records 0 to `n_records`.
    pub fn core(letter: char, n_records: u64) -> Option<Self> {
        let none = Proportions::default();
        let zipfian = KeyDistribution::Zipfian;
        let (proportions, distribution) = match letter {
            'a' => (Proportions { read: 0.5, update: 0.5, ..none }, zipfian),
            'b' => (Proportions { read: 0.95, update: 0.05, ..none }, zipfian),
            'c' => (Proportions { read: 1.0, ..none }, zipfian),
            'd' => (Proportions { read: 0.95, insert: 0.05, ..none }, KeyDistribution::Latest),
            'e' => (Proportions { scan: 0.95, insert: 0.05, ..none }, zipfian),
            'f' => (Proportions { read: 0.5, read_modify_write: 0.5, ..none }, zipfian),
            _ => return None,
        };
        Some(Self {
            schema: Schema::default(),
            start: 0,
            n_records,
            expected_inserts: 0,
            proportions,
            distribution,
            reads_all_fields: true,
            writes_all_fields: false,
            scan_length_min: 1,
            scan_length_max: 100,
            scan_lengths: LengthDistribution::Uniform,
            is_validated: true,
        })
    }

    /// Checks every bound.
    ///
    /// # Errors
    /// A text naming what is wrong and its value.
    pub fn check(&self) -> Result<(), String> {
        self.schema.check()?;
        self.proportions.check()?;
        self.distribution.check()?;
        check_records(self.start, self.n_records)?;
        if self.expected_inserts > MAX_RECORD {
            return Err(format!("expected_inserts={} must be at most {MAX_RECORD}", self.expected_inserts));
        }
        if self.scan_length_min == 0 {
            return Err("scan_length_min=0 must be at least 1".to_owned());
        }
        check_range(self.scan_lengths, ("scan_length", self.scan_length_min, self.scan_length_max))
    }
}

/// Far more than any table has, and far from where sums overflow.
const MAX_RECORD: u64 = 1 << 48;

fn check_records(start: u64, n_records: u64) -> Result<(), String> {
    if n_records == 0 {
        return Err("n_records=0 must be at least 1".to_owned());
    }
    if start > MAX_RECORD || n_records > MAX_RECORD {
        return Err(format!("start={start} and n_records={n_records} must be at most {MAX_RECORD}"));
    }
    Ok(())
}

fn check_range(distribution: LengthDistribution, (name, low, high): (&str, u32, u32)) -> Result<(), String> {
    if distribution != LengthDistribution::Constant && low > high {
        return Err(format!("{name}: the shortest, {low}, is above the longest, {high}"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn core_workloads_are_sound() {
        for letter in 'a'..='f' {
            assert_eq!(Workload::core(letter, 1_000).expect("a core workload").check(), Ok(()));
        }
        assert!(Workload::core('g', 1_000).is_none());
    }

    #[test]
    fn what_cannot_be_is_refused_with_its_value() {
        let refused = |change: fn(&mut Workload)| {
            let mut workload = Workload::core('a', 1_000).expect("a core workload");
            change(&mut workload);
            workload.check().expect_err("out of bounds")
        };
        assert_eq!(refused(|w| w.n_records = 0), "n_records=0 must be at least 1");
        assert_eq!(refused(|w| w.proportions.read = 0.25), "proportions sum to 0.75, not to 1");
        assert_eq!(refused(|w| w.proportions.scan = -0.5), "proportions: scan=-0.5 must be 0 to 1");
        assert_eq!(refused(|w| w.proportions.scan = f64::NAN), "proportions: scan=NaN must be 0 to 1");
        assert_eq!(refused(|w| w.schema.n_fields = 0), "n_fields=0 must be at least 1");
        assert_eq!(refused(|w| w.schema.field_length = 0), "field_length=0 must be at least 1");
        assert_eq!(refused(|w| w.scan_length_min = 0), "scan_length_min=0 must be at least 1");
        assert_eq!(refused(|w| w.scan_length_min = 200), "scan_length: the shortest, 200, is above the longest, 100");
        assert!(refused(|w| w.start = u64::MAX).starts_with("start=18446744073709551615"));
        assert!(refused(|w| w.expected_inserts = u64::MAX).starts_with("expected_inserts=18446744073709551615"));
    }
}
