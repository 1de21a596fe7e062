use std::time::SystemTime;

use axum::extract::{Query, State};
use diesel_outbox::admin::{AdminError, Cursor, Page, ParkedRecord};
use diesel_outbox::store::{SchemaProblem, StoreError};
use diesel_outbox::transport::header;
use maud::{Markup, html};
use serde::Deserialize;

use super::Answer;
use super::layout::{Refresh, page};
use super::parts::filter::{given, text};
use super::parts::payload::Content;
use super::parts::time::instant;
use super::parts::{act, cut, key, next};
use crate::access::Right;
use crate::failure::Failure;
use crate::limits::PAGE_ROWS;
use crate::state::Shared;
use crate::visit::Visit;

/// The row of a parked record.
pub(crate) fn parse_row(id: &str) -> Result<i64, Failure> {
    id.parse().map_err(|_| Failure::bad(format!("{id:?} is no row of a parked record.")))
}

#[derive(Debug, Deserialize)]
pub(crate) struct Asked {
    consumer: Option<String>,
    after: Option<String>,
}

pub(crate) async fn list(visit: Visit, State(shared): State<Shared>, asked: Query<Asked>) -> Answer {
    let after = given(&asked.after).map(Cursor::from);
    let consumer = given(&asked.consumer);
    let found = match shared.reader().parked(consumer, after.as_ref(), PAGE_ROWS).await {
        // Without the table no consumer of this database parks anything.
        Err(AdminError::Unsupported | AdminError::Store(StoreError::Schema(SchemaProblem::NotMigrated { .. }))) => None,
        found => Some(found?),
    };
    let now = shared.reader().now().await?;
    let content = html! {
        @match found {
            None => p.quiet { "This database has no table of parked records: run the migration 0000consumer01_progress for consumers." },
            Some(found) => (found_records(&visit, consumer, found, now)),
        }
    };
    Ok(page(&visit, "Parked records", Refresh::ByEvents, content))
}

fn found_records(visit: &Visit, consumer: Option<&str>, found: Page<ParkedRecord>, now: SystemTime) -> Markup {
    let more =
        found.next.map(|after| visit.to("/parked").with_some("consumer", consumer).with("after", after.to_string()));
    html! {
        form.filter method="get" action=(visit.to("/parked")) {
            (text("Consumer", "consumer", consumer))
            button.plain { "Search" }
        }
        @if found.items.is_empty() { p.quiet { "No record is parked." } } @else { (table(visit, &found.items, now)) }
        (next(more))
    }
}

fn table(visit: &Visit, records: &[ParkedRecord], now: SystemTime) -> Markup {
    html! {
        table.stack {
            thead { tr { th { "Record" } th { "Consumer" } th { "Key" } th { "Parked" } th { "State" } th { "Error" } } }
            tbody {
                @for record in records {
                    tr {
                        td data-label="Record" {
                            a.mono href=(visit.to("/parked/record").with("id", record.id.to_string())) { (place(record)) }
                        }
                        td data-label="Consumer" { (record.consumer) }
                        td data-label="Key" { (key(text_key(record).as_deref())) }
                        td data-label="Parked" { (instant(record.parked_at, now)) }
                        td data-label="State" { (state(record)) }
                        td.mono data-label="Error" { (cut(&record.error)) }
                    }
                }
            }
        }
    }
}

#[derive(Debug, Deserialize)]
pub(crate) struct One {
    id: Option<String>,
}

pub(crate) async fn show(visit: Visit, State(shared): State<Shared>, asked: Query<One>) -> Answer {
    let id = parse_row(given(&asked.id).unwrap_or_default())?;
    let record = shared.reader().find_parked(id).await?;
    let now = shared.reader().now().await?;
    let kind = record.headers.get(header::KIND).and_then(|kind| std::str::from_utf8(kind).ok()).unwrap_or_default();
    let headers_json = record.headers.to_json();
    let content =
        Content { topic: &record.topic, kind, headers_json: &headers_json, payload: record.payload.as_deref() };
    let id = record.id.to_string();
    let body = html! {
        dl {
            dt { "Consumer" } dd { (record.consumer) }
            dt { "Key" } dd { (key(text_key(&record).as_deref())) }
            dt { "Parked" } dd { (instant(record.parked_at, now)) }
            dt { "State" } dd { (state(&record)) }
            dt { "Tried again" } dd { (record.replays) " times" }
            dt { "Error" } dd.mono { (record.error) }
        }
        @if visit.may(Right::Redrive) {
            (act::form("Release it", act::Kind::Usual, &visit.to("/parked/release"), &[("id", &id)]))
        }
        @if visit.may(Right::Purge) {
            (act::form("Discard it", act::Kind::Final, &visit.to("/parked/discard"), &[("id", &id)]))
        }
        (content.show(&visit, shared.reader()))
    };
    Ok(page(&visit, &place(&record), Refresh::Never, body))
}

fn place(record: &ParkedRecord) -> String {
    format!("{}/{}@{}", record.topic, record.partition, record.offset)
}

fn text_key(record: &ParkedRecord) -> Option<String> {
    record.key.as_deref().map(|key| String::from_utf8_lossy(key).into_owned())
}

fn state(record: &ParkedRecord) -> &'static str {
    match (record.is_released, record.holds_key) {
        (true, _) => "released: its consumer processes it soon",
        (false, true) => "what follows of its key waits behind it",
        (false, false) => "parked alone: what follows of its key goes on",
    }
}
