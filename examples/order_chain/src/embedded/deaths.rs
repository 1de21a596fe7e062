//! Requests, handlers and rounds that die at a step, as they do when their process is killed there.

use std::collections::BTreeMap;
use std::panic::resume_unwind;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fastrand::Rng;
use futures_util::FutureExt;
use tokio::task::JoinHandle;

use crate::steps::{Step, Steps};

/// Decides who dies where. A clone is the same.
#[derive(Debug, Clone)]
pub struct Deaths(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    rng: Rng,
    /// One of so many dies; nobody if it is 0.
    one_of: u32,
    /// Whoever reaches it next dies.
    next: Option<Step>,
    /// By step.
    counts: BTreeMap<String, u64>,
}

/// What a death unwinds with. Nothing is printed for it.
struct Died;

/// Waits for a task that may die at a step. Another panic in it is a defect, and goes on here.
pub(crate) async fn join<T>(task: JoinHandle<T>) -> Option<T> {
    match task.await {
        Ok(done) => Some(done),
        Err(error) => match error.try_into_panic() {
            Ok(panic) if panic.is::<Died>() => None,
            Ok(panic) => resume_unwind(panic),
            // It was aborted.
            Err(_) => None,
        },
    }
}

impl Deaths {
    /// Nobody dies before [`begin`](Self::begin).
    pub fn new(seed: u64) -> Self {
        Self(Arc::new(Mutex::new(State { rng: Rng::with_seed(seed), one_of: 0, next: None, counts: BTreeMap::new() })))
    }

    /// From now on one of so many dies at each step; nobody if it is 0.
    pub fn begin(&self, one_of: u32) {
        self.state().one_of = one_of;
    }

    /// Whoever reaches this step next dies there.
    pub fn kill_at(&self, step: Step) {
        self.state().next = Some(step);
    }

    /// How many died, by step.
    pub fn counts(&self) -> BTreeMap<String, u64> {
        self.state().counts.clone()
    }

    /// What happens at the steps.
    pub fn steps(&self) -> Steps {
        let deaths = self.clone();
        Steps::with(move |step| {
            let dies = deaths.dies_at(step);
            // Dropping what runs rolls its transaction back and sends nothing more, which is all that others can see of a kill.
            async move {
                if dies {
                    resume_unwind(Box::new(Died));
                }
            }
            .boxed()
        })
    }

    fn dies_at(&self, step: Step) -> bool {
        let mut state = self.state();
        let (one_of, is_next) = (state.one_of, state.next == Some(step));
        let dies = is_next || (one_of > 0 && state.rng.u32(..one_of) == 0);
        if is_next {
            state.next = None;
        }
        if dies {
            *state.counts.entry(format!("{step:?}")).or_default() += 1;
        }
        dies
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
