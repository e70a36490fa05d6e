//! The open loop's desk: who is free, what waits, and what is shed.
//!
//! Time comes in as an argument and never runs backwards: `admit` is called before anybody becomes free, so that who is
//! free when an operation falls due was free before it.

use std::collections::VecDeque;

use crate::model::Open;
use crate::recorder::Recorder;
use crate::schedule::{NEVER, Place, Schedule, nanoseconds};

/// One worker's arrivals, free users and waiting operations.
#[derive(Debug)]
pub(crate) struct Queue {
    schedule: Schedule,
    next_ns: u64,
    free: VecDeque<u32>,
    backlog: VecDeque<u64>,
    backlog_max: usize,
    age_max_ns: u64,
}

impl Queue {
    /// The bound on waiting operations is shared out like the users.
    pub(crate) fn new(open: &Open, place: Place, seed: u64) -> Self {
        let mut schedule = Schedule::new(open, place, seed);
        let share = (open.backlog_max as u128 * u128::from(place.n_own())).div_ceil(u128::from(place.n_users));
        Self {
            next_ns: schedule.next_ns(),
            schedule,
            free: VecDeque::with_capacity(place.n_own() as usize),
            backlog: VecDeque::new(),
            backlog_max: usize::try_from(share).unwrap_or(usize::MAX),
            age_max_ns: nanoseconds(open.backlog_age_max),
        }
    }

    /// When the next operation is due.
    pub(crate) fn next_ns(&self) -> u64 {
        self.next_ns
    }

    /// Takes in what is due: `give` gets the user who has been free longest, or it waits, or it is shed.
    ///
    /// With a free user only our own lateness can have delayed it, so it counts from now.
    pub(crate) fn admit(&mut self, now_ns: u64, recorder: &mut Recorder, mut give: impl FnMut(u32)) {
        while self.next_ns <= now_ns {
            let due_ns = std::mem::replace(&mut self.next_ns, NEVER);
            self.next_ns = self.schedule.next_ns();
            recorder.offer(1);
            if let Some(slot) = self.free.pop_front() {
                recorder.late(now_ns - due_ns);
                give(slot);
            } else {
                self.drop_old(now_ns, recorder);
                if self.backlog.len() < self.backlog_max {
                    self.backlog.push_back(due_ns);
                } else {
                    recorder.shed(1);
                }
            }
        }
        recorder.set_backlog(self.backlog.len());
    }

    /// Work for a user who is free now: since when the operation that has waited longest is due. Without one the user
    /// is free until `admit` gives it something.
    pub(crate) fn take(&mut self, slot: u32, now_ns: u64, recorder: &mut Recorder) -> Option<u64> {
        self.drop_old(now_ns, recorder);
        let due_ns = self.backlog.pop_front();
        recorder.set_backlog(self.backlog.len());
        if due_ns.is_none() {
            self.free.push_back(slot);
        }
        due_ns
    }

    /// A user leaves with the operation that it was given: `give` gets the user who has been free longest, or else it is the
    /// next one for whoever becomes free.
    pub(crate) fn give_back(&mut self, due_ns: u64, recorder: &mut Recorder, give: impl FnOnce(u32)) {
        match self.free.pop_front() {
            Some(slot) => give(slot),
            None => self.backlog.push_front(due_ns),
        }
        recorder.set_backlog(self.backlog.len());
    }

    /// Bytes that it holds.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.free.capacity() * size_of::<u32>() + self.backlog.capacity() * size_of::<u64>()
    }

    fn drop_old(&mut self, now_ns: u64, recorder: &mut Recorder) {
        while let Some(&due_ns) = self.backlog.front()
            && now_ns.saturating_sub(due_ns) > self.age_max_ns
        {
            self.backlog.pop_front();
            recorder.shed(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::log::What;
    use crate::model::{Arrivals, Profile};

    const MS: u64 = 1_000_000;

    /// An operation every 10 ms for one user out of one.
    fn queue(backlog_max: usize, age_max_ms: u64) -> (Queue, Recorder) {
        let open = Open {
            rate: 100.0,
            arrivals: Arrivals::Uniform,
            profile: Profile::Constant,
            backlog_max,
            backlog_age_max: Duration::from_millis(age_max_ms),
        };
        let recorder = Recorder::new(&[0, 1], vec!["q".to_owned()].into(), Default::default());
        (Queue::new(&open, Place { worker: 0, n_workers: 1, n_users: 1 }, 1), recorder)
    }

    fn given(queue: &mut Queue, recorder: &mut Recorder, now_ns: u64) -> Vec<u32> {
        let mut slots = Vec::new();
        queue.admit(now_ns, recorder, |slot| slots.push(slot));
        slots
    }

    /// (offered, shed, backlog)
    fn account(recorder: &mut Recorder, edge_s: u64) -> (u64, u64, u64) {
        recorder.roll(edge_s * 1_000 * MS);
        let parts = recorder.drain().parts;
        let backlog = parts.iter().map(|part| part.backlog).sum();
        (parts.iter().map(|part| part.offered).sum(), parts.iter().map(|part| part.shed).sum(), backlog)
    }

    #[test]
    fn the_user_who_is_free_longest_comes_first() {
        let (mut queue, mut recorder) = queue(10, 1_000);
        assert_eq!(queue.take(1, 0, &mut recorder), None);
        assert_eq!(queue.take(0, 0, &mut recorder), None);
        assert_eq!(given(&mut queue, &mut recorder, 0), [1]);
        assert_eq!(given(&mut queue, &mut recorder, 9 * MS), []);
        assert_eq!(given(&mut queue, &mut recorder, 10 * MS), [0]);
        assert_eq!(account(&mut recorder, 1), (2, 0, 0));
    }

    #[test]
    fn what_waits_keeps_its_time_and_its_order() {
        let (mut queue, mut recorder) = queue(10, 1_000);
        assert_eq!(given(&mut queue, &mut recorder, 25 * MS), []);
        assert_eq!(queue.take(0, 26 * MS, &mut recorder), Some(0));
        assert_eq!(queue.take(0, 27 * MS, &mut recorder), Some(10 * MS));
        assert_eq!(account(&mut recorder, 1), (3, 0, 1));
    }

    #[test]
    fn our_own_lateness_has_a_histogram_of_its_own() {
        let (mut queue, mut recorder) = queue(10, 1_000);
        assert_eq!(queue.take(0, 0, &mut recorder), None);
        assert_eq!(given(&mut queue, &mut recorder, 7 * MS), [0]);
        let batch = recorder.drain();
        let lateness: Vec<_> = batch.groups.iter().filter(|group| group.what == What::Lateness).collect();
        assert_eq!(lateness.len(), 1);
        let index = crate::counts::index_of(7_000);
        assert_eq!(crate::counts::decode(&lateness[0].counts).collect::<Vec<_>>(), [(index, 1)]);
    }

    #[test]
    fn the_backlog_is_bounded_by_count() {
        let (mut queue, mut recorder) = queue(3, 1_000);
        // Due at 0, 10, ... 90: the first three wait, seven are shed.
        given(&mut queue, &mut recorder, 95 * MS);
        assert_eq!(queue.take(0, 96 * MS, &mut recorder), Some(0));
        given(&mut queue, &mut recorder, 105 * MS);
        assert_eq!(account(&mut recorder, 1), (11, 7, 3));
    }

    #[test]
    fn the_backlog_is_bounded_by_age() {
        let (mut queue, mut recorder) = queue(100, 50);
        given(&mut queue, &mut recorder, 95 * MS);
        // At 95 those due until 44 are too old: 0, 10, 20, 30, 40.
        assert_eq!(queue.take(0, 95 * MS, &mut recorder), Some(50 * MS));
        assert_eq!(account(&mut recorder, 1), (10, 5, 4));
    }

    #[test]
    fn an_operation_that_was_given_back_is_the_next() {
        let (mut queue, mut recorder) = queue(10, 1_000);
        given(&mut queue, &mut recorder, 15 * MS);
        let due = queue.take(0, 16 * MS, &mut recorder).expect("two wait");
        queue.give_back(due, &mut recorder, |slot| panic!("{slot} is not free"));
        assert_eq!(queue.take(1, 17 * MS, &mut recorder), Some(due));
        assert_eq!(queue.take(1, 18 * MS, &mut recorder), Some(10 * MS));
        assert_eq!(queue.take(1, 19 * MS, &mut recorder), None);
        let mut given = None;
        queue.give_back(10 * MS, &mut recorder, |slot| given = Some(slot));
        assert_eq!((given, account(&mut recorder, 1)), (Some(1), (2, 0, 0)));
    }
}
