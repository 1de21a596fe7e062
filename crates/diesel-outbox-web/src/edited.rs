//! A dead letter in a form.

use std::borrow::Cow;

use diesel_outbox::admin::DeadLetter;
use diesel_outbox::{Headers, Message};
use serde::Deserialize;

use crate::failure::Failure;
use crate::limits::EDITED_MAX;

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
    pub(crate) fn received(self) -> Self {
        let [headers, payload] = [self.headers, self.payload].map(|text| text.replace("\r\n", "\n"));
        Self { headers, payload, ..self }
    }

    pub(crate) fn message(&self) -> Result<Message, Failure> {
        let headers = Headers::from_json(self.headers.trim()).map_err(|error| Failure::bad(error.to_string()))?;
        let message = Message::to(&*self.topic).kind(&*self.kind).replace_headers(headers);
        let message = if self.key.is_empty() { message } else { message.key(&*self.key) };
        Ok(if self.tombstone.is_some() { message } else { message.payload_bytes(self.payload.as_bytes()) })
    }

    /// All of it as lines, to be compared.
    pub(crate) fn lines(&self) -> String {
        let payload: Cow<'_, str> =
            if self.tombstone.is_some() { "no payload: a tombstone".into() } else { (&*self.payload).into() };
        let key = if self.key.is_empty() { "no key" } else { &self.key };
        format!("topic: {}\nkind: {}\nkey: {key}\nheaders: {}\n\n{payload}\n", self.topic, self.kind, self.headers)
    }

    pub(crate) fn fields(&self) -> Vec<(&str, &str)> {
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
}
