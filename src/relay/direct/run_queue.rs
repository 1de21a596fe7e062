//! How long a thread waits for a processor, on systems that report it (Linux).

use std::cell::Cell;
use std::time::Duration;

/// How long a thread has waited since it started, and how often it got a processor.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct RunQueueStats {
    nanos: u64,
    turns: u64,
}

impl RunQueueStats {
    /// `None` if the system reports nothing.
    fn read() -> Option<Self> {
        Self::parse(&std::fs::read_to_string("/proc/thread-self/schedstat").ok()?)
    }

    /// Time on a processor, time spent waiting for one, turns: <https://docs.kernel.org/scheduler/sched-stats.html>.
    fn parse(text: &str) -> Option<Self> {
        let mut fields = text.split_ascii_whitespace().skip(1).map(str::parse);
        let (nanos, turns) = (fields.next()?.ok()?, fields.next()?.ok()?);
        (turns > 0).then_some(Self { nanos, turns })
    }

    /// The average wait per turn since `before`.
    fn since(self, before: Self) -> Option<Duration> {
        let turns = self.turns.checked_sub(before.turns).filter(|turns| *turns > 0)?;
        Some(Duration::from_nanos(self.nanos.saturating_sub(before.nanos) / turns))
    }
}

thread_local! {
    static BEFORE: Cell<Option<RunQueueStats>> = const { Cell::new(None) };
}

/// How long this thread waited on average for a processor, since the last call. `None` on the first call, and if the
/// system does not report it. Takes some microseconds.
pub(super) fn run_queue_wait() -> Option<Duration> {
    let now = RunQueueStats::read();
    let before = BEFORE.replace(now);
    now?.since(before?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_is_that_of_the_turns_since_the_last() {
        let [first, second] = ["917 1000 10\n", "2044 7000 13\n"].map(|text| RunQueueStats::parse(text).unwrap());
        assert_eq!(second.since(first), Some(Duration::from_nanos(2_000)));
        assert_eq!(second.since(second), None, "it had no turn");
        assert_eq!(first.since(second), None, "another thread's");
    }

    #[test]
    fn a_system_that_counts_nothing_is_no_answer() {
        for text in ["", "0 0 0\n", "1 2", "a b c"] {
            assert_eq!(RunQueueStats::parse(text), None, "{text}");
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_thread_waits_if_there_are_more_busy_ones_than_processors() {
        use std::sync::atomic::{AtomicBool, Ordering};

        let (ends, busy) = (AtomicBool::new(false), std::thread::available_parallelism().unwrap().get() * 2);
        std::thread::scope(|scope| {
            for _ in 0..busy {
                scope.spawn(|| {
                    while !ends.load(Ordering::Relaxed) {
                        std::hint::spin_loop();
                    }
                });
            }
            run_queue_wait();
            let waited = (0..100_000_000_u64).find_map(|turn| {
                std::hint::black_box(turn);
                run_queue_wait().filter(|waited| *waited > Duration::from_micros(100))
            });
            ends.store(true, Ordering::Relaxed);
            // The kernel of a container may report nothing.
            assert!(waited.is_some() || RunQueueStats::read().is_none());
        });
    }
}
