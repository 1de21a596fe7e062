use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use uuid::Uuid;

use crate::limits::VERIFY_REPORTS_MAX;

/// Reports of `diesel-outbox-verify` for the dashboard to show: the latest 50.
///
/// A cheap handle: keep a clone where your application verifies a topic, and push each report.
///
/// ```
/// # use diesel_outbox::store::MemoryStore;
/// # use diesel_outbox::{Outbox, Topic};
/// use diesel_outbox_web::{Access, Dashboard, Rights, VerifyReports};
/// use serde_json::json;
///
/// # let outbox = Outbox::builder().topic(Topic::new("orders")).build()?;
/// # let access = |_: &axum::http::request::Parts| Some(Access::new("ann", Rights::read_only()));
/// let reports = VerifyReports::default();
/// let dashboard = Dashboard::new(&outbox, MemoryStore::new(), access).verify_reports(&reports);
/// # let report = json!({
/// #     "topic": "orders", "until": "2026-11-26T08:00:00Z", "counts": { "lost": { "count": 1, "more": false } },
/// #     "findings": [{ "verdict": "lost" }], "cannot_tell": [],
/// # });
/// reports.push(&report)?; // from diesel-outbox-verify
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Default)]
pub struct VerifyReports(Arc<Mutex<VecDeque<Arc<Report>>>>);

/// A report as JSON.
#[derive(Debug, Deserialize)]
pub(crate) struct Report {
    #[serde(skip, default = "Uuid::now_v7")]
    pub(crate) id: Uuid,
    pub(crate) topic: String,
    until: Timestamp,
    pub(crate) counts: BTreeMap<String, Count>,
    #[serde(default)]
    pub(crate) findings: Vec<Value>,
    #[serde(default)]
    pub(crate) cannot_tell: Vec<Value>,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(from = "CountForm")]
pub(crate) struct Count {
    pub(crate) count: u64,
    /// Whether there may be more.
    pub(crate) more: bool,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum CountForm {
    Number(u64),
    Bounded { count: u64, more: bool },
}

impl From<CountForm> for Count {
    fn from(form: CountForm) -> Self {
        match form {
            CountForm::Number(count) => Self { count, more: false },
            CountForm::Bounded { count, more } => Self { count, more },
        }
    }
}

impl fmt::Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at_least = if self.more { "at least " } else { "" };
        write!(f, "{at_least}{}", self.count)
    }
}

/// A value that is no report. From [`VerifyReports::push`].
#[derive(Debug)]
pub struct NotAReport(serde_json::Error);

impl fmt::Display for NotAReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("this is no report of a verification, which has a topic, until, counts, findings and cannot_tell")
    }
}

impl std::error::Error for NotAReport {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.0)
    }
}

impl VerifyReports {
    /// Adds a report of `diesel-outbox-verify`, or anything that is serialized like one: a `topic`, a time `until`, `counts` by verdict,
    /// `findings` and what it `cannot_tell`. Everybody with the right [`View`](crate::Right::View) sees all of it.
    ///
    /// # Errors
    /// The value is serialized otherwise.
    pub fn push(&self, report: &impl Serialize) -> Result<(), NotAReport> {
        let report: Report = serde_json::to_value(report).and_then(serde_json::from_value).map_err(NotAReport)?;
        let mut reports = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        reports.push_back(Arc::new(report));
        let surplus = reports.len().saturating_sub(VERIFY_REPORTS_MAX);
        reports.drain(..surplus);
        Ok(())
    }

    /// The latest first.
    pub(crate) fn all(&self) -> Vec<Arc<Report>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).iter().rev().cloned().collect()
    }

    pub(crate) fn find(&self, id: Uuid) -> Option<Arc<Report>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).iter().find(|report| report.id == id).cloned()
    }
}

/// What a report says as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    Clean,
    Found,
    CannotTell,
}

impl Report {
    pub(crate) fn until(&self) -> SystemTime {
        self.until.into()
    }

    /// A message that arrives twice is allowed.
    pub(crate) fn outcome(&self) -> Outcome {
        let mut wrong = self.counts.iter().filter(|(verdict, _)| *verdict != "doubled");
        match wrong.any(|(_, count)| count.count > 0 || count.more) {
            true => Outcome::Found,
            false if self.cannot_tell.is_empty() => Outcome::Clean,
            false => Outcome::CannotTell,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn outcome(counts: Value, cannot_tell: Value) -> Outcome {
        let reports = VerifyReports::default();
        let report =
            json!({ "topic": "orders", "until": "2026-11-26T08:00:00Z", "counts": counts, "cannot_tell": cannot_tell });
        reports.push(&report).expect("a report");
        reports.all()[0].outcome()
    }

    #[test]
    fn a_report_is_clean_if_nothing_is_wrong_or_open() {
        assert_eq!(outcome(json!({ "lost": 0, "doubled": 3 }), json!([])), Outcome::Clean);
        assert_eq!(outcome(json!({ "lost": 0 }), json!([{ "reason": "compaction" }])), Outcome::CannotTell);
        assert_eq!(outcome(json!({ "lost": 1 }), json!([{ "reason": "compaction" }])), Outcome::Found);
        assert_eq!(outcome(json!({ "lost": { "count": 0, "more": true } }), json!([])), Outcome::Found);
    }

    #[test]
    fn the_latest_are_kept_and_other_values_are_refused() {
        let reports = VerifyReports::default();
        for number in 0..VERIFY_REPORTS_MAX + 5 {
            let report = json!({ "topic": number.to_string(), "until": "2026-11-26T08:00:00Z", "counts": {} });
            reports.push(&report).expect("a report");
        }
        let all = reports.all();
        assert_eq!((all.len(), &*all[0].topic), (VERIFY_REPORTS_MAX, "54"));
        assert_eq!(reports.find(all[3].id).map(|report| report.topic.clone()), Some("51".to_owned()));
        assert!(reports.push(&json!({ "topic": "orders" })).is_err());
    }
}
