//! Seeded schedules, on all processors.
//!
//! `OUTBOX_SEED=n` replays one seed, `OUTBOX_SEEDS=n` runs that many.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind, set_hook, take_hook};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Once};
use std::thread;

use crate::relay::engine::supervised::{Supervision, supervised};

/// How often one seed is replayed, unless it fails before: `select!` branches and hash map orders differ each time.
/// This many finds what happens once in a hundred runs, and takes half a minute.
const REPLAYS: u64 = 400;

thread_local! {
    /// Panics of this thread so far, caught or not.
    static PANICS: Cell<u64> = const { Cell::new(0) };
}

/// Runs each seed on virtual time. Stops at the first that fails, and names it.
pub(in crate::relay) fn each<F: Future<Output = ()>>(seeds: u64, schedule: impl Fn(u64) -> F + Sync) {
    count_panics();
    let (one, runs) = wanted(seeds);
    let next = AtomicU64::new(0);
    let work = || {
        loop {
            let run = next.fetch_add(1, Ordering::Relaxed);
            if run >= runs {
                return;
            }
            let seed = one.unwrap_or(run);
            if let Err(panic) = run_alone(|| schedule(seed)) {
                eprintln!("replay with OUTBOX_SEED={seed}");
                next.store(runs, Ordering::Relaxed);
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

/// Fails also if only a task panicked: its supervisor restarts it, so nothing else would show it.
fn run_alone<F: Future<Output = ()>>(schedule: impl FnOnce() -> F) -> thread::Result<()> {
    let before = PANICS.get();
    // All its tasks run on this thread, and so do their panics.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    let ended = catch_unwind(AssertUnwindSafe(|| runtime.block_on(schedule())));
    // Tasks that still run end here.
    drop(runtime);
    ended?;
    if PANICS.get() > before {
        eprintln!("a task panicked and was begun anew: its message is above");
        return Err(Box::new("a task panicked"));
    }
    Ok(())
}

fn count_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = take_hook();
        set_hook(Box::new(move |panic| {
            // A thread that is ending has no counter any more.
            let _ = PANICS.try_with(|panics| panics.set(panics.get() + 1));
            before(panic);
        }));
    });
}

/// The requested seed, if any, and the number of runs.
fn wanted(seeds: u64) -> (Option<u64>, u64) {
    let number = |name| std::env::var(name).ok().map(|text| text.parse().unwrap());
    match number("OUTBOX_SEED") {
        Some(seed) => (Some(seed), REPLAYS),
        None => (None, number("OUTBOX_SEEDS").unwrap_or(seeds)),
    }
}

#[test]
fn a_seed_fails_if_a_task_panicked_and_was_restarted() {
    let schedule = |panics: u64| async move {
        let left = Arc::new(AtomicU64::new(panics));
        let task = |left: Arc<AtomicU64>| async move {
            let is_to_panic = left.swap(0, Ordering::Relaxed) > 0;
            assert!(!is_to_panic, "once");
        };
        supervised("task", Supervision::default(), Arc::clone(&left), task).await;
        assert_eq!(left.load(Ordering::Relaxed), 0, "the task was restarted and completed");
    };
    each(1, |_| schedule(0));
    assert_eq!(run_alone(|| schedule(1)).unwrap_err().downcast_ref(), Some(&"a task panicked"));
    assert!(catch_unwind(|| each(1, |_| schedule(1))).is_err());
}
