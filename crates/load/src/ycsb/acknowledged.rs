//! Which records exist: a counter of inserts that shows a number only once its insert, and all before it, are over.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError, RwLock};

/// Numbers of new records for all users of a run. Only inserts write to it; a draw reads one or two words.
#[derive(Debug)]
pub struct Acknowledged {
    next: AtomicU64,
    /// All below are over.
    end: AtomicU64,
    /// One bit for each number from `end` on, modulo the window's size: its insert is over.
    window: Box<[AtomicU64]>,
    moving: Mutex<()>,
    holes: RwLock<Vec<Range<u64>>>,
    n_holes: AtomicUsize,
}

impl Acknowledged {
    /// So many inserts may be under way at once.
    pub const WINDOW: u64 = 1 << 20;

    /// The records below `end` exist.
    pub fn new(end: u64) -> Self {
        Self {
            next: AtomicU64::new(end),
            end: AtomicU64::new(end),
            window: (0..Self::WINDOW / 64).map(|_| AtomicU64::new(0)).collect(),
            moving: Mutex::new(()),
            holes: RwLock::default(),
            n_holes: AtomicUsize::new(0),
        }
    }

    /// The number for a new record; `None` when the window is full.
    pub fn reserve(&self) -> Option<u64> {
        let has_room = |next: u64| {
            // `end` read late may lie beyond a `next` read early.
            (next.saturating_sub(self.end()) < Self::WINDOW).then_some(next + 1)
        };
        self.next.fetch_update(Ordering::SeqCst, Ordering::SeqCst, has_room).ok()
    }

    /// The insert of a reserved number is over. After a failure the record may exist or not: nobody will draw it.
    pub fn settle(&self, number: u64, is_ok: bool) {
        if !is_ok {
            self.add_hole(number);
        }
        let (word, bit) = self.place(number);
        word.fetch_or(bit, Ordering::SeqCst);
        // Whoever finds the lock taken leaves the work to its holder, who looks again after he has let go.
        while self.is_settled(self.end()) {
            let Ok(_moving) = self.moving.try_lock() else { return };
            let mut end = self.end();
            while self.is_settled(end) {
                let (word, bit) = self.place(end);
                word.fetch_and(!bit, Ordering::SeqCst);
                end += 1;
                self.end.store(end, Ordering::SeqCst);
            }
        }
    }

    /// Behind the newest record of which it and all before it are over.
    pub fn end(&self) -> u64 {
        self.end.load(Ordering::SeqCst)
    }

    /// Behind the newest number given out.
    pub fn reserved_end(&self) -> u64 {
        self.next.load(Ordering::SeqCst)
    }

    /// Whether a record below `end` is one whose insert failed.
    pub fn is_hole(&self, number: u64) -> bool {
        if self.n_holes.load(Ordering::SeqCst) == 0 {
            return false;
        }
        let holes = self.holes.read().unwrap_or_else(PoisonError::into_inner);
        let after = holes.partition_point(|hole| hole.start <= number);
        after > 0 && holes[after - 1].contains(&number)
    }

    /// Neighbours are kept as one range, so that a server that refuses all inserts costs no memory.
    fn add_hole(&self, number: u64) {
        let mut holes = self.holes.write().unwrap_or_else(PoisonError::into_inner);
        let at = holes.partition_point(|hole| hole.start <= number);
        if at > 0 && holes[at - 1].end == number {
            holes[at - 1].end += 1;
            if holes.get(at).is_some_and(|hole| hole.start == number + 1) {
                holes[at - 1].end = holes.remove(at).end;
            }
        } else if let Some(hole) = holes.get_mut(at)
            && hole.start == number + 1
        {
            hole.start = number;
        } else {
            holes.insert(at, number..number + 1);
        }
        self.n_holes.store(holes.len(), Ordering::SeqCst);
    }

    fn is_settled(&self, number: u64) -> bool {
        let (word, bit) = self.place(number);
        word.load(Ordering::SeqCst) & bit != 0
    }

    fn place(&self, number: u64) -> (&AtomicU64, u64) {
        let slot = number % Self::WINDOW;
        (&self.window[(slot / 64) as usize], 1 << (slot % 64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn a_number_shows_once_all_before_it_are_over() {
        let counter = Acknowledged::new(10);
        let numbers: Vec<u64> = (0..3).map(|_| counter.reserve().expect("room")).collect();
        assert_eq!(numbers, [10, 11, 12]);
        counter.settle(12, true);
        counter.settle(11, true);
        assert_eq!((counter.end(), counter.reserved_end()), (10, 13));
        counter.settle(10, true);
        assert_eq!(counter.end(), 13);
    }

    #[test]
    fn failed_inserts_are_holes_and_neighbours_are_one() {
        let counter = Acknowledged::new(0);
        (0..6).for_each(|_| _ = counter.reserve());
        for (number, is_ok) in [(1, false), (3, false), (2, false), (0, true), (4, true), (5, false)] {
            counter.settle(number, is_ok);
        }
        assert_eq!(counter.end(), 6);
        let holes: Vec<u64> = (0..6).filter(|&number| counter.is_hole(number)).collect();
        assert_eq!(holes, [1, 2, 3, 5]);
        assert_eq!(*counter.holes.read().expect("not poisoned"), [1..4, 5..6]);
    }

    #[test]
    fn a_full_window_gives_no_number() {
        let counter = Acknowledged::new(5);
        assert_eq!((0..Acknowledged::WINDOW).filter_map(|_| counter.reserve()).count() as u64, Acknowledged::WINDOW);
        assert_eq!(counter.reserve(), None);
        counter.settle(5, true);
        assert_eq!(counter.reserve(), Some(5 + Acknowledged::WINDOW));
    }

    #[test]
    fn threads_lose_nothing() {
        const N_THREADS: u64 = 4;
        const N_EACH: u64 = 50_000;
        let counter = Arc::new(Acknowledged::new(0));
        std::thread::scope(|scope| {
            for thread in 0..N_THREADS {
                let counter = Arc::clone(&counter);
                scope.spawn(move || {
                    for i in 0..N_EACH {
                        let number = counter.reserve().expect("room");
                        counter.settle(number, !(i + thread).is_multiple_of(1_000));
                    }
                });
            }
        });
        assert_eq!(counter.end(), N_THREADS * N_EACH);
        let n_holes = (0..counter.end()).filter(|&number| counter.is_hole(number)).count() as u64;
        assert_eq!(n_holes, N_THREADS * N_EACH / 1_000);
    }
}
