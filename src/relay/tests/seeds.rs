//! Seeded schedules, on all processors.
//!
//! `OUTBOX_SEED=n` replays one seed, `OUTBOX_SEEDS=n` runs that many.

use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

/// Runs each seed on virtual time; the first that fails is named, and ends it.
pub(in crate::relay) fn each<F: Future<Output = ()>>(seeds: u64, schedule: impl Fn(u64) -> F + Sync) {
    let Range { start, end } = wanted(seeds);
    let next = AtomicU64::new(start);
    let work = || {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= end {
                return;
            }
            let runtime =
                tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
            if let Err(panic) = catch_unwind(AssertUnwindSafe(|| runtime.block_on(schedule(seed)))) {
                eprintln!("replay with OUTBOX_SEED={seed}");
                next.store(end, Ordering::Relaxed);
                resume_unwind(panic);
            }
        }
    };
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(work);
        }
    });
}

fn wanted(seeds: u64) -> Range<u64> {
    let number = |name| std::env::var(name).ok().map(|text| text.parse().unwrap());
    match number("OUTBOX_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("OUTBOX_SEEDS").unwrap_or(seeds),
    }
}
