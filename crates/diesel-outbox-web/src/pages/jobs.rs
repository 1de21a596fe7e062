use axum::extract::{Query, State};
use maud::{Markup, html};
use serde::Deserialize;

use super::Answer;
use super::layout::{Refresh, page};
use super::parts::act::{self, Kind};
use super::parts::time::duration;
use crate::access::Right;
use crate::failure::Failure;
use crate::jobs::{Job, JobEnd};
use crate::state::Shared;
use crate::visit::Visit;

#[derive(Debug, Deserialize)]
pub(crate) struct Asked {
    id: String,
    /// Whether it is to be stopped: then the page stays as it is while somebody writes the reason.
    stop: Option<String>,
}

/// The bulk acts of this process.
pub(crate) async fn list(visit: Visit, State(shared): State<Shared>) -> Answer {
    let jobs = shared.jobs.all();
    let content = html! {
        p.quiet { "Those of this process, since it started. The audit has all of them." }
        @if jobs.is_empty() { p.quiet { "None." } } @else {
            table.stack {
                thead { tr { th { "Act" } th { "On" } th { "By" } th { "Begun" } th.number { "Done" } th { "State" } } }
                tbody {
                    @for job in &jobs {
                        tr {
                            td data-label="Act" { a href=(visit.to("/job").with("id", job.id.to_string())) { (job.action) } }
                            td data-label="On" { (job.subject) }
                            td data-label="By" { (job.actor) }
                            td data-label="Begun" { (duration(job.began.elapsed())) " ago" }
                            td.number data-label="Done" { (job.done()) }
                            td data-label="State" { (state(job)) }
                        }
                    }
                }
            }
        }
    };
    Ok(page(&visit, "Bulk acts", Refresh::ByEvents, content))
}

pub(crate) async fn show(visit: Visit, State(shared): State<Shared>, asked: Query<Asked>) -> Answer {
    let job = asked.id.parse().ok().and_then(|id| shared.jobs.find(id)).ok_or_else(|| {
        Failure::not_found(
            "This process knows no such bulk act. If it was started before a restart, the audit says how far it came.",
        )
    })?;
    let runs = job.end().is_none();
    let (done, total) = (job.done().to_string(), job.total.count.max(job.done()).to_string());
    let content = html! {
        p { (job.action) ": " (job.subject) }
        p { label.wide { "Progress" progress value=(done) max=(total) { (done) } } }
        p { strong { (done) } " of " (job.total) " after " (duration(job.took())) ": " (state(&job)) }
        @if runs && visit.may(Right::StopJobs) { (stop(&visit, &job.id.to_string(), asked.stop.is_some())) }
        (steps(&job))
        p.quiet { "Begun by " (job.actor) ": " (job.reason) }
    };
    let refresh = if runs && asked.stop.is_none() { Refresh::Always } else { Refresh::Never };
    Ok(page(&visit, "Bulk act", refresh, content))
}

fn stop(visit: &Visit, id: &str, is_asked: bool) -> Markup {
    html! {
        @if is_asked {
            form.filter method="post" action=(visit.to("/job/stop")) {
                (act::hidden(&[("id", id)]))
                (act::reason())
                (act::button("Stop", Kind::Usual))
            }
        } @else { p { a href=(visit.to("/job").with("id", id).with("stop", "yes")) { "Stop .." } } }
    }
}

fn state(job: &Job) -> Markup {
    match job.end() {
        None => html! { "running" },
        Some(JobEnd::Complete) => html! { span.good { "complete" } },
        Some(JobEnd::Halted(why)) => html! { span.bad { "halted: " (why) } },
        Some(JobEnd::Stopped(by)) => html! { span.warn { "stopped by " (by) } },
        Some(JobEnd::Failed(error)) => html! { span.bad { "failed: " (error) } },
    }
}

/// The steps of a canary.
fn steps(job: &Job) -> Markup {
    let steps = job.steps();
    html! {
        @if !steps.is_empty() {
            table {
                thead { tr { th { "Step" } th.number { "Redriven" } th.number { "Sent" } th.number { "Dead again" } th.number { "Pending" } } }
                tbody {
                    @for (at, step) in steps.iter().enumerate() {
                        tr { td { (at + 1) } td.number { (step.redriven) } td.number { (step.sent) } td.number { (step.dead_again) } td.number { (step.pending) } }
                    }
                }
            }
        }
    }
}
