//! Every page with every condition, and how it is requested.

use std::time::{Duration, Instant};

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::{Request, StatusCode};
use diesel_outbox::MessageId;
use diesel_outbox::admin::{DeadLetterFilter, LiveFilter, LiveState};
use tower::ServiceExt as _;

use crate::database::Database;

/// A page takes kilobytes.
const BYTES_MAX: usize = 8 << 20;

/// The paths of all pages.
pub(crate) async fn all(database: &Database) -> Vec<String> {
    let admin = database.admin();
    let mut paths: Vec<String> = FIXED.iter().map(|path| (*path).to_owned()).collect();
    for (topic, state) in [("orders", LiveState::Leased), ("payments", LiveState::InLane)] {
        let filter = LiveFilter::of(topic).state(state);
        let page = admin.live_messages(&filter, None, 50).await.expect("live messages");
        let (message, next) = (page.items.last().expect("a message"), page.next.expect("there are more"));
        paths.push(format!("/message?id={}&row={}", message.message_id, message.id));
        paths.push(format!("/message?id={}", message.message_id));
        paths.push(format!("/messages?topic={topic}&after={}", next));
    }
    paths.push(format!("/message?id={}", MessageId::new()));
    let page = admin.dead_letters(&DeadLetterFilter::new(), None, 50).await.expect("dead letters");
    let letter = &page.items[0];
    paths.push(format!("/message?id={}", letter.message_id));
    paths.push(format!("/message/edit?id={}", letter.message_id));
    paths.push(format!("/dead-letters?after={}", page.next.expect("there are more")));
    paths
}

const FIXED: &[&str] = &[
    "/overview",
    "/topics",
    "/lanes?topic=payments",
    "/messages?topic=orders",
    "/messages?topic=orders&state=due",
    "/messages?topic=orders&state=leased",
    "/messages?topic=orders&state=delayed",
    "/messages?topic=orders&state=retrying",
    "/messages?topic=payments&state=in_lane",
    "/messages?topic=payments&state=retrying",
    "/messages?topic=payments&state=blocked",
    "/messages?topic=orders&key=7",
    "/messages?topic=orders&key=none",
    "/messages?topic=payments&key=7",
    "/messages?topic=payments&key=none",
    "/messages?topic=orders&kind=none",
    "/messages?topic=orders&state=delayed&header=tenant&value=none",
    "/calendar?topic=orders",
    "/calendar?topic=reminders",
    "/dead-letters",
    "/dead-letters?topic=payments",
    "/dead-letters?topic=orders&reason_word=refused",
    "/dead-letters?reason_word=poisoned",
    "/dead-letters?reason_word=none",
    "/dead-letters?class=record",
    "/dead-letters?class=none",
    "/dead-letters?kind=none",
    "/dead-letters?key=none",
    "/dead-letters?from=2020-01-01T00:00&before=2100-01-01T00:00&key=none",
    "/dead-letters/preview?act=redrive",
    "/dead-letters/preview?act=canary&topic=orders&reason_word=refused",
    "/dead-letters/preview?act=purge&class=none",
    "/history?topic=invoices",
    "/history?topic=invoices&key=7",
    "/audit",
    "/audit?actor=nobody",
    "/jobs",
];

/// Requests a page; returns how long it took.
pub(crate) async fn request(app: &Router, path: &str) -> Duration {
    let began = Instant::now();
    body(app, path).await;
    began.elapsed()
}

/// Where a page leads on.
pub(crate) async fn next_of(app: &Router, path: &str) -> Option<String> {
    let body = body(app, path).await;
    let link = body.split("rel=\"next\" href=\"").nth(1)?.split('"').next()?;
    Some(link.replace("&amp;", "&"))
}

async fn body(app: &Router, path: &str) -> String {
    let request = Request::get(path).body(Body::empty()).expect("a request");
    let response = app.clone().oneshot(request).await.expect("a response");
    let status = response.status();
    let body = to_bytes(response.into_body(), BYTES_MAX).await.expect("a page");
    let body = String::from_utf8(body.to_vec()).expect("text");
    let is_nowhere = status == StatusCode::NOT_FOUND && path.starts_with("/message?id=");
    assert!(status == StatusCode::OK || is_nowhere, "{path}: {status}: {body}");
    body
}
