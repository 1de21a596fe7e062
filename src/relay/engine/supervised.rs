//! Restarts tasks that panic: they run third-party transports, stores and retry policies.

use std::sync::Arc;

use tokio::task::JoinSet;
use tokio::time::sleep;

use super::stop::{Stage, Stop};
use crate::limits::TASK_RESTART_DELAY;
use crate::metrics;

/// Runs `task` to its end and restarts it after a panic. The rows it had in hand are left to the sweeper.
///
/// Each run is a task of its own and is dropped with this one.
pub(crate) async fn supervised<T, F>(name: &'static str, stop: Arc<Stop>, shared: Arc<T>, task: impl Fn(Arc<T>) -> F)
where
    F: Future<Output = ()> + Send + 'static,
{
    loop {
        let mut run = JoinSet::new();
        run.spawn(task(Arc::clone(&shared)));
        match run.join_next().await {
            Some(Err(error)) if error.is_panic() => {
                tracing::error!(task = name, %error, "a task of the relay panicked: restarting it");
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
