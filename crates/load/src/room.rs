//! What the users of one worker share: the clock, the recorder, one timer for all of them, and the open loop's queue.
//!
//! All of it stays on the worker's thread, so nothing is locked. A user waits at its [`Seat`]; one pacer per worker wakes
//! whoever must be woken.

use std::cell::{Cell, RefCell};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::future::poll_fn;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::time::Instant;

use crate::driver::Failure;
use crate::queue::Queue;
use crate::recorder::{Batch, Ending, Recorder, Success};
use crate::schedule::{NEVER, nanoseconds};
use crate::timer::Timer;

/// The timers of all workers together fire at least so often, so that it is known how late their threads run when nobody waits
/// for a timer.
const PROBE: Duration = Duration::from_millis(50);

/// That of each fires at least so often.
const PROBE_MAX: Duration = Duration::from_millis(500);

const SECOND_NS: u64 = 1_000_000_000;

/// Stands for a timer that must be armed whatever comes next.
const UNARMED: u64 = 0;

/// What time it is for whoever watches over the users.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bell {
    /// A second is over.
    Second,
    /// The run ends by itself.
    End,
}

/// When what happens to the users of one worker, from the run's start on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Times {
    pub(crate) start: Instant,
    pub(crate) duration: Duration,
    /// An operation is cut off after this time.
    pub(crate) operation_timeout: Duration,
    /// How many workers there are.
    pub(crate) n_workers: u32,
}

/// Why a user does not go on with what it waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Interruption {
    /// The run is over.
    Stopped,
    /// The operation has taken too long.
    TimedOut,
}

/// See the module.
pub(crate) struct Room {
    start: Instant,
    end_ns: u64,
    timeout_ns: u64,
    probe_ns: u64,
    /// Of whoever waits for the bell, when it rings next, and whether it has rung since it was heard last.
    watcher: RefCell<Option<Waker>>,
    bell_ns: Cell<u64>,
    has_rung: Cell<bool>,
    recorder: RefCell<Recorder>,
    queue: Option<RefCell<Queue>>,
    pacer: RefCell<Pacer>,
    chairs: Box<[Chair]>,
    is_stopped: Cell<bool>,
}

/// What the room knows of one user.
#[derive(Default)]
struct Chair {
    waker: RefCell<Option<Waker>>,
    /// Since when the operation that the user was given is due.
    job_ns: Cell<Option<u64>>,
    /// When the user wants to be woken.
    alarm_ns: Cell<Option<u64>>,
    /// When its operation has taken too long.
    cut_off_ns: Cell<Option<u64>>,
    is_cut_off: Cell<bool>,
}

struct Pacer {
    timer: Timer,
    armed_ns: u64,
    alarms: BinaryHeap<Reverse<(u64, u32)>>,
    /// No operation that runs now can have taken too long before.
    sweep_ns: u64,
}

impl Room {
    pub(crate) fn new(
        Times { start, duration, operation_timeout, n_workers }: Times,
        n_users: usize,
        recorder: Recorder,
        queue: Option<Queue>,
        timer: Timer,
    ) -> Rc<Self> {
        let (end_ns, timeout_ns) = (nanoseconds(duration), nanoseconds(operation_timeout));
        let pacer = Pacer { timer, armed_ns: NEVER, alarms: BinaryHeap::new(), sweep_ns: timeout_ns };
        Rc::new(Self {
            start,
            end_ns,
            timeout_ns,
            probe_ns: nanoseconds((PROBE * n_workers).min(PROBE_MAX)),
            watcher: RefCell::new(None),
            bell_ns: Cell::new(SECOND_NS.min(end_ns)),
            has_rung: Cell::new(false),
            recorder: RefCell::new(recorder),
            queue: queue.map(RefCell::new),
            pacer: RefCell::new(pacer),
            chairs: (0..n_users).map(|_| Chair::default()).collect(),
            is_stopped: Cell::new(false),
        })
    }

    /// Nanoseconds since the run's start.
    pub(crate) fn now_ns(&self) -> u64 {
        self.start.elapsed().as_nanos() as u64
    }

    /// Waits until a second is over, or the run.
    ///
    /// The pacer's own timer rings: with one of the runtime's, the kernel would set and clear a timer whenever the thread sleeps,
    /// which is once in each operation of a single user.
    pub(crate) async fn bell(&self) -> Bell {
        poll_fn(|cx| {
            if self.now_ns() >= self.end_ns {
                return Poll::Ready(Bell::End);
            }
            if self.has_rung.take() {
                return Poll::Ready(Bell::Second);
            }
            park(&self.watcher, cx);
            Poll::Pending
        })
        .await
    }

    /// What was recorded since the last time.
    pub(crate) fn drain(&self) -> Batch {
        let now_ns = self.now_ns();
        let mut recorder = self.recorder.borrow_mut();
        recorder.roll(now_ns);
        let batch = recorder.drain();
        let chairs = self.chairs.len() * size_of::<Chair>();
        let queue = self.queue.as_ref().map_or(0, |queue| queue.borrow().memory_bytes());
        Batch { now_ns, memory_bytes: batch.memory_bytes + chairs + queue, ..batch }
    }

    /// Ends the run: nothing is recorded after this moment.
    pub(crate) fn stop(&self) -> u64 {
        let now_ns = self.now_ns();
        self.recorder.borrow_mut().close(now_ns);
        self.is_stopped.set(true);
        self.chairs.iter().for_each(Chair::wake);
        now_ns
    }

    /// Wakes users when it is time, until the run is over.
    pub(crate) async fn pace(&self) {
        poll_fn(|cx| self.poll_pace(cx)).await;
    }

    fn poll_pace(&self, cx: &mut Context<'_>) -> Poll<()> {
        while !self.is_stopped.get() {
            let now_ns = self.now_ns();
            // What is due at a second's edge is the next second's.
            let bell_ns = self.ring_bell(now_ns);
            self.admit(now_ns);
            let next_due_ns = self.queue.as_ref().map_or(NEVER, |queue| queue.borrow().next_ns());
            let mut pacer = self.pacer.borrow_mut();
            let next_alarm_ns = pacer.ring(now_ns, &self.chairs);
            if now_ns >= pacer.sweep_ns {
                pacer.sweep_ns = self.sweep(now_ns);
            }
            let next_ns = next_due_ns.min(next_alarm_ns).min(pacer.sweep_ns).min(bell_ns);
            let next_ns = next_ns.min(now_ns.saturating_add(self.probe_ns));
            if now_ns >= pacer.armed_ns {
                if pacer.armed_ns != UNARMED {
                    self.recorder.borrow_mut().woke(now_ns - pacer.armed_ns);
                }
                // It has fired, or is about to.
                pacer.armed_ns = UNARMED;
            }
            pacer.arm(self.start, next_ns);
            if pacer.timer.poll_fired(cx).is_pending() {
                return Poll::Pending;
            }
        }
        Poll::Ready(())
    }

    /// Tells whoever watches when a second is over, or the run; when it rings next.
    fn ring_bell(&self, now_ns: u64) -> u64 {
        let bell_ns = self.bell_ns.get();
        if now_ns < bell_ns {
            return bell_ns;
        }
        self.recorder.borrow_mut().roll(now_ns);
        let next_ns = (now_ns / SECOND_NS + 1) * SECOND_NS;
        // Behind the end there is nothing more to ring for.
        let next_ns = if now_ns < self.end_ns { next_ns.min(self.end_ns) } else { NEVER };
        self.bell_ns.set(next_ns);
        self.has_rung.set(true);
        wake(&self.watcher);
        next_ns
    }

    /// Cuts off what has taken too long; when to look again.
    fn sweep(&self, now_ns: u64) -> u64 {
        let mut next_ns = now_ns.saturating_add(self.timeout_ns);
        for chair in &self.chairs {
            match chair.cut_off_ns.get() {
                Some(cut_off_ns) if cut_off_ns <= now_ns => {
                    chair.cut_off_ns.set(None);
                    chair.is_cut_off.set(true);
                    chair.wake();
                }
                Some(cut_off_ns) => next_ns = next_ns.min(cut_off_ns),
                None => {}
            }
        }
        next_ns
    }

    fn admit(&self, now_ns: u64) {
        if let Some(queue) = &self.queue {
            let give = |slot: u32| self.chairs[slot as usize].give(now_ns);
            queue.borrow_mut().admit(now_ns, &mut self.recorder.borrow_mut(), give);
        }
    }
}

impl Pacer {
    /// Wakes those whose alarm is due; when the next one is.
    fn ring(&mut self, now_ns: u64, chairs: &[Chair]) -> u64 {
        while let Some(&Reverse((due_ns, slot))) = self.alarms.peek() {
            if due_ns > now_ns {
                return due_ns;
            }
            self.alarms.pop();
            let chair = &chairs[slot as usize];
            // One who was interrupted does not wait any more.
            if chair.alarm_ns.get() == Some(due_ns) {
                chair.alarm_ns.set(None);
                chair.wake();
            }
        }
        NEVER
    }

    fn arm(&mut self, start: Instant, at_ns: u64) {
        if self.armed_ns != at_ns {
            self.armed_ns = at_ns;
            self.timer.arm((at_ns != NEVER).then(|| start + Duration::from_nanos(at_ns)));
        }
    }
}

impl Chair {
    /// Gives a free user its operation, which is due at `due_ns`.
    fn give(&self, due_ns: u64) {
        self.job_ns.set(Some(due_ns));
        self.wake();
    }

    fn wake(&self) {
        wake(&self.waker);
    }

    fn park(&self, cx: &Context<'_>) {
        park(&self.waker, cx);
    }
}

fn wake(waker: &RefCell<Option<Waker>>) {
    if let Some(waker) = &*waker.borrow() {
        waker.wake_by_ref();
    }
}

fn park(waker: &RefCell<Option<Waker>>, cx: &Context<'_>) {
    let mut waker = waker.borrow_mut();
    if !waker.as_ref().is_some_and(|waker| waker.will_wake(cx.waker())) {
        *waker = Some(cx.waker().clone());
    }
}

/// One user's place in the room.
pub(crate) struct Seat {
    room: Rc<Room>,
    slot: u32,
}

impl Seat {
    pub(crate) fn new(room: Rc<Room>, slot: usize) -> Self {
        Self { room, slot: slot as u32 }
    }

    pub(crate) fn now_ns(&self) -> u64 {
        self.room.now_ns()
    }

    pub(crate) fn is_open_loop(&self) -> bool {
        self.room.queue.is_some()
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.room.is_stopped.get()
    }

    fn chair(&self) -> &Chair {
        &self.room.chairs[self.slot as usize]
    }

    /// The operation is sent now; it is cut off when it takes too long. One of a schedule was counted when it fell due.
    pub(crate) fn begin(&self, label: u32, is_scheduled: bool) {
        let now_ns = self.now_ns();
        self.chair().cut_off_ns.set(Some(now_ns.saturating_add(self.room.timeout_ns)));
        let mut recorder = self.room.recorder.borrow_mut();
        recorder.begin(self.slot as usize, label, now_ns);
        if !is_scheduled {
            recorder.offer(1);
        }
    }

    /// The operation, which was due at `due_ns`, is over; gives the present moment.
    pub(crate) fn finish(&self, due_ns: u64, result: Result<Success, Ending<'_>>) -> u64 {
        let now_ns = self.now_ns();
        self.chair().cut_off_ns.set(None);
        self.chair().is_cut_off.set(false);
        self.room.recorder.borrow_mut().finish(self.slot as usize, due_ns, now_ns, result);
        now_ns
    }

    /// An attempt to connect that began at `start_ns` has failed.
    pub(crate) fn fail(&self, label: u32, start_ns: u64, failure: &Failure) {
        self.room.recorder.borrow_mut().fail(self.slot as usize, label, start_ns, self.now_ns(), failure);
    }

    /// Our timer woke so late.
    pub(crate) fn late(&self, lateness_ns: u64) {
        self.room.recorder.borrow_mut().late(lateness_ns);
    }

    /// Waits for the next operation of an open loop and gives the moment since when it is due; `None` at the run's end.
    pub(crate) async fn job(&self) -> Option<u64> {
        let room = &*self.room;
        let queue = room.queue.as_ref()?;
        if room.is_stopped.get() {
            return None;
        }
        let now_ns = room.now_ns();
        room.admit(now_ns);
        let waiting = queue.borrow_mut().take(self.slot, now_ns, &mut room.recorder.borrow_mut());
        if waiting.is_some() {
            return waiting;
        }
        poll_fn(|cx| {
            if room.is_stopped.get() {
                return Poll::Ready(None);
            }
            let job_ns = self.chair().job_ns.take();
            if job_ns.is_none() {
                self.chair().park(cx);
                return Poll::Pending;
            }
            Poll::Ready(job_ns)
        })
        .await
    }

    /// Leaves the operation to another user.
    pub(crate) fn give_back(&self, due_ns: u64) {
        let Room { queue, recorder, chairs, .. } = &*self.room;
        if let Some(queue) = queue {
            let give = |slot: u32| chairs[slot as usize].give(due_ns);
            queue.borrow_mut().give_back(due_ns, &mut recorder.borrow_mut(), give);
        }
    }

    /// Waits until `due_ns`.
    pub(crate) async fn until(&self, due_ns: u64) -> Result<(), Interruption> {
        let chair = self.chair();
        if due_ns > self.now_ns() {
            let mut pacer = self.room.pacer.borrow_mut();
            chair.alarm_ns.set(Some(due_ns));
            pacer.alarms.push(Reverse((due_ns, self.slot)));
            if due_ns < pacer.armed_ns {
                pacer.arm(self.room.start, due_ns);
            }
        }
        let result = poll_fn(|cx| match self.interruption() {
            Some(interruption) => Poll::Ready(Err(interruption)),
            None if chair.alarm_ns.get().is_none() => Poll::Ready(Ok(())),
            None => {
                chair.park(cx);
                Poll::Pending
            }
        })
        .await;
        chair.alarm_ns.set(None);
        result
    }

    /// Waits for `future`; it can be waited for again after an interruption.
    pub(crate) async fn guard<F: Future>(&self, mut future: Pin<&mut F>) -> Result<F::Output, Interruption> {
        poll_fn(|cx| {
            if let Poll::Ready(output) = future.as_mut().poll(cx) {
                return Poll::Ready(Ok(output));
            }
            match self.interruption() {
                Some(interruption) => Poll::Ready(Err(interruption)),
                None => {
                    self.chair().park(cx);
                    Poll::Pending
                }
            }
        })
        .await
    }

    fn interruption(&self) -> Option<Interruption> {
        if self.room.is_stopped.get() {
            return Some(Interruption::Stopped);
        }
        self.chair().is_cut_off.get().then_some(Interruption::TimedOut)
    }
}
