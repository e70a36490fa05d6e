//! One timer per worker: to the microsecond where the system can (a timerfd), else the runtime's own, which counts in
//! milliseconds.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::{Instant, Sleep, sleep_until};

/// Further away than any run lasts.
const FAR: Duration = Duration::from_secs(10 * 365 * 86_400);

/// Fires once at the moment for which it was armed last.
#[derive(Debug)]
pub(crate) enum Timer {
    #[cfg(target_os = "linux")]
    Fine(fine::TimerFd),
    Coarse(Pin<Box<Sleep>>),
}

impl Timer {
    /// The best that the system has. To be called within a runtime.
    pub(crate) fn fine() -> Self {
        #[cfg(target_os = "linux")]
        if let Ok(timer) = fine::TimerFd::new() {
            return Self::Fine(timer);
        }
        Self::coarse()
    }

    /// The runtime's own timer.
    pub(crate) fn coarse() -> Self {
        Self::Coarse(Box::pin(sleep_until(Instant::now() + FAR)))
    }

    /// Fires at `at` instead of what was said before; `None`: not for now.
    pub(crate) fn arm(&mut self, at: Option<Instant>) {
        match self {
            #[cfg(target_os = "linux")]
            Self::Fine(timer) => {
                if let Some(at) = at {
                    timer.arm(at);
                }
            }
            Self::Coarse(sleep) => sleep.as_mut().reset(at.unwrap_or_else(|| Instant::now() + FAR)),
        }
    }

    /// Whether it has fired; may say so once too often.
    pub(crate) fn poll_fired(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        match self {
            #[cfg(target_os = "linux")]
            Self::Fine(timer) => timer.poll_fired(cx),
            Self::Coarse(sleep) => sleep.as_mut().poll(cx),
        }
    }
}

#[cfg(target_os = "linux")]
mod fine {
    use std::io;
    use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
    use std::ptr;
    use std::task::{Context, Poll};

    use tokio::io::Interest;
    use tokio::io::unix::AsyncFd;
    use tokio::time::Instant;

    /// A timerfd that the runtime watches together with its sockets.
    #[derive(Debug)]
    pub(crate) struct TimerFd {
        fd: AsyncFd<OwnedFd>,
    }

    impl TimerFd {
        pub(super) fn new() -> io::Result<Self> {
            // SAFETY: no pointers are passed.
            let fd = unsafe { libc::timerfd_create(libc::CLOCK_MONOTONIC, libc::TFD_NONBLOCK | libc::TFD_CLOEXEC) };
            if fd < 0 {
                return Err(io::Error::last_os_error());
            }
            // SAFETY: `fd` was just opened and belongs to nobody else.
            let fd = unsafe { OwnedFd::from_raw_fd(fd) };
            // SAFETY: an `OwnedFd` keeps its descriptor open as long as it lives.
            Ok(Self { fd: unsafe { AsyncFd::register_with_interest(fd, Interest::READABLE)? } })
        }

        pub(super) fn arm(&self, at: Instant) {
            // Zero would disarm it.
            let ns = at.saturating_duration_since(Instant::now()).as_nanos().max(1);
            let it_value =
                libc::timespec { tv_sec: (ns / 1_000_000_000) as libc::time_t, tv_nsec: (ns % 1_000_000_000) as _ };
            let it_interval = libc::timespec { tv_sec: 0, tv_nsec: 0 };
            let spec = libc::itimerspec { it_interval, it_value };
            // SAFETY: `spec` outlives the call, and the old value is not asked for.
            let status = unsafe { libc::timerfd_settime(self.fd.as_raw_fd(), 0, &raw const spec, ptr::null_mut()) };
            debug_assert_eq!(status, 0, "the descriptor and the times are legal");
        }

        /// Arming again empties it, so that it need not be read.
        pub(super) fn poll_fired(&self, cx: &mut Context<'_>) -> Poll<()> {
            self.fd.poll_read_ready(cx).map(|ready| {
                if let Ok(mut guard) = ready {
                    guard.clear_ready();
                }
            })
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use super::*;

    async fn fires(mut timer: Timer) {
        for wait_ms in [3, 1, 5] {
            let start = Instant::now();
            timer.arm(Some(start + Duration::from_secs(60)));
            timer.arm(Some(start + Duration::from_millis(wait_ms)));
            while start.elapsed() < Duration::from_millis(wait_ms) {
                poll_fn(|cx| timer.poll_fired(cx)).await;
            }
        }
        timer.arm(Some(Instant::now() - Duration::from_millis(1)));
        poll_fn(|cx| timer.poll_fired(cx)).await;
    }

    #[tokio::test]
    async fn a_fine_timer_fires_again_and_again() {
        fires(Timer::fine()).await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_coarse_timer_fires_again_and_again() {
        fires(Timer::coarse()).await;
    }
}
