use axum::extract::{Query, State};
use diesel_outbox::admin::DeadLetter;
use maud::{Markup, html};
use serde::Deserialize;

use super::Answer;
use super::layout::{Refresh, page};
use super::message::parse_id;
use super::parts::filter::choice;
use crate::edited::{Edited, editable};
use crate::failure::Failure;
use crate::state::Shared;
use crate::topics::{KnownTopic, names};
use crate::visit::Visit;

#[derive(Debug, Deserialize)]
pub(crate) struct Asked {
    id: String,
}

pub(crate) async fn show(visit: Visit, State(shared): State<Shared>, asked: Query<Asked>) -> Answer {
    let letter = shared.reader().dead_letter(parse_id(&asked.id)?).await?;
    let topics = shared.topics().await?;
    let edited = editable(&letter).map_err(Failure::conflict)?;
    let content = html! {
        p { "The edited message replaces the dead letter under a new message id. Nothing is changed before you have seen the difference." }
        (form(&visit, &topics, &letter, &edited))
    };
    Ok(page(&visit, "Edit and redrive", Refresh::Never, content))
}

fn form(visit: &Visit, topics: &[KnownTopic], letter: &DeadLetter, edited: &Edited) -> Markup {
    let topics = names(topics).map(|name| (name, name));
    html! {
        form method="post" action=(visit.to("/message/diff")) {
            input type="hidden" name="id" value=(letter.message_id);
            p { (choice("Topic", "topic", None, topics, Some(&edited.topic))) }
            p { label.wide { "Kind" input name="kind" value=(edited.kind); } }
            p { label.wide { "Key" input name="key" value=(edited.key); } }
            p {
                label.wide {
                    "Headers: a JSON array of [name, value] or [name, {\"b64\": ..}]"
                    // The parser drops a line break at the beginning, so one is given to it.
                    textarea name="headers" rows="4" spellcheck="false" { "\n" (edited.headers) }
                }
            }
            p { label.wide { "Payload" textarea name="payload" rows="16" spellcheck="false" { "\n" (edited.payload) } } }
            p { label.line { input type="checkbox" name="tombstone" value="yes" checked[edited.tombstone.is_some()]; "No payload: a tombstone" } }
            p { button { "Show the difference" } }
        }
    }
}
