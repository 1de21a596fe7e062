//! Bulk acts in the background: how far they are, and how they are stopped.
//!
//! A job lives in this process alone. If it dies, each transaction of the act is done or not, and the audit's entry, which each of them
//! has counted up, says how far it came.

use std::collections::VecDeque;
use std::future::Future;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use diesel_outbox::admin::{AdminError, BoundedCount, CanaryStep};
use tokio::sync::Notify;
use tokio::time::Instant;
use uuid::Uuid;

use crate::failure::Failure;
use crate::limits::{JOBS_KEPT_MAX, JOBS_RUNNING_MAX};

/// A bulk act.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) id: Uuid,
    /// The method of `Admin`.
    pub(crate) action: &'static str,
    /// What it is on, in words.
    pub(crate) subject: String,
    pub(crate) actor: Arc<str>,
    pub(crate) reason: String,
    /// What the preview has counted.
    pub(crate) total: BoundedCount,
    pub(crate) began: Instant,
    done: AtomicUsize,
    steps: Mutex<Vec<CanaryStep>>,
    end: Mutex<Option<(JobEnd, Instant)>>,
    stop: Notify,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum JobEnd {
    Complete,
    Halted(String),
    /// By whom.
    Stopped(Arc<str>),
    Failed(String),
}

impl Job {
    pub(crate) fn new(
        id: Uuid,
        action: &'static str,
        subject: String,
        (actor, reason): (Arc<str>, &str),
        total: BoundedCount,
    ) -> Self {
        Self {
            id,
            action,
            subject,
            actor,
            reason: reason.to_owned(),
            total,
            began: Instant::now(),
            done: AtomicUsize::new(0),
            steps: Mutex::default(),
            end: Mutex::default(),
            stop: Notify::new(),
        }
    }

    pub(crate) fn done(&self) -> usize {
        self.done.load(Relaxed)
    }

    pub(crate) fn set_done(&self, done: usize) {
        self.done.store(done, Relaxed);
    }

    pub(crate) fn steps(&self) -> Vec<CanaryStep> {
        self.steps.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn add_step(&self, step: CanaryStep) {
        self.done.fetch_add(step.redriven, Relaxed);
        self.steps.lock().unwrap_or_else(PoisonError::into_inner).push(step);
    }

    /// How it ended; `None` while it runs.
    pub(crate) fn end(&self) -> Option<JobEnd> {
        self.end.lock().unwrap_or_else(PoisonError::into_inner).as_ref().map(|(end, _)| end.clone())
    }

    pub(crate) fn took(&self) -> Duration {
        let end = self.end.lock().unwrap_or_else(PoisonError::into_inner);
        end.as_ref().map_or_else(Instant::now, |(_, at)| *at) - self.began
    }

    /// Ends it, unless it has ended.
    fn finish(&self, end: JobEnd) -> bool {
        let mut ended = self.end.lock().unwrap_or_else(PoisonError::into_inner);
        let is_first = ended.is_none();
        ended.get_or_insert((end, Instant::now()));
        is_first
    }

    /// Stops it, unless it has ended: drops its future between two transactions, or in the middle of one, which the database then does or
    /// does not do as a whole. Returns whether it did.
    pub(crate) fn stop(&self, by: &Arc<str>) -> bool {
        let is_first = self.finish(JobEnd::Stopped(Arc::clone(by)));
        self.stop.notify_one();
        is_first
    }
}

/// The latest jobs.
#[derive(Debug, Default)]
pub(crate) struct Jobs {
    jobs: Mutex<VecDeque<Arc<Job>>>,
}

impl Jobs {
    /// The latest first.
    pub(crate) fn all(&self) -> Vec<Arc<Job>> {
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner).iter().rev().cloned().collect()
    }

    pub(crate) fn find(&self, id: Uuid) -> Option<Arc<Job>> {
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner).iter().find(|job| job.id == id).cloned()
    }

    /// Runs an act as a job, unless there is one of that id already: a form that is sent twice acts once.
    pub(crate) fn start<F>(&self, job: Job, act: impl FnOnce(Arc<Job>) -> F) -> Result<(), Failure>
    where
        F: Future<Output = Result<JobEnd, AdminError>> + Send + 'static,
    {
        let mut jobs = self.jobs.lock().unwrap_or_else(PoisonError::into_inner);
        if jobs.iter().any(|known| known.id == job.id) {
            return Ok(());
        }
        if jobs.iter().filter(|job| job.end().is_none()).count() >= JOBS_RUNNING_MAX {
            return Err(Failure::conflict(format!(
                "{JOBS_RUNNING_MAX} bulk acts are running. Wait for one, or stop it. Nothing was changed."
            )));
        }
        let job = Arc::new(job);
        jobs.push_back(Arc::clone(&job));
        if jobs.len() > JOBS_KEPT_MAX
            && let Some(oldest) = jobs.iter().position(|job| job.end().is_some())
        {
            jobs.remove(oldest);
        }
        drop(jobs);
        let work = act(Arc::clone(&job));
        tokio::spawn(async move {
            let end = tokio::select! {
                end = work => end,
                () = job.stop.notified() => return,
            };
            if let Err(error) = &end {
                tracing::error!(%error, action = job.action, done = job.done(), "a bulk act of the dashboard failed");
            }
            job.finish(end.unwrap_or_else(|error| JobEnd::Failed(error.to_string())));
        });
        Ok(())
    }
}
