//! Restarts tasks that panic: they run transports, retry policies, drivers and pools that are not ours.

use std::sync::Arc;

use tokio::task::JoinSet;
use tokio::time::sleep;

use super::stop::{Stage, Stop};
use super::task_health::{PanicStreak, TaskHealth};
use crate::events::log_event;
use crate::limits::{TASK_RECOVERED_AFTER, TASK_RESTART_DELAY};
use crate::metrics;

/// What ends a task, and where its panics are noted.
#[derive(Debug, Clone, Default)]
pub(crate) struct Supervision {
    pub(crate) stop: Arc<Stop>,
    pub(crate) task_health: Arc<TaskHealth>,
}

/// Runs `task` to its end and restarts it after a panic. The rows it had in hand are left to the sweeper.
///
/// Each run is a task of its own and is dropped with this one.
pub(crate) async fn supervised<T, F>(
    name: &'static str,
    supervision: Supervision,
    shared: Arc<T>,
    task: impl Fn(Arc<T>) -> F,
) where
    F: Future<Output = ()> + Send + 'static,
{
    let Supervision { stop, task_health } = supervision;
    let mut panics = PanicStreak::new(&task_health, name);
    loop {
        let mut run = JoinSet::new();
        run.spawn(task(Arc::clone(&shared)));
        let ended = tokio::select! {
            ended = run.join_next() => ended,
            () = sleep(TASK_RECOVERED_AFTER), if panics.has_begun() => {
                panics.end();
                run.join_next().await
            }
        };
        match ended {
            Some(Err(error)) if error.is_panic() => {
                log_event!(TASK_PANICKED, task = name, %error);
                panics.note_panic();
                ::metrics::counter!(metrics::TASK_PANICKED, "task" => name).increment(1);
            }
            _ => return,
        }
        tokio::select! {
            () = sleep(TASK_RESTART_DELAY) => {}
            () = stop.reached(Stage::Draining) => {}
        }
    }
}
