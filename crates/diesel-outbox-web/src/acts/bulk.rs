//! Acts on all dead letters that a filter finds: confirmed after a preview, and run as jobs.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use axum::extract::{Form, State};
use diesel_outbox::admin::{AdminError, Canary, CanaryHalt, DeadLetterFilter, RedriveRate};
use serde::Deserialize;
use uuid::Uuid;

use super::required;
use crate::failure::Failure;
use crate::jobs::{Job, JobEnd};
use crate::limits::PREVIEWED_MAX;
use crate::pages::Answer;
use crate::pages::dead_letters::Asked;
use crate::state::Shared;
use crate::visit::Visit;

#[derive(Debug, Deserialize)]
pub(crate) struct Given {
    #[serde(flatten)]
    filter: Asked,
    job: String,
    /// When the preview counted, in microseconds since 1970.
    counted_at: String,
    per_second: Option<String>,
    confirm: Option<String>,
    reason: String,
}

impl Given {
    /// What the preview has counted, and nothing that has died since.
    fn limited(&self) -> Result<DeadLetterFilter, Failure> {
        let micros = self.counted_at.parse().map_err(|_| Failure::bad("The form has no time of its preview."))?;
        let counted_at = SystemTime::UNIX_EPOCH.checked_add(Duration::from_micros(micros));
        let counted_at = counted_at.ok_or_else(|| Failure::bad("The form has no time of its preview."))?;
        let filter = self.filter.filter()?;
        let before = self.filter.before().unwrap_or(counted_at);
        Ok(filter.dead_before(before.min(counted_at)))
    }

    async fn job(
        &self,
        visit: &Visit,
        shared: &Shared,
        action: &'static str,
    ) -> Result<(Job, DeadLetterFilter), Failure> {
        let id: Uuid = self.job.parse().map_err(|_| Failure::bad("The form has no id of its job."))?;
        let (reason, filter) = (required(&self.reason)?, self.limited()?);
        let (total, _) = shared.reader().group_dead_letters(&filter, PREVIEWED_MAX).await?;
        let who = (Arc::clone(&visit.access.actor), reason);
        Ok((Job::new(id, action, self.filter.in_words(), who, total), filter))
    }
}

pub(crate) async fn redrive(visit: Visit, State(shared): State<Shared>, Form(given): Form<Given>) -> Answer {
    let per_second =
        given.per_second.as_deref().unwrap_or("100").parse().map_err(|_| Failure::bad("The rate is no number."))?;
    let rate = RedriveRate::default().per_second(per_second);
    let (job, filter) = given.job(&visit, &shared, "redrive_all").await?;
    let (admin, id) = (shared.writer(&visit, &job.reason), job.id);
    shared.jobs.start(job, |job| async move {
        admin.redrive_all(&filter, rate, |done| job.set_done(done)).await.map(|_| JobEnd::Complete)
    })?;
    Ok(to_job(&visit, id))
}

pub(crate) async fn canary(visit: Visit, State(shared): State<Shared>, Form(given): Form<Given>) -> Answer {
    let (job, filter) = given.job(&visit, &shared, "redrive_canary").await?;
    let (admin, id) = (shared.writer(&visit, &job.reason), job.id);
    shared.jobs.start(job, |job| async move {
        let report = admin.redrive_canary(&filter, Canary::default(), |step| job.add_step(*step)).await?;
        Ok::<_, AdminError>(report.halt.as_ref().map_or(JobEnd::Complete, |halt| JobEnd::Halted(why(halt))))
    })?;
    Ok(to_job(&visit, id))
}

pub(crate) async fn purge(visit: Visit, State(shared): State<Shared>, Form(given): Form<Given>) -> Answer {
    if given.confirm.as_deref() != Some("yes") {
        return Err(Failure::bad("Confirm that they are to be deleted. Nothing was changed."));
    }
    let (job, filter) = given.job(&visit, &shared, "purge_all").await?;
    let (admin, id) = (shared.writer(&visit, &job.reason), job.id);
    shared.jobs.start(job, |job| async move {
        admin.purge_all(&filter, |done| job.set_done(done)).await.map(|_| JobEnd::Complete)
    })?;
    Ok(to_job(&visit, id))
}

#[derive(Debug, Deserialize)]
pub(crate) struct StopGiven {
    id: String,
    reason: String,
}

pub(crate) async fn stop(visit: Visit, State(shared): State<Shared>, Form(given): Form<StopGiven>) -> Answer {
    let job = given.id.parse().ok().and_then(|id| shared.jobs.find(id));
    let job = job.ok_or_else(|| Failure::not_found("This process knows no such bulk act."))?;
    let admin = shared.writer(&visit, required(&given.reason)?);
    // Stopped first: it should not go on because the audit cannot be written.
    if !job.stop(&visit.access.actor) {
        return Err(Failure::conflict("The act has ended already."));
    }
    admin.record_stop(job.action).await?;
    Ok(visit.go(visit.to("/job").with("id", job.id.to_string()), "stopped"))
}

fn to_job(visit: &Visit, id: Uuid) -> axum::response::Response {
    use axum::response::{IntoResponse, Redirect};
    Redirect::to(&visit.to("/job").with("id", id.to_string()).to_string()).into_response()
}

fn why(halt: &CanaryHalt) -> String {
    match halt {
        CanaryHalt::TimedOut { paused } if !paused.is_empty() => {
            format!("some were not sent in time, and these topics are paused: {}", paused.join(", "))
        }
        CanaryHalt::TimedOut { .. } => "some were neither sent nor dead-lettered again in time".to_owned(),
        _ => "some were dead-lettered again".to_owned(),
    }
}
