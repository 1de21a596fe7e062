//! The board: each of its queries must return series.

use std::fs;

use anyhow::{Context, Result};
use serde_json::Value;

use crate::alerts;
use crate::world::World;

/// What Grafana puts in for a variable. The interval is long enough for several scrapes.
const VARIABLES: [(&str, &str); 4] =
    [("$namespace", ".*"), ("$job", ".*"), ("$topic", ".*"), ("$__rate_interval", "10s")];

/// Metrics that no drill produces, each with the reason.
pub(crate) const NOT_PRODUCED: [(&str, &str); 2] = [
    ("outbox_half_messages_total", "half messages go through RocketMQ, which the drill does not run"),
    ("outbox_half_checks_total", "half messages go through RocketMQ, which the drill does not run"),
];

/// A query of a panel.
#[derive(Debug)]
pub(crate) struct Query {
    panel: String,
    expression: String,
}

/// The queries of every panel, with the variables replaced.
pub(crate) fn queries() -> Result<Vec<Query>> {
    let path = crate::ops().join("grafana/outbox.json");
    let text = fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))?;
    let board: Value = serde_json::from_str(&text).context("read the board")?;
    let list = |value: &Value, name: &str| value[name].as_array().cloned().unwrap_or_default();
    let mut queries = Vec::new();
    for panel in list(&board, "panels") {
        for target in list(&panel, "targets") {
            let expression = target["expr"].as_str().context("a target has a query")?;
            let expression =
                VARIABLES.iter().fold(expression.to_owned(), |text, (name, value)| text.replace(name, value));
            queries.push(Query { panel: panel["title"].as_str().unwrap_or_default().to_owned(), expression });
        }
    }
    Ok(queries)
}

/// The queries that return nothing since then, for no stated reason.
pub(crate) fn without_series(world: &World, since: f64) -> Result<Vec<String>> {
    let mut missing = Vec::new();
    for Query { panel, expression } in queries()? {
        let is_excused = NOT_PRODUCED.iter().any(|(metric, _)| expression.contains(metric));
        if !is_excused && alerts::series_since(&world.prometheus, &expression, since)? == 0 {
            missing.push(format!("{panel}: {expression}"));
        }
    }
    Ok(missing)
}
