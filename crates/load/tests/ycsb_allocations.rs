//! A user in full swing allocates nothing, whatever the operation.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use trimtab_load::source::{Sources, Step};
use trimtab_load::sql::SqlRequest;
use trimtab_load::ycsb::sql::{Dialect, YcsbSources};
use trimtab_load::ycsb::{Proportions, Workload};

thread_local! {
    static N_ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

struct Counting;

// SAFETY: all is left to the system's allocator; counting touches no memory that is being handed out.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        N_ALLOCATIONS.set(N_ALLOCATIONS.get() + 1);
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's promises are passed on.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[test]
fn operations_allocate_nothing() {
    let proportions = Proportions { read: 0.2, update: 0.2, insert: 0.2, scan: 0.2, read_modify_write: 0.2 };
    for letter in ['a', 'd'] {
        let workload = Workload { proportions, ..Workload::core(letter, 10_000).expect("a core workload") };
        let sources = YcsbSources::new(workload, Dialect::Postgres, "usertable").expect("sound");
        let mut source = sources.source(0, 1);
        let mut request = SqlRequest::default();
        let mut operate = |n: u32| {
            for _ in 0..n {
                source.begin().expect("endless");
                while source.step(&mut request) == Step::Request {}
                source.end(true);
            }
        };
        operate(1_000);
        let before = N_ALLOCATIONS.get();
        operate(10_000);
        assert_eq!(N_ALLOCATIONS.get() - before, 0, "workload {letter}");
    }
}
