//! A dead letter that is edited and redriven: the difference first, then the change.

use std::borrow::Cow;

use axum::extract::{Form, State};
use diesel_outbox::admin::DeadLetter;
use diesel_outbox::{Headers, Message};
use maud::{Markup, html};
use serde::Deserialize;
use similar::{ChangeTag, TextDiff};

use super::required;
use crate::failure::Failure;
use crate::limits::EDITED_MAX;
use crate::pages::Answer;
use crate::pages::layout::{Refresh, page};
use crate::pages::message::parse_id;
use crate::pages::parts::act::{Kind, button, hidden, reason};
use crate::state::Shared;
use crate::visit::Visit;

/// A message in a form.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(crate) struct Edited {
    #[serde(default)]
    pub(crate) id: String,
    pub(crate) topic: String,
    pub(crate) kind: String,
    /// Empty: no key.
    pub(crate) key: String,
    pub(crate) headers: String,
    pub(crate) payload: String,
    pub(crate) tombstone: Option<String>,
    #[serde(default)]
    pub(crate) reason: String,
}

/// A dead letter as a form can hold it, or why it cannot.
pub(crate) fn editable(letter: &DeadLetter) -> Result<Edited, String> {
    let cannot =
        |why: &str| format!("This payload cannot be edited here: {why}. Use Admin::redrive_edited in a program.");
    let payload = match &letter.payload {
        None => "",
        Some(bytes) if bytes.len() > EDITED_MAX => return Err(cannot("it has more than a megabyte")),
        Some(bytes) => std::str::from_utf8(bytes).map_err(|_| cannot("it is no text"))?,
    };
    // A form sends line breaks as CR LF, and a NUL as another character.
    if payload.contains(['\r', '\0']) {
        return Err(cannot("it has characters that a browser's form changes"));
    }
    Ok(Edited {
        id: letter.message_id.to_string(),
        topic: letter.topic.to_string(),
        kind: letter.kind.clone(),
        key: letter.key.clone().unwrap_or_default(),
        headers: letter.headers_json.clone(),
        payload: payload.to_owned(),
        tombstone: letter.payload.is_none().then(|| "yes".to_owned()),
        reason: String::new(),
    })
}

impl Edited {
    /// With the line breaks that the person wrote.
    fn received(self) -> Self {
        let [headers, payload] = [self.headers, self.payload].map(|text| text.replace("\r\n", "\n"));
        Self { headers, payload, ..self }
    }

    fn message(&self) -> Result<Message, Failure> {
        let headers = Headers::from_json(self.headers.trim()).map_err(|error| Failure::bad(error.to_string()))?;
        let message = Message::to(&*self.topic).kind(&*self.kind).replace_headers(headers);
        let message = if self.key.is_empty() { message } else { message.key(&*self.key) };
        Ok(if self.tombstone.is_some() { message } else { message.payload_bytes(self.payload.as_bytes()) })
    }

    /// All of it as lines, to be compared.
    fn lines(&self) -> String {
        let payload: Cow<'_, str> =
            if self.tombstone.is_some() { "no payload: a tombstone".into() } else { (&*self.payload).into() };
        let key = if self.key.is_empty() { "no key" } else { &self.key };
        format!("topic: {}\nkind: {}\nkey: {key}\nheaders: {}\n\n{payload}\n", self.topic, self.kind, self.headers)
    }

    fn fields(&self) -> Vec<(&str, &str)> {
        let mut fields = vec![
            ("id", &*self.id),
            ("topic", &*self.topic),
            ("kind", &*self.kind),
            ("key", &*self.key),
            ("headers", &*self.headers),
            ("payload", &*self.payload),
        ];
        fields.extend(self.tombstone.is_some().then_some(("tombstone", "yes")));
        fields
    }
}

/// Shows the difference. It changes nothing, and is a POST because of its size.
pub(crate) async fn diff(visit: Visit, State(shared): State<Shared>, Form(edited): Form<Edited>) -> Answer {
    let (id, edited) = (parse_id(&edited.id)?, edited.received());
    let letter = shared.reader().dead_letter(id).await?;
    let (was, message) = (editable(&letter).map_err(Failure::conflict)?, edited.message()?);
    let is_same = was.message()? == message;
    let content = html! {
        (difference(&was.lines(), &edited.lines()))
        @if is_same { p { "Nothing is different. To send it again as it is, redrive it." } } @else {
            form method="post" action=(visit.to("/message/replace")) {
                (hidden(&edited.fields()))
                p { (reason()) }
                p { (button("Replace the dead letter", Kind::Final)) }
            }
        }
    };
    Ok(page(&visit, "What would be different", Refresh::Never, content))
}

pub(crate) async fn replace(visit: Visit, State(shared): State<Shared>, Form(edited): Form<Edited>) -> Answer {
    let (id, edited) = (parse_id(&edited.id)?, edited.received());
    let admin = shared.writer(&visit, required(&edited.reason)?);
    let new_id = admin.redrive_edited(id, &edited.message()?).await?;
    Ok(visit.go(visit.to("/message").with("id", new_id.to_string()), "edited"))
}

fn difference(was: &str, becomes: &str) -> Markup {
    let diff = TextDiff::from_lines(was, becomes);
    html! {
        pre.diff tabindex="0" {
            @for change in diff.iter_all_changes() {
                @let line = change.value().trim_end_matches('\n');
                @match change.tag() {
                    ChangeTag::Equal => span { "  " (line) },
                    ChangeTag::Delete => del { "- " (line) },
                    ChangeTag::Insert => ins { "+ " (line) },
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edited() -> Edited {
        Edited {
            id: String::new(),
            topic: "orders".to_owned(),
            kind: "order.placed".to_owned(),
            key: "42".to_owned(),
            headers: "[]".to_owned(),
            payload: "{\r\n}".to_owned(),
            tombstone: None,
            reason: String::new(),
        }
    }

    #[test]
    fn line_breaks_are_those_of_the_message() {
        let message = edited().received().message().expect("a message");
        assert_eq!(message, Message::to("orders").kind("order.placed").key("42").payload_bytes("{\n}"));
    }

    #[test]
    fn a_key_and_a_payload_can_be_taken_away() {
        let edited = Edited { key: String::new(), tombstone: Some("yes".to_owned()), ..edited() };
        assert_eq!(edited.message().expect("a message"), Message::to("orders").kind("order.placed"));
        assert!(Edited { headers: "{}".to_owned(), ..edited }.message().is_err());
    }

    #[test]
    fn the_difference_is_shown_line_by_line() {
        let shown = difference("a\nb\n", "a\n<c>\n").into_string();
        assert!(shown.contains("<span>  a</span>") && shown.contains("<del>- b</del>"), "{shown}");
        assert!(shown.contains("<ins>+ &lt;c&gt;</ins>"), "{shown}");
    }
}
