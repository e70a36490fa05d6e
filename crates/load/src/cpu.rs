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

/// Lets the calling thread's timers fire when they are due: by default Linux may delay them by 50 us to join wake-ups.
pub(crate) fn refuse_timer_slack() {
    #[cfg(target_os = "linux")]
    // SAFETY: PR_SET_TIMERSLACK takes a number and changes nothing but the calling thread's slack.
    unsafe {
        libc::prctl(libc::PR_SET_TIMERSLACK, 1_u64);
    }
}

/// Lets the calling thread run as soon as it is due, before what else is busy on this machine: the lowest real-time priority,
/// which root and `CAP_SYS_NICE` may take. False without the right, and nothing has changed then.
///
/// Without it a schedule cannot be kept on a machine whose cores the server keeps busy: a wake-up then waits for a whole
/// time slice. The kernel keeps 5 % of the time for others (`sched_rt_runtime_us`) whatever the thread does.
pub(crate) fn take_precedence() -> bool {
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
    fn steal_is_the_eighth_number() {
        assert_eq!(steal_ticks("cpu  10 20 30 40 50 60 70 80 90 100\ncpu0 1 2 3 4 5 6 7 8 9 10\n"), Some(80.0));
        assert_eq!(steal_ticks("intr 1 2 3"), None);
    }
}
