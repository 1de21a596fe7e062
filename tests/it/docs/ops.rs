//! Alerts, board and runbooks in `ops/`, compared with each other and with the metrics.

use std::collections::BTreeSet;

use diesel_outbox::metrics::{ALL, Metric, MetricKind};
use serde_json::Value;

use super::{pages, read};

/// What Prometheus adds to every series.
const OF_TARGETS: [&str; 3] = ["namespace", "job", "instance"];
/// The sections of a runbook.
const SECTIONS: [&str; 4] = ["Meaning", "Impact", "Diagnosis", "Remedy"];

/// An alert, with the text of its rule.
struct Alert {
    name: String,
    rule: String,
}

fn alerts() -> Vec<Alert> {
    let rules = read("ops/prometheus/rules.yml");
    let parts = rules.split("- alert: ").skip(1).filter_map(|part| part.split_once('\n'));
    parts.map(|(name, rule)| Alert { name: name.to_owned(), rule: rule.to_owned() }).collect()
}

/// The expressions of rules: the indented lines behind each `expr: |`.
fn rule_queries() -> Vec<String> {
    let rules = read("ops/prometheus/rules.yml");
    let is_inside = |line: &&str| line.starts_with("          ");
    let expressions = rules.split("expr: |\n").skip(1);
    expressions.map(|rest| rest.lines().take_while(is_inside).collect::<Vec<_>>().join("\n")).collect()
}

fn board_queries() -> Vec<String> {
    let board: Value = serde_json::from_str(&read("ops/grafana/outbox.json")).expect("the board is JSON");
    let panels = board["panels"].as_array().expect("panels").clone();
    let targets = panels.iter().flat_map(|panel| panel["targets"].as_array().cloned().unwrap_or_default());
    targets.map(|target| target["expr"].as_str().expect("a target has a query").to_owned()).collect()
}

/// The metric of a series: a histogram has several.
fn metric_of(series: &str) -> Option<&'static Metric> {
    let named = |name: &str| ALL.iter().find(|metric| metric.name == name);
    let of_histogram = ["_bucket", "_count", "_sum"].iter().find_map(|suffix| named(series.strip_suffix(suffix)?));
    named(series).or(of_histogram.filter(|metric| metric.kind == MetricKind::Histogram))
}

/// What a query names: each series of ours with the labels that select it, and the labels by which it groups.
fn named(query: &str) -> (Vec<(String, Vec<String>)>, Vec<String>) {
    let (mut series, mut groups) = (Vec::new(), Vec::new());
    let mut rest = query;
    while let Some(at) = rest.find(|c: char| c.is_ascii_alphabetic() || c == '"') {
        rest = &rest[at..];
        if let Some(quoted) = rest.strip_prefix('"') {
            rest = quoted.split_once('"').map_or("", |(_, behind)| behind);
            continue;
        }
        let length = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_' && c != ':').unwrap_or(rest.len());
        let (word, behind) = rest.split_at(length);
        rest = behind;
        let listed =
            |open: char, close: char| behind.trim_start().strip_prefix(open)?.split_once(close).map(|(list, _)| list);
        match word {
            "by" | "on" => {
                let labels = listed('(', ')').expect("a list of labels");
                groups.extend(labels.split(',').map(|label| label.trim().to_owned()));
            }
            // A recording rule's name has colons, and is checked where it is defined.
            _ if word.starts_with("outbox_") => {
                let selectors = listed('{', '}').unwrap_or_default().split(", ");
                // A comma inside a value leaves parts without a sign.
                let labels = selectors.filter_map(|one| one.split_once(['=', '!']));
                series.push((word.to_owned(), labels.map(|(label, _)| label.trim().to_owned()).collect()));
            }
            _ => {}
        }
    }
    (series, groups)
}

/// The labels that a series of the metric can have.
fn labels_of(metric: &Metric) -> BTreeSet<&'static str> {
    let own = metric.labels.iter().copied().chain(OF_TARGETS);
    let by_kind = match metric.kind {
        MetricKind::Gauge => Some("relay"),
        MetricKind::Histogram => Some("le"),
        MetricKind::Counter => None,
    };
    own.chain(by_kind).collect()
}

fn violations(query: &str) -> Vec<String> {
    let (series, groups) = named(query);
    let (mut violations, mut known) = (Vec::new(), BTreeSet::new());
    for (name, labels) in &series {
        let Some(metric) = metric_of(name) else {
            violations.push(format!("no metric is called {name}"));
            continue;
        };
        let of_metric = labels_of(metric);
        let unknown = labels.iter().filter(|label| !of_metric.contains(label.as_str()));
        violations.extend(unknown.map(|label| format!("{name} has no label {label}")));
        known.extend(of_metric);
    }
    // Without a series of ours the query is over recording rules, or over alerts.
    let unknown = groups.iter().filter(|label| !series.is_empty() && !known.contains(label.as_str()));
    violations.extend(unknown.map(|label| format!("no metric of {query} has the label {label}")));
    violations
}

#[test]
fn every_alert_has_a_runbook_and_every_runbook_an_alert() {
    let alerts: BTreeSet<String> =
        alerts().into_iter().map(|alert| format!("ops/runbooks/{}.md", alert.name)).collect();
    assert_eq!(alerts, pages("ops/runbooks").into_iter().collect());
}

#[test]
fn every_alert_has_what_its_reader_needs() {
    for Alert { name, rule } in alerts() {
        let rule = rule.split("\n\n").next().unwrap_or_default().trim_end();
        for part in ["        for: ", "          severity: ", "          summary: ", "          description: "] {
            assert!(rule.contains(part), "{name} has no {}", part.trim());
        }
        assert!(rule.contains("severity: critical") || rule.contains("severity: warning"), "{name}");
        assert!(rule.ends_with(&format!("/ops/runbooks/{name}.md")), "{name} names no runbook: {rule}");
    }
}

#[test]
fn every_alert_has_a_test_that_it_fires_and_is_silent() {
    let tests = std::fs::read_dir(super::root().join("ops/prometheus/tests")).expect("the tests of the rules");
    let tests = tests.map(|test| test.expect("a test").path()).filter(|path| !path.ends_with("silence.yml"));
    let tests: Vec<String> = tests.map(read).collect();
    for Alert { name, .. } in alerts() {
        let cases = tests.iter().flat_map(|file| file.split("  - name: "));
        let cases: Vec<&str> = cases.filter(|case| case.starts_with(&format!("{name} "))).collect();
        assert!(cases.iter().any(|case| case.contains("exp_labels: ")), "{name} never fires in a test");
        let last_is_silent = |case: &&&str| case.trim_end().ends_with("exp_alerts: []");
        assert!(cases.iter().any(|case| last_is_silent(&case)), "{name} never recovers in a test");
        assert!(
            cases.iter().all(|case| case.matches("exp_alerts: []").count() >= 1),
            "{name} is never silent in a test"
        );
    }
}

#[test]
fn every_runbook_says_what_it_means_what_it_does_and_what_to_do() {
    for page in pages("ops/runbooks") {
        let text = read(&page);
        let headings: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("## ")).collect();
        assert_eq!(headings, SECTIONS, "{page}");
        let title = page.strip_prefix("ops/runbooks/").and_then(|name| name.strip_suffix(".md"));
        assert_eq!(text.lines().next().and_then(|line| line.strip_prefix("# ")), title, "{page}");
    }
}

#[test]
fn rules_and_board_name_metrics_and_labels_that_exist() {
    let queries: Vec<String> = rule_queries().into_iter().chain(board_queries()).collect();
    assert!(queries.len() > 80, "{}", queries.len());
    let found: Vec<String> = queries.iter().flat_map(|query| violations(query)).collect();
    assert!(found.is_empty(), "{found:#?}");
}

#[test]
fn every_metric_is_on_a_panel_of_the_board() {
    let queries = board_queries();
    let shown: BTreeSet<&str> = queries
        .iter()
        .flat_map(|query| named(query).0)
        .filter_map(|(name, _)| metric_of(&name))
        .map(|it| it.name)
        .collect();
    let missing: Vec<&str> = ALL.iter().map(|metric| metric.name).filter(|name| !shown.contains(name)).collect();
    assert!(missing.is_empty(), "no panel of ops/grafana/outbox.json shows {missing:?}");
}

#[test]
fn the_board_has_no_data_source_of_its_own() {
    let board: Value = serde_json::from_str(&read("ops/grafana/outbox.json")).expect("the board is JSON");
    let variables = board["templating"]["list"].as_array().expect("variables");
    let names: Vec<_> = variables.iter().filter_map(|variable| variable["name"].as_str()).collect();
    assert_eq!(names, ["datasource", "namespace", "job", "topic"]);
    let text = board.to_string();
    assert_eq!(text.matches(r#""datasource":{"#).count(), text.matches(r#""uid":"${datasource}""#).count());
    let ids: Vec<_> = board["panels"].as_array().expect("panels").iter().map(|panel| panel["id"].as_u64()).collect();
    assert_eq!(ids.iter().collect::<BTreeSet<_>>().len(), ids.len(), "each panel has its own id");
}

#[test]
fn a_wrong_name_or_label_in_a_query_is_found() {
    let labels = [
        "sum by (job) (rate(outbox_failed_total{topic=\"a, b\", class!=\"record\"}[5m]))",
        "max by (relay, topic) (outbox_live_rows)",
    ];
    assert!(labels.iter().all(|query| violations(query).is_empty()), "{:?}", labels.map(violations));
    for (query, wrong) in [
        ("outbox_nothing", "outbox_nothing"),
        ("outbox_failed_total_count", "outbox_failed_total_count"),
        ("outbox_failed_total{path=\"swept\"}", "no label path"),
        ("sum by (relay) (outbox_failed_total)", "the label relay"),
        ("sum by (le) (outbox_live_rows)", "the label le"),
    ] {
        let found = violations(query);
        assert!(found.len() == 1 && found[0].contains(wrong), "{query}: {found:?}");
    }
}
