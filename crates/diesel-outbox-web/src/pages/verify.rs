use axum::extract::{Query, State};
use maud::{Markup, html};
use serde::Deserialize;
use serde_json::Value;

use super::Answer;
use super::layout::{Refresh, page};
use super::parts::message_link;
use super::parts::time::instant;
use crate::failure::Failure;
use crate::state::Shared;
use crate::verify::{Outcome, Report};
use crate::visit::Visit;

#[derive(Debug, Deserialize)]
pub(crate) struct Asked {
    id: String,
}

/// The reports that the application has handed over.
pub(crate) async fn list(visit: Visit, State(shared): State<Shared>) -> Answer {
    let (reports, now) = (shared.reports.all(), shared.reader().now().await?);
    let content = html! {
        p.quiet { "Comparisons of topics with the tables, as the application hands them to this dashboard: the latest, since it started." }
        @if reports.is_empty() { p.quiet { "None yet." } } @else {
            table.stack {
                thead { tr { th { "Topic" } th { "Compared until" } th { "Result" } th { "Found" } } }
                tbody {
                    @for report in &reports {
                        tr {
                            td data-label="Topic" { a href=(visit.to("/verify/report").with("id", report.id.to_string())) { (report.topic) } }
                            td data-label="Compared until" { (instant(report.until(), now)) }
                            td data-label="Result" { (outcome(report)) }
                            td data-label="Found" { (found(report)) }
                        }
                    }
                }
            }
        }
    };
    Ok(page(&visit, "Verify", Refresh::ByEvents, content))
}

pub(crate) async fn show(visit: Visit, State(shared): State<Shared>, asked: Query<Asked>) -> Answer {
    let report = asked.id.parse().ok().and_then(|id| shared.reports.find(id));
    let report = report.ok_or_else(|| Failure::not_found("There is no such report; only the latest are kept."))?;
    let now = shared.reader().now().await?;
    let content = html! {
        p { "The topic " code { (report.topic) } ", compared until " (instant(report.until(), now)) ": " (outcome(&report)) "." }
        table {
            thead { tr { th { "Verdict" } th.number { "Messages" } } }
            tbody { @for (verdict, count) in &report.counts { tr { td { (verdict) } td.number { (count) } } } }
        }
        @if !report.findings.is_empty() {
            h2 { "The first of each verdict" }
            table.stack {
                thead { tr { th { "Verdict" } th { "Message" } th { "Where" } } }
                tbody { @for finding in &report.findings { (self::finding(&visit, finding)) } }
            }
        }
        @if !report.cannot_tell.is_empty() {
            h2 { "What cannot be told" }
            ul { @for doubt in &report.cannot_tell { li.mono { (doubt) } } }
        }
    };
    Ok(page(&visit, "Verify report", Refresh::Never, content))
}

fn outcome(report: &Report) -> Markup {
    match report.outcome() {
        Outcome::Clean => html! { span.good { "clean" } },
        Outcome::Found => html! { span.bad { "something is wrong" } },
        Outcome::CannotTell => html! { span.warn { "nothing found, but not everything can be told" } },
    }
}

fn found(report: &Report) -> String {
    let found = report.counts.iter().filter(|(_, count)| count.count > 0 || count.more);
    let found: Vec<String> = found.map(|(verdict, count)| format!("{count} {verdict}")).collect();
    if found.is_empty() { "nothing".to_owned() } else { found.join(", ") }
}

fn finding(visit: &Visit, finding: &Value) -> Markup {
    let id = finding["row"]["message_id"].as_str().or(finding["message_id"].as_str());
    let mut place = finding.clone();
    if let Some(fields) = place.as_object_mut() {
        fields.remove("verdict");
    }
    html! {
        tr {
            td data-label="Verdict" { (finding["verdict"].as_str().unwrap_or("-")) }
            td data-label="Message" { @if let Some(id) = id { (message_link(visit, id, None)) } }
            td.mono data-label="Where" { (place) }
        }
    }
}
