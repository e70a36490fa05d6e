//! A prepared operation allocates nothing, counted on a real server (`TRIMTAB_TEST_POSTGRES` as in `postgresql.rs`).

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use trimtab_load::driver::postgresql::{Access, Postgres};
use trimtab_load::driver::{Driver, Session};
use trimtab_load::sql::{Expect, SqlCommand, SqlRequest};

/// The system's allocator, with a count.
struct Counting;

static N_ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

// SAFETY: everything is the system allocator's.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        N_ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: the caller's promises are passed on.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[tokio::test]
async fn prepared_operations_and_transactions_allocate_nothing() {
    let Ok(address) = std::env::var("TRIMTAB_TEST_POSTGRES") else {
        eprintln!("skipped: TRIMTAB_TEST_POSTGRES names no server");
        return;
    };
    let (host, port) = address.rsplit_once(':').expect("HOST:PORT");
    let (host, port) = (host.to_owned(), port.parse().expect("a port"));
    let (user, database) = ("postgres".to_owned(), "postgres".to_owned());
    let access = Access { host, port, user, database, ..Access::default() };
    let statements = Arc::from(["SELECT repeat('x', $1), repeat('y', $1) FROM generate_series(1, $2::int)".to_owned()]);
    let mut session = Postgres::new(access, statements).expect("legal access").connect().await.expect("a connection");
    let mut request = SqlRequest::default();
    let mut before = 0;
    for turn in 0..1000_i64 {
        if turn == 100 {
            before = N_ALLOCATIONS.load(Ordering::Relaxed);
        }
        for command in [SqlCommand::Begin, SqlCommand::Prepared(0), SqlCommand::Commit] {
            let is_read = matches!(command, SqlCommand::Prepared(_));
            request.command = command;
            request.params.clear();
            request.expect = Expect::default();
            if is_read {
                request.params.push_int(100);
                request.params.push_int(turn % 10);
                let rows = turn.cast_unsigned() % 10;
                request.expect = Expect { rows: Some((rows, rows)), column_bytes: Some(100) };
            }
            session.run(&request).await.expect("an answer");
        }
    }
    assert_eq!(N_ALLOCATIONS.load(Ordering::Relaxed) - before, 0);
}
