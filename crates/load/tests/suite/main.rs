//! What every driver promises to the engine, on real servers: connect, refuse, answer, validate, cut off, lose, allocate
//! nothing. A language adds a [`Subject`] and a line below.
//!
//! `TRIMTAB_TEST_POSTGRES`, `TRIMTAB_TEST_MYSQL` and `TRIMTAB_TEST_HTTP` name the servers, as the subjects say; without one
//! its tests are skipped with the reason.

mod cql;
mod cql_ring;
mod http;
mod mysql;
mod postgresql;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use tokio::task::LocalSet;
use tokio::time::{sleep, timeout};
use trimtab_load::driver::{Canceller, Driver, ErrorClass, Failure, Session};
use trimtab_load::protocol::Protocol;

type Request<S> = <<<S as Subject>::Driver as Driver>::Protocol as Protocol>::Request;
type Answer<S> = <<<S as Subject>::Driver as Driver>::Protocol as Protocol>::Answer;
type Opened<S> = <<S as Subject>::Driver as Driver>::Session;

/// A driver with a server that it can be tried on.
trait Subject: Sized {
    type Driver: Driver;

    /// `None`, with a word about why, where there is no server.
    fn find() -> Option<Self>;

    fn driver(&self) -> Self::Driver;

    /// The same server at a port where nobody listens.
    fn nowhere(&self) -> Self::Driver;

    /// One row, document or page.
    fn quick(&self, request: &mut Request<Self>);

    /// Takes a minute.
    fn slow(&self, request: &mut Request<Self>);

    /// The server refuses it, and goes on with the connection.
    fn wrong(&self, request: &mut Request<Self>) -> ErrorClass;

    /// The answer comes, and is not what `request` says it must be.
    fn unexpected(&self, request: &mut Request<Self>);

    /// Makes the server end this session's connection.
    fn hang_up(&self, session: &mut Opened<Self>) -> impl Future<Output = ()>;

    /// Whether the session opens a connection that the server has closed in good order anew.
    const REOPENS: bool;
}

/// Runs one request.
async fn ask<S: Subject>(session: &mut Opened<S>, fill: impl FnOnce(&mut Request<S>)) -> Result<u64, Failure> {
    let (mut request, mut answer) = (Request::<S>::default(), Answer::<S>::default());
    fill(&mut request);
    session.run(&request, &mut answer).await
}

async fn open<S: Subject>(subject: &S) -> Opened<S> {
    subject.driver().connect().await.expect("a server that lets us in")
}

async fn answers<S: Subject>(subject: S) {
    let mut session = open(&subject).await;
    for _ in 0..3 {
        assert_eq!(ask::<S>(&mut session, |request| subject.quick(request)).await, Ok(1));
        session.reset().await.expect("a sound connection");
    }
    assert!(!session.is_lost());
    session.close().await;
}

async fn refuses<S: Subject>(subject: S) {
    let failure = subject.nowhere().connect().await.err().expect("nobody listens there");
    assert_eq!(failure.class, ErrorClass::Connect);
    assert!(failure.message.starts_with("cannot connect to "), "{failure}");
}

async fn goes_on_after_failures<S: Subject>(subject: S) {
    let mut session = open(&subject).await;
    for _ in 0..2 {
        let mut class = ErrorClass::Other;
        let failure = ask::<S>(&mut session, |request| class = subject.wrong(request)).await.expect_err("refused");
        assert_eq!(failure.class, class, "{failure}");
        let failure = ask::<S>(&mut session, |request| subject.unexpected(request)).await.expect_err("not as expected");
        assert_eq!(failure.class, ErrorClass::Validation, "{failure}");
        session.reset().await.expect("a sound connection");
        assert_eq!(ask::<S>(&mut session, |request| subject.quick(request)).await, Ok(1));
    }
}

/// With a canceller the request ends and its connection stays; without, the request can be dropped.
async fn is_cut_off<S: Subject>(subject: S) {
    let mut session = open(&subject).await;
    let canceller = session.canceller();
    let (mut request, mut answer) = (Request::<S>::default(), Answer::<S>::default());
    subject.slow(&mut request);
    if let Some(canceller) = &canceller {
        let cancelling = async {
            sleep(Duration::from_millis(300)).await;
            canceller.cancel().await.expect("a server that takes the request");
        };
        let (result, ()) = tokio::join!(session.run(&request, &mut answer), cancelling);
        assert_eq!(result.expect_err("cancelled").class, ErrorClass::Timeout);
        // One that comes late hits nothing.
        for _ in 0..20 {
            canceller.cancel().await.expect("a server that takes the request");
            assert_eq!(ask::<S>(&mut session, |request| subject.quick(request)).await, Ok(1));
        }
    } else {
        assert!(timeout(Duration::from_millis(100), session.run(&request, &mut answer)).await.is_err());
        session.reset().await.expect("a sound session");
    }
    assert!(!session.is_lost());
    assert_eq!(ask::<S>(&mut session, |request| subject.quick(request)).await, Ok(1));
}

/// A request that nobody waits for any more: what it leaves is known.
async fn is_dropped<S: Subject>(subject: S) {
    let mut session = open(&subject).await;
    let (mut request, mut answer) = (Request::<S>::default(), Answer::<S>::default());
    subject.slow(&mut request);
    {
        let mut running = pin!(session.run(&request, &mut answer));
        poll_fn(|cx| {
            assert!(running.as_mut().poll(cx).is_pending());
            Poll::Ready(())
        })
        .await;
    }
    assert_eq!(session.is_lost(), session.canceller().is_some());
    if let Some(canceller) = session.canceller() {
        canceller.cancel().await.expect("a server that takes the request");
    }
}

async fn is_lost<S: Subject>(subject: S) {
    let mut session = open(&subject).await;
    subject.hang_up(&mut session).await;
    let result = ask::<S>(&mut session, |request| subject.quick(request)).await;
    if S::REOPENS {
        assert_eq!((result, session.is_lost()), (Ok(1), false));
        return;
    }
    assert_eq!(result.expect_err("no connection").class, ErrorClass::Connect);
    assert!(session.is_lost());
    let failure = ask::<S>(&mut session, |request| subject.quick(request)).await.expect_err("no connection");
    assert_eq!((failure.class, failure.message.as_str()), (ErrorClass::Connect, "the connection is lost"));
    assert!(session.reset().await.is_err());
}

async fn allocates_nothing<S: Subject>(subject: S) {
    let mut session = open(&subject).await;
    let (mut request, mut answer) = (Request::<S>::default(), Answer::<S>::default());
    subject.quick(&mut request);
    let mut before = 0;
    for turn in 0..500 {
        if turn == 100 {
            before = N_ALLOCATIONS.get();
        }
        assert_eq!(session.run(&request, &mut answer).await, Ok(1));
    }
    assert_eq!(N_ALLOCATIONS.get() - before, 0);
}

/// Runs one promise on a thread of its own, which therefore counts its allocations alone.
fn run<S: Subject, F: Future<Output = ()>>(promise: impl FnOnce(S) -> F) {
    let Some(subject) = S::find() else { return };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let limited = async { timeout(Duration::from_secs(120), promise(subject)).await.expect("in time") };
    LocalSet::new().block_on(&runtime, limited);
}

/// The system's allocator, which counts the allocations of each thread.
struct Counting;

thread_local! {
    static N_ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: everything is the system allocator's.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        N_ALLOCATIONS.set(N_ALLOCATIONS.get() + 1);
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

macro_rules! promises {
    ($subject:ty: $($promise:ident),*) => {
        $(#[test] fn $promise() { crate::run::<$subject, _>(crate::$promise); })*
    };
    ($($name:ident $subject:ty;)*) => {
        $(mod $name {
            promises!($subject: answers, refuses, goes_on_after_failures, is_cut_off, is_dropped, is_lost, allocates_nothing);
        })*
    };
}

mod promised {
    promises! {
        postgresql crate::postgresql::PostgresSubject;
        mysql crate::mysql::MysqlSubject;
        http crate::http::HttpSubject;
        cql crate::cql::CqlSubject;
    }
}
