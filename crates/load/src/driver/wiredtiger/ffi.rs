//! The part of WiredTiger's C interface that a load calls: the functions of a cursor, as its header lays them out.

use std::ffi::{c_char, c_int, c_void};

/// A stretch of memory.
// Fields that are never read keep the others in their places; so below.
#[allow(dead_code)]
#[repr(C)]
pub(super) struct Item {
    pub(super) data: *const c_void,
    pub(super) size: usize,
    mem: *mut c_void,
    mem_size: usize,
    flags: u32,
}

impl Item {
    pub(super) fn of(bytes: &[u8]) -> Self {
        Self { data: bytes.as_ptr().cast(), size: bytes.len(), mem: std::ptr::null_mut(), mem_size: 0, flags: 0 }
    }

    /// The bytes; of none the engine may say that they are nowhere.
    ///
    /// # Safety
    /// `size` bytes stand at `data`, unless it is 0, and stay there as long as `'a`.
    pub(super) unsafe fn bytes<'a>(&self) -> &'a [u8] {
        if self.size == 0 {
            return &[];
        }
        // SAFETY: the caller vouches for them.
        unsafe { std::slice::from_raw_parts(self.data.cast(), self.size) }
    }
}

pub(super) type Simple = unsafe extern "C" fn(*mut Cursor) -> c_int;
type Get = unsafe extern "C" fn(*mut Cursor, ...) -> c_int;
type Set = unsafe extern "C" fn(*mut Cursor, ...);

/// A cursor: the beginning of `struct __wt_cursor`, the same in all versions from 11.0 on. (The tables of connections and sessions are
/// not: builds of one version number differ in them, so those are left to the engine's own Python module.)
#[allow(dead_code)]
#[repr(C)]
pub(super) struct Cursor {
    session: *mut c_void,
    pub(super) uri: *const c_char,
    key_format: *const c_char,
    value_format: *const c_char,
    get_key: *const c_void,
    pub(super) get_value: Get,
    get_raw_key_value: *const c_void,
    pub(super) set_key: Set,
    pub(super) set_value: Set,
    compare: *const c_void,
    equals: *const c_void,
    pub(super) next: Simple,
    prev: Simple,
    pub(super) reset: Simple,
    pub(super) search: Simple,
    pub(super) search_near: unsafe extern "C" fn(*mut Cursor, *mut c_int) -> c_int,
    pub(super) insert: Simple,
    modify: *const c_void,
    pub(super) update: Simple,
}

/// A conflict with another transaction, or a cache that is too full of changes.
pub(super) const ROLLBACK: c_int = -31_800;
/// The record is there already.
pub(super) const DUPLICATE_KEY: c_int = -31_801;
/// No such record, or the end of the table.
pub(super) const NOT_FOUND: c_int = -31_803;
/// The engine cannot go on.
pub(super) const PANIC: c_int = -31_804;
/// The cache is full and nothing can leave it.
pub(super) const CACHE_FULL: c_int = -31_807;

/// What a status means.
pub(super) fn words(status: c_int) -> String {
    let known = match status {
        ROLLBACK => "WT_ROLLBACK: a conflict between concurrent operations",
        DUPLICATE_KEY => "WT_DUPLICATE_KEY: the record is there already",
        NOT_FOUND => "WT_NOTFOUND: no such record",
        PANIC => "WT_PANIC: the engine cannot go on",
        CACHE_FULL => "WT_CACHE_FULL: the operation would overflow the cache",
        1.. => return std::io::Error::from_raw_os_error(status).to_string(),
        _ => "an error of WiredTiger",
    };
    known.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_item_without_bytes_may_be_nowhere() {
        let nowhere = Item { data: std::ptr::null(), ..Item::of(&[]) };
        // SAFETY: of no bytes none have to be there, and the others are this function's.
        assert_eq!(unsafe { (nowhere.bytes(), Item::of(b"ab").bytes()) }, (&b""[..], &b"ab"[..]));
    }
}
