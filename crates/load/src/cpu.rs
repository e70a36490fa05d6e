//! What the load takes from the machine under measurement, and what the machine's own host takes from both.

/// CPU seconds that the calling thread has used since it started; 0 where the clock is missing.
pub(crate) fn thread_cpu_s() -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid, exclusively borrowed timespec for the whole call.
    let status = unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    if status == 0 { time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9 } else { 0.0 }
}

/// CPU seconds that the hypervisor has given to others while this machine wanted them, since it booted; 0 where the
/// system does not say.
pub(crate) fn steal_s() -> f64 {
    std::fs::read_to_string("/proc/stat").ok().and_then(|text| steal_ticks(&text)).unwrap_or(0.0) / ticks_per_second()
}

/// The eighth number of the first line (`man 5 proc_stat`).
fn steal_ticks(stat: &str) -> Option<f64> {
    stat.lines().next()?.strip_prefix("cpu ")?.split_whitespace().nth(7)?.parse().ok()
}

fn ticks_per_second() -> f64 {
    // SAFETY: sysconf has no preconditions.
    let ticks = unsafe { libc::sysconf(libc::_SC_CLK_TCK) };
    if ticks > 0 { ticks as f64 } else { 100.0 }
}

/// How long one thread, which makes this, was ready to run and had no core.
#[derive(Debug, Default)]
pub(crate) struct RunQueue {
    /// `None`: the system does not say.
    file: Option<std::fs::File>,
}

impl RunQueue {
    /// That of the calling thread.
    pub(crate) fn of_this_thread() -> Self {
        // What the link names is looked up now, so that the file stays this thread's.
        Self { file: std::fs::File::open("/proc/thread-self/schedstat").ok() }
    }

    /// Seconds that it has waited for a core since it started; `None` where the system does not say.
    pub(crate) fn wait_s(&self) -> Option<f64> {
        let mut text = [0_u8; 96];
        let n = std::os::unix::fs::FileExt::read_at(self.file.as_ref()?, &mut text, 0).ok()?;
        wait_ns(std::str::from_utf8(text.get(..n)?).ok()?).map(|ns| ns as f64 * 1e-9)
    }
}

/// The second of three numbers; a kernel that does not count writes three zeros.
fn wait_ns(schedstat: &str) -> Option<u64> {
    let mut numbers = schedstat.split_whitespace().map(|number| number.parse::<u64>().ok());
    let (ran_ns, wait_ns, n_slices) = (numbers.next()??, numbers.next()??, numbers.next()??);
    (ran_ns + wait_ns + n_slices > 0).then_some(wait_ns)
}

/// Lets the calling thread's timers fire when they are due: by default Linux may delay them by 50 us to join wake-ups.
pub(crate) fn refuse_timer_slack() {
    #[cfg(target_os = "linux")]
    // SAFETY: PR_SET_TIMERSLACK takes a number and changes nothing but the calling thread's slack.
    unsafe {
        libc::prctl(libc::PR_SET_TIMERSLACK, 1_u64);
    }
}

/// When a thread gets a core on a machine that has none free.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Priority {
    /// As every other process.
    #[default]
    Normal,
    /// As every other process, in short time slices: it runs sooner after a wake-up, and not longer in all.
    ShortSlice,
    /// Before every other process.
    RealTime,
}

impl Priority {
    /// In words.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Normal => "normal",
            Self::ShortSlice => "short slices",
            Self::RealTime => "real-time",
        }
    }
}

/// Lets the calling thread run as soon as it is due, before what else is busy on this machine, as far as it may.
///
/// Without it a schedule cannot be kept on a machine whose cores the server keeps busy: a wake-up then waits for a whole
/// time slice.
pub(crate) fn take_precedence() -> Priority {
    if take_real_time() {
        Priority::RealTime
    } else if take_short_slices() {
        Priority::ShortSlice
    } else {
        Priority::Normal
    }
}

/// The shortest slice that Linux gives.
#[cfg(target_os = "linux")]
const SLICE_NS: u64 = 100_000;

/// Asks for short time slices, which anybody may have since Linux 6.12; false where that changes nothing.
fn take_short_slices() -> bool {
    #[cfg(target_os = "linux")]
    {
        // All but the slice stays: a nice value of 0 in place of a higher one needs a right, and the whole call would fail.
        let Some(mut attr) = scheduling().filter(|attr| attr.sched_policy == libc::SCHED_OTHER as u32) else {
            return false;
        };
        attr.sched_runtime = SLICE_NS;
        // SAFETY: 0 is the calling thread, and `attr` is as long as it says and lives during the call.
        let is_taken = unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attr, 0) == 0 };
        // An older kernel takes the call and leaves the slice as it was.
        is_taken && scheduling().is_some_and(|attr| attr.sched_runtime == SLICE_NS)
    }
    #[cfg(not(target_os = "linux"))]
    false
}

/// How the kernel schedules the calling thread.
#[cfg(target_os = "linux")]
fn scheduling() -> Option<libc::sched_attr> {
    // SAFETY: all bytes of a sched_attr may be zero.
    let mut attr: libc::sched_attr = unsafe { std::mem::zeroed() };
    let size = size_of::<libc::sched_attr>();
    // SAFETY: 0 is the calling thread, and `attr` has room for `size` bytes, which the kernel does not pass.
    let status = unsafe { libc::syscall(libc::SYS_sched_getattr, 0, &raw mut attr, size, 0) };
    (status == 0).then_some(attr)
}

/// The lowest real-time priority, which root and `CAP_SYS_NICE` may take. False without the right, and nothing has changed
/// then. The kernel keeps 5 % of the time for others (`sched_rt_runtime_us`) whatever the thread does.
fn take_real_time() -> bool {
    #[cfg(target_os = "linux")]
    {
        // SAFETY: all bytes of a sched_param may be zero.
        let mut param: libc::sched_param = unsafe { std::mem::zeroed() };
        param.sched_priority = 1;
        // SAFETY: 0 is the calling thread, and `param` lives during the call.
        unsafe { libc::sched_setscheduler(0, libc::SCHED_RR | libc::SCHED_RESET_ON_FORK, &raw const param) == 0 }
    }
    #[cfg(not(target_os = "linux"))]
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grows_with_work_and_not_with_sleep() {
        let before = thread_cpu_s();
        std::thread::sleep(std::time::Duration::from_millis(50));
        let slept = thread_cpu_s();
        let mut sum = 0_u64;
        while thread_cpu_s() < slept + 0.01 {
            sum = std::hint::black_box(sum + 1);
        }
        assert!(slept - before < 0.04, "sleeping cost {} s", slept - before);
    }

    #[test]
    fn a_thread_that_shares_its_core_waits_for_it() {
        // On a thread of its own, so that the test's thread keeps its cores and the file is that thread's.
        let waited = std::thread::spawn(|| {
            let queue = RunQueue::of_this_thread();
            let first = queue.wait_s()?;
            Some((first, queue.wait_s()?))
        });
        let (first, later) = waited.join().expect("no panic").expect("this kernel counts");
        assert!(0.0 <= first && first <= later, "{first} {later}");
        assert_eq!(wait_ns("12 345 6\n"), Some(345));
        assert_eq!(wait_ns("0 0 0\n"), None);
        assert_eq!(wait_ns("12"), None);
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_thread_that_asks_for_short_slices_keeps_its_nice_value() {
        // On a thread of its own, which is nicer than the test's; everybody may become nicer.
        let (had, taken, attr) = std::thread::spawn(|| {
            // SAFETY: no pointers are passed; for Linux 0 is the calling thread.
            unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, 7) };
            let had = scheduling().expect("Linux says").sched_nice;
            (had, take_short_slices(), scheduling().expect("Linux says"))
        })
        .join()
        .expect("no panic");
        assert_eq!(attr.sched_nice, had.max(7));
        assert_eq!(attr.sched_runtime == SLICE_NS, taken);
    }

    #[test]
    fn the_priority_of_a_thread_is_told() {
        // On a thread of its own: a priority stays.
        let had = std::thread::spawn(|| (take_short_slices(), take_precedence())).join().expect("no panic");
        assert!(matches!(had.1, Priority::RealTime) || (had.1 == Priority::ShortSlice) == had.0, "{had:?}");
        assert_eq!(
            [Priority::Normal, Priority::ShortSlice, Priority::RealTime].map(Priority::name),
            ["normal", "short slices", "real-time"]
        );
    }

    #[test]
    fn steal_is_the_eighth_number() {
        assert_eq!(steal_ticks("cpu  10 20 30 40 50 60 70 80 90 100\ncpu0 1 2 3 4 5 6 7 8 9 10\n"), Some(80.0));
        assert_eq!(steal_ticks("intr 1 2 3"), None);
    }
}
