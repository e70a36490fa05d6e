//! WiredTiger in this very process: every call is made on the worker's own thread and does the engine's work there, so a user
//! that is to wait for a lock or for the disk beside others needs a worker thread of its own.
//!
//! A record is one value: the lengths of its fields (u32, little-endian), their number first, and then the fields.

mod ffi;

use std::ffi::{CStr, c_int};
use std::sync::{Arc, Mutex, PoisonError};

use self::ffi::{Cursor, Item};
use super::{Driver, ErrorClass, Failure, Session, Uncancellable};
use crate::pairs::{Command, Pairs, PairsAnswer, PairsRequest};

/// One table of an engine that is open in this process: a cursor for each user, each in a session of its own.
#[derive(Clone, Debug)]
pub struct WiredTiger {
    /// Addresses of those that nobody has.
    free: Arc<Mutex<Vec<usize>>>,
}

impl WiredTiger {
    /// Cursors of `table`, whose keys and values are items, by the addresses of their `WT_CURSOR`.
    ///
    /// # Errors
    /// One of them is not what it should be: the engine's interface is another one.
    ///
    /// # Safety
    /// Each is an open cursor in a session of its own, which nobody else uses and which outlives this driver and its sessions.
    pub unsafe fn new(cursors: Vec<usize>, table: &str) -> Result<Self, String> {
        let wanted = format!("table:{table}");
        for &cursor in &cursors {
            if cursor == 0 {
                return Err("cursor=0 is none".to_owned());
            }
            // SAFETY: the caller vouches for the cursor, whose second word is its name in all versions.
            let uri = unsafe { CStr::from_ptr((*(cursor as *const Cursor)).uri) };
            if uri.to_bytes() != wanted.as_bytes() {
                return Err(format!("a cursor of {} is no one of {wanted}", uri.to_string_lossy()));
            }
        }
        Ok(Self { free: Arc::new(Mutex::new(cursors)) })
    }
}

impl Driver for WiredTiger {
    type Protocol = Pairs;
    type Session = WiredTigerSession;

    const WORKS_HERE: bool = true;

    async fn connect(&self) -> Result<WiredTigerSession, Failure> {
        let free = Arc::clone(&self.free);
        let cursor = free.lock().unwrap_or_else(PoisonError::into_inner).pop();
        match cursor {
            Some(cursor) => {
                let cursor = cursor as *mut Cursor;
                Ok(WiredTigerSession { free, cursor, key: Vec::new(), record: Vec::new(), is_lost: false })
            }
            None => Err(Failure::without_code(ErrorClass::Connect, "the engine has no session left for this user")),
        }
    }
}

/// One user's session with its cursor.
pub struct WiredTigerSession {
    free: Arc<Mutex<Vec<usize>>>,
    cursor: *mut Cursor,
    key: Vec<u8>,
    record: Vec<u8>,
    is_lost: bool,
}

impl WiredTigerSession {
    fn failure(&mut self, status: c_int) -> Failure {
        let class = match status {
            ffi::ROLLBACK => ErrorClass::Serialization,
            ffi::DUPLICATE_KEY => ErrorClass::Constraint,
            ffi::NOT_FOUND => ErrorClass::Validation,
            ffi::CACHE_FULL | libc::ENOSPC | libc::ENOMEM | libc::EBUSY => ErrorClass::Resource,
            ffi::PANIC => ErrorClass::Connect,
            _ => ErrorClass::Other,
        };
        self.is_lost |= status == ffi::PANIC;
        Failure { class, code: Some(status.to_string()), message: ffi::words(status), word: None }
    }

    fn call(&mut self, call: ffi::Simple) -> Result<(), Failure> {
        // SAFETY: the cursor is open, and this thread alone uses it; `call` is one of its functions.
        match unsafe { call(self.cursor) } {
            0 => Ok(()),
            status => Err(self.failure(status)),
        }
    }

    /// The functions of the cursor.
    fn table(&self) -> &Cursor {
        // SAFETY: the cursor stays open, and its functions in place, as long as the session.
        unsafe { &*self.cursor }
    }

    fn set_key(&mut self, key: &str) {
        self.key.clear();
        self.key.extend_from_slice(key.as_bytes());
        let item = Item::of(&self.key);
        // SAFETY: the table's keys are items (format "u"); the bytes stay in place until the next call of this function.
        unsafe { (self.table().set_key)(self.cursor, &raw const item) };
    }

    /// Writes what `record` holds.
    fn put(&mut self, is_new: bool) -> Result<(), Failure> {
        let item = Item::of(&self.record);
        let table = self.table();
        let write = if is_new { table.insert } else { table.update };
        // SAFETY: the table's values are items; the bytes stay in place until the call below has taken them.
        unsafe { (table.set_value)(self.cursor, &raw const item) };
        self.call(write)
    }

    /// The record under the cursor.
    fn value(&mut self) -> Result<&[u8], Failure> {
        let mut item = Item::of(&[]);
        // SAFETY: the cursor is on a record, whose value is an item.
        let status = unsafe { (self.table().get_value)(self.cursor, &raw mut item) };
        if status != 0 {
            return Err(self.failure(status));
        }
        // SAFETY: the engine keeps these bytes in place until the cursor moves.
        Ok(unsafe { item.bytes() })
    }

    fn get(&mut self, request: &PairsRequest) -> Result<u64, Failure> {
        self.set_key(request.key(0));
        if let Some(missing) = self.searched(request)? {
            return Ok(missing);
        }
        self.look(request)?;
        self.call(self.table().reset)?;
        request.judge(1)
    }

    /// Goes to the key; how many records that is worth where there is none.
    fn searched(&mut self, request: &PairsRequest) -> Result<Option<u64>, Failure> {
        // SAFETY: as in `call`.
        match unsafe { (self.table().search)(self.cursor) } {
            0 => Ok(None),
            ffi::NOT_FOUND => request.judge(0).map(Some),
            status => Err(self.failure(status)),
        }
    }

    fn look(&mut self, request: &PairsRequest) -> Result<(), Failure> {
        let field = request.field;
        let record = self.value()?;
        let Some(fields) = Fields::read(record) else {
            return Err(Failure::without_code(ErrorClass::Validation, "a value that is no record"));
        };
        match field {
            None => request.judge_fields(fields.lengths()),
            Some(field) => request.judge_fields(fields.lengths().skip(field as usize).take(1)),
        }
    }

    fn scan(&mut self, request: &PairsRequest) -> Result<u64, Failure> {
        self.set_key(request.key(0));
        let mut exact: c_int = 0;
        // SAFETY: as in `call`; the comparison is given back through a pointer of ours.
        let status = unsafe { (self.table().search_near)(self.cursor, &raw mut exact) };
        let mut status = match status {
            0 if exact < 0 => self.step(),
            other => other,
        };
        let mut n_rows = 0;
        while status == 0 {
            self.look(request)?;
            n_rows += 1;
            if n_rows == u64::from(request.limit) {
                break;
            }
            status = self.step();
        }
        if status != 0 && status != ffi::NOT_FOUND {
            return Err(self.failure(status));
        }
        self.call(self.table().reset)?;
        request.judge(n_rows)
    }

    fn step(&self) -> c_int {
        // SAFETY: as in `call`.
        unsafe { (self.table().next)(self.cursor) }
    }

    fn insert(&mut self, request: &PairsRequest) -> Result<u64, Failure> {
        for index in 0..request.n_keys() {
            self.set_key(request.key(index));
            Fields::write(request.values(index), &mut self.record);
            self.put(true)?;
        }
        self.call(self.table().reset)?;
        request.judge(request.n_keys() as u64)
    }

    fn update(&mut self, request: &PairsRequest) -> Result<u64, Failure> {
        self.set_key(request.key(0));
        if let Some(missing) = self.searched(request)? {
            return Ok(missing);
        }
        match (request.field, request.values(0).next()) {
            (Some(field), Some(value)) => {
                let mut record = std::mem::take(&mut self.record);
                let is_written = Fields::replace(self.value()?, field as usize, value.as_bytes(), &mut record);
                self.record = record;
                if !is_written {
                    let message = format!("a record without field {field}");
                    return Err(Failure::without_code(ErrorClass::Validation, message));
                }
            }
            _ => Fields::write(request.values(0), &mut self.record),
        }
        self.put(false)?;
        self.call(self.table().reset)?;
        request.judge(1)
    }
}

impl Session for WiredTigerSession {
    type Protocol = Pairs;
    type Canceller = Uncancellable;

    async fn run(&mut self, request: &PairsRequest, _answer: &mut PairsAnswer) -> Result<u64, Failure> {
        match request.command {
            Command::Get => self.get(request),
            Command::Update => self.update(request),
            Command::Insert => self.insert(request),
            Command::Scan => self.scan(request),
        }
    }

    async fn reset(&mut self) -> Result<(), Failure> {
        self.call(self.table().reset)
    }

    fn canceller(&self) -> Option<Uncancellable> {
        None
    }

    fn is_lost(&self) -> bool {
        self.is_lost
    }

    async fn close(self) {}
}

impl Drop for WiredTigerSession {
    fn drop(&mut self) {
        // SAFETY: as in `call`.
        unsafe { (self.table().reset)(self.cursor) };
        self.free.lock().unwrap_or_else(PoisonError::into_inner).push(self.cursor as usize);
    }
}

/// A record's fields in its value.
struct Fields<'a> {
    lengths: &'a [u8],
    contents: &'a [u8],
}

const WORD: usize = size_of::<u32>();

impl<'a> Fields<'a> {
    /// `None`: the bytes are no record.
    fn read(record: &'a [u8]) -> Option<Self> {
        let (n, rest) = record.split_first_chunk::<WORD>()?;
        let (lengths, contents) = rest.split_at_checked(u32::from_le_bytes(*n) as usize * WORD)?;
        let found = Self { lengths, contents };
        (found.lengths().sum::<usize>() == contents.len()).then_some(found)
    }

    fn lengths(&self) -> impl Iterator<Item = usize> {
        self.lengths.as_chunks::<WORD>().0.iter().map(|length| u32::from_le_bytes(*length) as usize)
    }

    fn write<'v>(values: impl ExactSizeIterator<Item = &'v str>, record: &mut Vec<u8>) {
        let n = values.len();
        record.clear();
        record.extend_from_slice(&(n as u32).to_le_bytes());
        record.resize(WORD * (n + 1), 0);
        for (index, value) in values.enumerate() {
            let at = WORD * (index + 1);
            record[at..at + WORD].copy_from_slice(&(value.len() as u32).to_le_bytes());
            record.extend_from_slice(value.as_bytes());
        }
    }

    /// The record with another value of one field, into `out`; false: it has no such field.
    fn replace(record: &[u8], field: usize, value: &[u8], out: &mut Vec<u8>) -> bool {
        let Some(fields) = Fields::read(record) else { return false };
        let Some(old) = fields.lengths().nth(field) else { return false };
        let before: usize = fields.lengths().take(field).sum();
        out.clear();
        out.extend_from_slice(&record[..record.len() - fields.contents.len() + before]);
        out.extend_from_slice(value);
        out.extend_from_slice(&fields.contents[before + old..]);
        let at = WORD * (field + 1);
        out[at..at + WORD].copy_from_slice(&(value.len() as u32).to_le_bytes());
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_read_as_it_was_written() {
        let mut record = Vec::new();
        Fields::write(["ab", "", "cde"].into_iter(), &mut record);
        let fields = Fields::read(&record).expect("a record");
        assert_eq!(fields.lengths().collect::<Vec<_>>(), [2, 0, 3]);
        let mut changed = Vec::new();
        assert!(Fields::replace(&record, 1, b"xyz!", &mut changed));
        let fields = Fields::read(&changed).expect("a record");
        assert_eq!((fields.lengths().collect::<Vec<_>>(), fields.contents), (vec![2, 4, 3], &b"abxyz!cde"[..]));
        assert!(!Fields::replace(&record, 3, b"x", &mut changed));
    }

    #[test]
    fn other_bytes_are_no_record() {
        let mut record = Vec::new();
        Fields::write(["ab", "c"].into_iter(), &mut record);
        for bytes in [&b""[..], b"abc", &[255; 12], &record[..record.len() - 1]] {
            assert!(Fields::read(bytes).is_none(), "{bytes:?}");
        }
    }
}
