//! CPU time of the calling thread, so that a load can tell what it took from the machine under measurement.

/// CPU seconds that the calling thread has used since it started; 0 where the clock is missing.
pub(crate) fn thread_cpu_s() -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid, exclusively borrowed timespec for the whole call.
    let status = unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    if status == 0 { time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9 } else { 0.0 }
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
}
