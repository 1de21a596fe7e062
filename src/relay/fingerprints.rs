//! Reports rows whose events have a shape that this process does not know.

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

use crate::events::log_event;
use crate::limits::{FINGERPRINT_SHOWN_CHARS_MAX, UNKNOWN_FINGERPRINTS_MAX};
use crate::message::Envelope;
use crate::transport::header::FINGERPRINT;

/// The shapes of one message type.
#[derive(Debug, Clone, Copy)]
pub(crate) struct KnownShapes {
    /// Where it is fixed.
    pub(crate) topic: Option<&'static str>,
    pub(crate) kinds: &'static [&'static str],
    pub(crate) fingerprints: &'static [&'static str],
}

/// The shapes that this process knows, and the unknown fingerprints that it has reported.
#[derive(Debug)]
pub(crate) struct Fingerprints {
    known: Vec<KnownShapes>,
    reported: Mutex<HashSet<String>>,
}

impl Fingerprints {
    pub(crate) fn new(known: Vec<KnownShapes>) -> Self {
        Self { known, reported: Mutex::default() }
    }

    /// Whether the message's shape is known, as far as can be told. Logs an unknown fingerprint, each once.
    pub(crate) fn check(&self, envelope: &Envelope) -> bool {
        let Some(unknown) = self.unknown(envelope) else { return true };
        // A header that was written by hand may be as long as a message.
        let end = unknown.char_indices().nth(FINGERPRINT_SHOWN_CHARS_MAX).map_or(unknown.len(), |(end, _)| end);
        self.report(envelope, &unknown[..end]);
        false
    }

    fn report(&self, envelope: &Envelope, unknown: &str) {
        let mut reported = self.reported.lock().unwrap_or_else(PoisonError::into_inner);
        if reported.contains(unknown) || reported.len() >= UNKNOWN_FINGERPRINTS_MAX {
            return;
        }
        reported.insert(unknown.to_owned());
        drop(reported);
        let (topic, kind) = (&*envelope.topic, envelope.kind.as_str());
        log_event!(FINGERPRINT_UNKNOWN, message_id = %envelope.message_id, topic, kind, fingerprint = unknown);
    }

    /// The fingerprint of a message that is of a known topic and kind, but of no known shape. Of other kinds this process may send
    /// messages of which it has no type, so it knows nothing of their shapes.
    fn unknown<'e>(&self, envelope: &'e Envelope) -> Option<&'e str> {
        // Most messages have none, and most outboxes no types.
        let fingerprint = std::str::from_utf8(envelope.headers.get(FINGERPRINT)?).ok()?;
        let is_of = |shapes: &&KnownShapes| {
            shapes.kinds.contains(&envelope.kind.as_str())
                && shapes.topic.is_none_or(|topic| topic == &*envelope.topic)
                && !shapes.fingerprints.is_empty()
        };
        let mut of_kind = self.known.iter().filter(is_of).peekable();
        of_kind.peek()?;
        let is_known = of_kind.any(|shapes| shapes.fingerprints.contains(&fingerprint));
        (!is_known).then_some(fingerprint)
    }
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use super::*;
    use crate::message::MessageId;

    const ORDERS: KnownShapes =
        KnownShapes { topic: Some("orders"), kinds: &["placed", "sent"], fingerprints: &["aa", "bb"] };

    fn envelope(topic: &str, kind: &str, fingerprint: Option<&str>) -> Envelope {
        let mut envelope = Envelope::new(MessageId::new(), topic.into(), SystemTime::UNIX_EPOCH);
        kind.clone_into(&mut envelope.kind);
        if let Some(fingerprint) = fingerprint {
            envelope.headers.push(FINGERPRINT, fingerprint);
        }
        envelope
    }

    #[test]
    fn a_shape_is_unknown_only_where_the_type_is_known() {
        let fingerprints = Fingerprints::new(vec![ORDERS]);
        let unknown =
            |topic, kind, fingerprint| fingerprints.unknown(&envelope(topic, kind, fingerprint)).map(str::to_owned);
        assert_eq!(unknown("orders", "placed", Some("cc")).as_deref(), Some("cc"));
        assert_eq!(unknown("orders", "placed", Some("bb")), None);
        assert_eq!(unknown("orders", "placed", None), None, "of before fingerprints were on");
        assert_eq!(unknown("orders", "returned", Some("cc")), None, "another application's kind");
        assert_eq!(unknown("returns", "placed", Some("cc")), None, "another topic");
    }

    #[test]
    fn of_two_types_of_one_kind_either_may_know_the_shape() {
        let anywhere = KnownShapes { topic: None, fingerprints: &["cc"], ..ORDERS };
        let by_hand = KnownShapes { fingerprints: &[], ..ORDERS };
        let fingerprints = Fingerprints::new(vec![by_hand, ORDERS, anywhere]);
        assert_eq!(fingerprints.unknown(&envelope("orders", "placed", Some("cc"))), None);
        assert_eq!(fingerprints.unknown(&envelope("orders", "placed", Some("dd"))), Some("dd"));
        let fingerprints = Fingerprints::new(vec![by_hand]);
        assert_eq!(
            fingerprints.unknown(&envelope("orders", "placed", Some("dd"))),
            None,
            "it has no shapes to compare"
        );
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let fingerprints = Fingerprints::new(vec![ORDERS]);
        for number in 0..2 * UNKNOWN_FINGERPRINTS_MAX {
            fingerprints.check(&envelope("orders", "placed", Some(&number.to_string())));
        }
        assert_eq!(fingerprints.reported.lock().expect("no panic").len(), UNKNOWN_FINGERPRINTS_MAX);

        let fingerprints = Fingerprints::new(vec![ORDERS]);
        assert!(!fingerprints.check(&envelope("orders", "placed", Some(&"\u{20ac}".repeat(1_000)))));
        let reported = fingerprints.reported.lock().expect("no panic").clone();
        assert_eq!(reported, HashSet::from(["\u{20ac}".repeat(FINGERPRINT_SHOWN_CHARS_MAX)]));
    }
}
