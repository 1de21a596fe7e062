//! Which tasks of a relay fail: those that panic again and again, and a poller that is stuck.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::clock::BootInstant;
use crate::limits::{POLLER_STUCK_AFTER, TASK_PANICS_MAX};

const POLLER: &str = "poller";

#[derive(Debug, Default)]
pub(crate) struct TaskHealth(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// How many tasks of each name panic again and again.
    panicking: BTreeMap<&'static str, usize>,
    /// When the poller began its last turn.
    poller_at: Option<BootInstant>,
}

impl TaskHealth {
    /// The poller begins a turn.
    pub(crate) fn note_poll(&self, now: BootInstant) {
        self.state().poller_at = Some(now);
    }

    /// The names of the tasks that fail. A poller sleeps for `poll_interval` at most.
    pub(crate) fn failing(&self, now: BootInstant, poll_interval: Duration) -> Vec<&'static str> {
        let state = self.state();
        let is_stuck =
            state.poller_at.is_some_and(|at| at.until(now) > poll_interval.saturating_add(POLLER_STUCK_AFTER));
        let stuck = (is_stuck && !state.panicking.contains_key(POLLER)).then_some(POLLER);
        state.panicking.keys().copied().chain(stuck).collect()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The panics in a row of one task.
#[derive(Debug)]
pub(crate) struct PanicStreak {
    tasks: Arc<TaskHealth>,
    task: &'static str,
    panics: u32,
}

impl PanicStreak {
    pub(crate) fn new(tasks: &Arc<TaskHealth>, task: &'static str) -> Self {
        Self { tasks: Arc::clone(tasks), task, panics: 0 }
    }

    pub(crate) fn has_begun(&self) -> bool {
        self.panics > 0
    }

    pub(crate) fn note_panic(&mut self) {
        self.panics = self.panics.saturating_add(1);
        if self.panics == TASK_PANICS_MAX {
            *self.tasks.state().panicking.entry(self.task).or_default() += 1;
        }
    }

    /// The task has run long enough.
    pub(crate) fn end(&mut self) {
        if std::mem::take(&mut self.panics) < TASK_PANICS_MAX {
            return;
        }
        let mut state = self.tasks.state();
        let Some(count) = state.panicking.get_mut(self.task) else { return };
        *count = count.saturating_sub(1);
        if *count == 0 {
            state.panicking.remove(self.task);
        }
    }
}

impl Drop for PanicStreak {
    fn drop(&mut self) {
        self.end();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: BootInstant = BootInstant::from_boot(Duration::from_secs(1_000));
    const INTERVAL: Duration = Duration::from_secs(1);

    #[test]
    fn a_task_fails_while_one_of_its_name_panics_again_and_again() {
        let tasks = Arc::default();
        let mut streaks = [PanicStreak::new(&tasks, "sweeper"), PanicStreak::new(&tasks, "sweeper")];
        for _ in 1..TASK_PANICS_MAX {
            streaks.iter_mut().for_each(PanicStreak::note_panic);
        }
        assert_eq!(tasks.failing(NOW, INTERVAL), [""; 0]);
        streaks.iter_mut().for_each(PanicStreak::note_panic);
        streaks[0].note_panic();
        assert_eq!(tasks.failing(NOW, INTERVAL), ["sweeper"]);
        streaks[0].end();
        assert_eq!(tasks.failing(NOW, INTERVAL), ["sweeper"], "the other still does");
        drop(streaks);
        assert_eq!(tasks.failing(NOW, INTERVAL), [""; 0]);
    }

    #[test]
    fn a_poller_is_stuck_after_its_interval_and_its_time_outs() {
        let tasks = TaskHealth::default();
        assert_eq!(tasks.failing(NOW, INTERVAL), [""; 0], "it has not begun");
        tasks.note_poll(NOW);
        let patience = INTERVAL + POLLER_STUCK_AFTER;
        assert_eq!(tasks.failing(NOW + patience, INTERVAL), [""; 0]);
        assert_eq!(tasks.failing(NOW + patience + Duration::from_millis(1), INTERVAL), [POLLER]);
    }
}
