//! How messages are shown, wherever they are.

use diesel_outbox::admin::{Admin, FailedAttempt, PayloadText};
use serde::ser::Error as _;
use serde::{Serialize, Serializer};
use serde_json::json;

use crate::output::{Page, instant};

/// A message as an entry of a list: without its payload, which may be large, but with its size.
pub(crate) fn without_payload<S: Serializer>(
    message: &impl Serialize,
    payload: Option<&[u8]>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let mut fields = serde_json::to_value(message).map_err(S::Error::custom)?;
    if let Some(fields) = fields.as_object_mut() {
        fields.remove("payload");
        fields.insert("payload_bytes".to_owned(), json!(payload.map(<[u8]>::len)));
    }
    fields.serialize(serializer)
}

/// One message with everything that is known of it.
#[derive(Debug, Serialize)]
pub(crate) struct Shown<M> {
    #[serde(flatten)]
    pub(crate) message: M,
    #[serde(flatten)]
    pub(crate) decoded: Decoded,
}

/// A payload, decoded by its type if that is known.
#[derive(Debug, Serialize)]
pub(crate) struct Decoded {
    /// The payload as its type's codec shows it.
    payload_text: Option<String>,
    /// Why there is no such text.
    payload_problem: Option<String>,
    /// What people see.
    #[serde(skip)]
    shown: String,
}

impl Decoded {
    pub(crate) fn of(admin: &Admin, topic: &str, kind: &str, payload: Option<&[u8]>) -> Self {
        let (payload_text, payload_problem) = match admin.decode(topic, kind, payload) {
            PayloadText::Text(text) => (Some(text), None),
            PayloadText::Tombstone => (None, Some("it has no payload: it is a tombstone".to_owned())),
            PayloadText::Unreadable { error, .. } => (None, Some(error.to_string())),
            PayloadText::Unregistered { .. } => {
                (None, Some("no message type is registered for its topic and kind".to_owned()))
            }
            _ => (None, Some("this release of the command line cannot show it".to_owned())),
        };
        let shown = match (&payload_text, payload) {
            (Some(text), _) => text.clone(),
            (None, Some(bytes)) => as_stored(bytes),
            (None, None) => String::new(),
        };
        Self { payload_text, payload_problem, shown }
    }

    /// Adds it to the page of a message.
    pub(crate) fn show(&self, page: &mut Page) {
        match &self.payload_problem {
            Some(problem) => page.block(&format!("payload ({problem})"), &self.shown),
            None => page.block("payload", &self.shown),
        }
    }
}

/// Text as it is, other bytes escaped.
fn as_stored(bytes: &[u8]) -> String {
    match std::str::from_utf8(bytes) {
        Ok(text) => text.to_owned(),
        Err(_) => bytes.escape_ascii().to_string(),
    }
}

/// Adds the failures of a message to its page.
pub(crate) fn show_errors(errors: &[FailedAttempt], page: &mut Page) {
    for FailedAttempt { at, class, error, .. } in errors {
        let at = at.map_or_else(String::new, |at| instant(at) + " ");
        page.field("failed", format!("{at}{class}: {error}"));
    }
}
