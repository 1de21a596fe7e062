//! Reports that the application hands over.

use axum::Router;
use diesel_outbox::store::MemoryStore;
use diesel_outbox::{Outbox, Topic};
use serde_json::json;

use super::client;
use super::site::listen;
use crate::{Access, Dashboard, Rights, VerifyReports};

#[tokio::test]
async fn reports_are_listed_and_shown() {
    let outbox = Outbox::builder().topic(Topic::new("orders")).build().expect("an outbox");
    let reports = VerifyReports::default();
    let access = |_: &axum::http::request::Parts| Some(Access::new("alice", Rights::read_only()));
    let dashboard = Dashboard::new(&outbox, MemoryStore::new(), access).verify_reports(&reports);
    let (address, server) = listen(Router::new().nest("/outbox", dashboard.router())).await;
    let get = async |path: &str| client::send(address, "GET", path, &[("host", "localhost")], "").await;
    assert!(get("/outbox/verify").await.body.contains("None yet"));

    let id = "0190b2a0-5c1e-7000-8000-000000000001";
    let report = json!({
        "topic": "orders",
        "until": "2026-11-26T08:00:00Z",
        "counts": { "lost": { "count": 2, "more": true }, "doubled": { "count": 0, "more": false } },
        "findings": [{ "verdict": "lost", "row": { "table": "history", "message_id": id, "row_id": 4711 } }],
        "cannot_tell": [{ "reason": "<b>compaction</b>" }],
    });
    reports.push(&report).expect("a report");
    let list = get("/outbox/verify").await.body;
    assert!(list.contains("something is wrong") && list.contains("at least 2 lost"), "{list}");
    let link = list.split("href=\"").find(|rest| rest.starts_with("/outbox/verify/report?id=")).expect("a link");
    let page = get(link.split('"').next().expect("a link")).await.body;
    assert!(page.contains(&format!("/outbox/message?id={id}")) && page.contains("4711"), "{page}");
    assert!(page.contains("2026-11-26 08:00:00 UTC") && page.contains("&lt;b&gt;compaction"), "{page}");
    assert_eq!(get("/outbox/verify/report?id=x").await.status, 404);
    server.abort();
}
