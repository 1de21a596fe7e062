use std::time::SystemTime;

use diesel_outbox_verify::{Compared, Finding, Partition, Report};
use serde::Serialize;

use crate::output::{Document, Page, Row, instant, optional, plural};

/// The report, as it is in JSON.
#[derive(Debug, Serialize)]
#[serde(transparent)]
pub(super) struct Verified {
    pub(super) report: Report,
}

impl Document for Verified {
    fn show(&self, page: &mut Page) {
        let report = &self.report;
        page.field("topic", &report.topic);
        page.field("enqueued", period(report.since, report.until));
        page.field("compared", compared(&report.compared));
        page.field("verdict", verdict(report));
        for (verdict, count) in report.counts.by_verdict() {
            if count.count > 0 || count.more {
                page.field(verdict, count);
            }
        }
        if !report.compared.partitions.is_empty() {
            page.gap();
            page.rows(&report.compared.partitions.iter().map(PartitionRow).collect::<Vec<_>>());
        }
        if !report.findings.is_empty() {
            page.gap();
            page.rows(&report.findings.iter().map(FindingRow).collect::<Vec<_>>());
        }
        for doubt in &report.cannot_tell {
            page.gap();
            page.line(&format!("cannot tell: {doubt}"));
        }
    }
}

fn period(since: Option<SystemTime>, until: SystemTime) -> String {
    let before = instant(until);
    since.map_or_else(|| format!("before {before}"), |since| format!("from {} on, before {before}", instant(since)))
}

fn compared(compared: &Compared) -> String {
    let Compared { sent, dead_letters, live, records, matched, .. } = compared;
    let count = |count: u64, what| plural(usize::try_from(count).unwrap_or(usize::MAX), false, what);
    format!(
        "{sent} sent, {}, {live} live, {}; {matched} of them match",
        count(*dead_letters, "dead letter"),
        count(*records, "record")
    )
}

fn verdict(report: &Report) -> &'static str {
    match (report.has_found(), report.is_clean()) {
        (true, _) => "something is wrong",
        (false, true) => "clean",
        (false, false) => "cannot tell",
    }
}

#[derive(Serialize)]
#[serde(transparent)]
struct PartitionRow<'a>(&'a Partition);

impl Row for PartitionRow<'_> {
    const HEADINGS: &'static [&'static str] = &["partition", "from offset", "before offset"];

    fn cells(&self) -> Vec<String> {
        vec![self.0.name.clone(), self.0.begin.to_string(), self.0.end.to_string()]
    }
}

#[derive(Serialize)]
#[serde(transparent)]
struct FindingRow<'a>(&'a Finding);

impl Row for FindingRow<'_> {
    const HEADINGS: &'static [&'static str] = &["verdict", "message", "what"];

    fn cells(&self) -> Vec<String> {
        vec![self.0.verdict().to_owned(), optional(self.0.message_id()), self.0.to_string()]
    }
}
