use std::time::SystemTime;

use axum::extract::{Query, State};
use diesel_outbox::MessageId;
use diesel_outbox::admin::{Admin, AdminError, DeadLetter, FailedAttempt, LiveMessage, SentMessage};
use maud::{Markup, html};
use serde::Deserialize;

use super::Answer;
use super::layout::{Refresh, page};
use super::messages::state_name;
use super::parts::act::{self, Kind};
use super::parts::key;
use super::parts::payload::Content;
use super::parts::time::instant;
use crate::access::Right;
use crate::failure::Failure;
use crate::state::Shared;
use crate::visit::Visit;

#[derive(Debug, Deserialize)]
pub(crate) struct Asked {
    id: String,
    /// The row where a list has seen it: it is found there without a search.
    row: Option<i64>,
    /// The row up to which the live messages were searched.
    after: Option<i64>,
}

/// A message, wherever it is.
enum Found {
    Live(Box<LiveMessage>),
    Dead(Box<DeadLetter>),
    Sent(Box<SentMessage>),
    /// Not among the rows that were searched so far: there are more after this one.
    Beyond(i64),
}

pub(crate) async fn show(visit: Visit, State(shared): State<Shared>, asked: Query<Asked>) -> Answer {
    let id = parse_id(&asked.id)?;
    let admin = shared.reader();
    let found = find(admin, id, &asked).await?;
    let now = admin.now().await?;
    let (content, refresh) = match &found {
        Found::Live(message) => (live(&visit, message, now), Refresh::ByEvents),
        Found::Dead(letter) => (dead(&visit, letter, now), Refresh::ByEvents),
        Found::Sent(message) => (sent(&visit, message, now), Refresh::ByEvents),
        Found::Beyond(row) => (beyond(&visit, id, *row), Refresh::Never),
    };
    let content = html! { (content) @if let Some(of) = found.content() { (of.show(&visit, admin)) } };
    Ok(page(&visit, &format!("Message {id}"), refresh, content))
}

pub(crate) fn parse_id(text: &str) -> Result<MessageId, Failure> {
    text.trim()
        .parse()
        .map_err(|_| Failure::bad(format!("{text:?} is no message id: it is a UUID, as lists and logs show it.")))
}

/// The dead letters and the history have an index of message ids. The live messages have one only on MySQL, so they come last.
async fn find(admin: &Admin, id: MessageId, asked: &Asked) -> Result<Found, Failure> {
    if let Some(row) = asked.row {
        match admin.live_message_in_row(row, id).await {
            Err(AdminError::NotLive { .. }) => {}
            message => return Ok(Found::Live(Box::new(message?))),
        }
    }
    match admin.dead_letter(id).await {
        Err(AdminError::NotDeadLetter { .. }) => {}
        letter => return Ok(Found::Dead(Box::new(letter?))),
    }
    // Without the table of the history no message is in it.
    if let Ok(message) = admin.sent(id).await {
        return Ok(Found::Sent(Box::new(message)));
    }
    match admin.search_live_message(id, asked.after).await? {
        (Some(message), _) => Ok(Found::Live(Box::new(message))),
        (None, Some(row)) => Ok(Found::Beyond(row)),
        (None, None) => Err(Failure::not_found(format!(
            "There is no message {id}: it was sent and its topic keeps no history, it was cancelled or purged, or its transaction did not commit."
        ))),
    }
}

impl Found {
    fn content(&self) -> Option<Content<'_>> {
        match self {
            Self::Live(of) => Some(content(&of.topic, &of.kind, &of.headers_json, of.payload.as_deref())),
            Self::Dead(of) => Some(content(&of.topic, &of.kind, &of.headers_json, of.payload.as_deref())),
            Self::Sent(of) => Some(content(&of.topic, &of.kind, &of.headers_json, of.payload.as_deref())),
            Self::Beyond(_) => None,
        }
    }
}

/// A list of messages links to the row, and needs no search.
fn beyond(visit: &Visit, id: MessageId, row: i64) -> Markup {
    let link = visit.to("/message").with("id", id.to_string()).with("after", row.to_string());
    html! {
        p { "It is no dead letter, is not in the history, and is not among the live messages that were searched. There are more, and this database has no index of their ids." }
        p { a rel="next" href=(link) { "Search on" } }
    }
}

fn content<'a>(topic: &'a str, kind: &'a str, headers_json: &'a str, payload: Option<&'a [u8]>) -> Content<'a> {
    Content { topic, kind, headers_json, payload }
}

fn live(visit: &Visit, message: &LiveMessage, now: SystemTime) -> Markup {
    let id = message.message_id.to_string();
    let fields = [("id", id.as_str())];
    // In a lane its owner decides, and nothing may be taken from it.
    let waits = message.lane.is_none();
    html! {
        dl {
            dt { "State" } dd { strong { (state_name(message.state)) } }
            (subject(&message.topic, message.key.as_deref(), &message.kind, message.lane))
            @if let Some(due_at) = message.due_at { dt { "Due" } dd { (instant(due_at, now)) } }
            @if let Some(deliver_at) = message.deliver_at { dt { "To be delivered" } dd { (instant(deliver_at, now)) } }
            @if let Some(owner) = message.owner { dt { "Owner of its lane" } dd.mono { (owner) } }
            @if let Some(until) = message.leased_until { dt { "Leased until" } dd { (instant(until, now)) } }
            dt { "Attempts, failures" } dd { (message.attempts) ", " (message.failures) }
        }
        p {
            @if waits && visit.may(Right::SendNow) { (act::form("Send now", Kind::Usual, &visit.to("/message/send-now"), &fields)) }
            @if waits && visit.may(Right::Cancel) { (act::form("Cancel for good", Kind::Final, &visit.to("/message/cancel"), &fields)) }
            @if !waits { span.quiet { "The owner of its lane sends it. To retry a blocked key at once, pause the topic and resume it." } }
        }
        h2 { "Life" }
        (life(message.created_at, &message.errors, now, html! { li { "Not sent yet." } }))
    }
}

fn dead(visit: &Visit, letter: &DeadLetter, now: SystemTime) -> Markup {
    let id = letter.message_id.to_string();
    let fields = [("id", id.as_str())];
    let end = html! { li.failed { "Dead-lettered " (instant(letter.dead_at, now)) div.mono { (letter.reason) } } };
    html! {
        dl {
            dt { "State" } dd { strong.bad { "dead letter" } }
            (subject(&letter.topic, letter.key.as_deref(), &letter.kind, letter.lane))
            dt { "Reason" } dd { (letter.reason) }
            dt { "Attempts, failures" } dd { (letter.attempts) ", " (letter.failures) }
        }
        p {
            @if visit.may(Right::Redrive) { (act::form("Redrive", Kind::Usual, &visit.to("/message/redrive"), &fields)) }
            @if visit.may(Right::Edit) && visit.may(Right::Payloads) {
                a href=(visit.to("/message/edit").with("id", &id)) { "Edit and redrive" } " "
            }
            @if visit.may(Right::Purge) { (act::form("Delete for good", Kind::Final, &visit.to("/message/purge"), &fields)) }
        }
        h2 { "Life" }
        (life(letter.created_at, &letter.errors, now, end))
    }
}

fn sent(visit: &Visit, message: &SentMessage, now: SystemTime) -> Markup {
    let id = message.message_id.to_string();
    let end = html! {
        @if message.failures > 0 { li.failed { (message.failures) " failures before" } }
        li.ended { "Acknowledged by the broker, settled " (instant(message.sent_at, now)) }
        @match message.processed_at {
            Some(at) => li.ended { "Processed by its consumer " (instant(at, now)) },
            None if message.awaits_processing => li { "Its consumer has not confirmed it yet." },
            None => "",
        }
    };
    html! {
        dl {
            dt { "State" } dd { strong.good { "sent" } }
            (subject(&message.topic, message.key.as_deref(), &message.kind, message.lane))
        }
        @if visit.may(Right::Resend) && message.processed_at.is_none() {
            p { (act::form("Send again", Kind::Usual, &visit.to("/message/resend"), &[("id", &id)])) }
        }
        h2 { "Life" }
        (life(message.created_at, &[], now, end))
    }
}

fn subject(topic: &str, of_key: Option<&str>, kind: &str, lane: Option<u16>) -> Markup {
    html! {
        dt { "Topic" } dd { (topic) @if let Some(lane) = lane { ", lane " (lane) } }
        dt { "Key" } dd { (key(of_key)) }
        dt { "Kind" } dd { @if kind.is_empty() { span.none { "no kind" } } @else { (kind) } }
    }
}

/// From enqueue over each noted failure to the end.
fn life(created_at: SystemTime, errors: &[FailedAttempt], now: SystemTime, end: Markup) -> Markup {
    html! {
        ol.life {
            li { "Enqueued " (instant(created_at, now)) }
            @for error in errors {
                li.failed { "Failed " @if let Some(at) = error.at { (instant(at, now)) } " as " (error.class) div.mono { (error.error) } }
            }
            (end)
        }
    }
}
