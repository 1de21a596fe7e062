//! What Prometheus says.

use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use xtask::servers::Prometheus;

use crate::http::encoded;

/// An answer of its API.
#[derive(Debug, Deserialize)]
struct Answer<T> {
    data: T,
}

#[derive(Debug, Deserialize)]
struct Alerts {
    alerts: Vec<Alert>,
}

/// An alert whose condition holds.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Alert {
    pub(crate) labels: std::collections::BTreeMap<String, String>,
    state: String,
}

impl Alert {
    pub(crate) fn name(&self) -> &str {
        self.labels.get("alertname").map_or("", String::as_str)
    }
}

#[derive(Debug, Deserialize)]
struct Found {
    result: Value,
}

fn get<T: DeserializeOwned>(prometheus: &Prometheus, path: &str) -> Result<T> {
    let body = prometheus.get(path)?;
    let answer: Answer<T> = serde_json::from_str(&body).with_context(|| format!("read {body}"))?;
    Ok(answer.data)
}

/// The firing alerts.
pub(crate) fn firing(prometheus: &Prometheus) -> Result<Vec<Alert>> {
    let all: Alerts = get(prometheus, "/api/v1/alerts")?;
    Ok(all.alerts.into_iter().filter(|alert| alert.state == "firing").collect())
}

/// The names of the firing alerts, each once.
pub(crate) fn firing_names(prometheus: &Prometheus) -> Result<Vec<String>> {
    let mut names: Vec<_> = firing(prometheus)?.iter().map(|alert| alert.name().to_owned()).collect();
    names.sort();
    names.dedup();
    Ok(names)
}

/// The time, by Prometheus' clock.
pub(crate) fn now(prometheus: &Prometheus) -> Result<f64> {
    let found: Found = get(prometheus, "/api/v1/query?query=time()")?;
    found.result.get(0).and_then(Value::as_f64).context("time() is a number")
}

/// How many series the query returns since then.
pub(crate) fn series_since(prometheus: &Prometheus, query: &str, since: f64) -> Result<usize> {
    let path = format!("/api/v1/query_range?query={}&start={since}&end={}&step=2", encoded(query), now(prometheus)?);
    let found: Found = get(prometheus, &path).with_context(|| format!("query {query}"))?;
    Ok(found.result.as_array().map_or(0, Vec::len))
}

#[derive(Debug, Deserialize)]
struct Groups {
    groups: Vec<Group>,
}

#[derive(Debug, Deserialize)]
struct Group {
    rules: Vec<Rule>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Rule {
    name: String,
    health: String,
    last_error: Option<String>,
    #[serde(rename = "type")]
    kind: String,
}

/// The names of the alerts that Prometheus has, once it has evaluated all rules without an error.
pub(crate) fn loaded(prometheus: &Prometheus) -> Result<Option<Vec<String>>> {
    let groups: Groups = get(prometheus, "/api/v1/rules")?;
    let rules: Vec<Rule> = groups.groups.into_iter().flat_map(|group| group.rules).collect();
    for rule in &rules {
        ensure!(
            rule.health != "err",
            "the rule {} fails: {}",
            rule.name,
            rule.last_error.as_deref().unwrap_or_default()
        );
    }
    let all_evaluated = !rules.is_empty() && rules.iter().all(|rule| rule.health == "ok");
    let alerts = rules.into_iter().filter(|rule| rule.kind == "alerting").map(|rule| rule.name);
    Ok(all_evaluated.then(|| alerts.collect()))
}
