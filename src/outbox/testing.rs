use std::fmt::Write as _;
use std::sync::Arc;

use serde::de::DeserializeOwned;

use super::Outbox;
use crate::hook::TestRecorder;
use crate::message::{Delivery, Envelope, OutboxMessage};

/// What an application's test sees of its outbox. Made by [`Outbox::testing`].
///
/// Holds the messages whose transaction committed. Inside `begin_test_transaction`, which never commits, the transactions
/// of the application are savepoints, and a message counts when its savepoint is released.
///
/// ```
/// # #[cfg(feature = "sqlite")] {
/// use diesel::prelude::*;
/// use diesel_outbox::{CodecError, Outbox, OutboxMessage, Topic};
///
/// #[derive(serde::Serialize, serde::Deserialize)]
/// struct OrderPlaced { order_id: i64 }
///
/// impl OutboxMessage for OrderPlaced {
///     const TOPIC: Option<&'static str> = Some("orders");
///     const KIND: &'static str = "order.placed";
///     fn payload(&self) -> Result<Option<Vec<u8>>, CodecError> {
///         serde_json::to_vec(self).map(Some).map_err(CodecError::new)
///     }
/// }
///
/// # use diesel_migrations::MigrationHarness;
/// # let mut conn = SqliteConnection::establish(":memory:")?;
/// # conn.run_pending_migrations(diesel_outbox::migrations::MIGRATIONS).unwrap();
/// let outbox = Outbox::builder().topic(Topic::new("orders")).build()?;
/// let sent = outbox.testing();
/// conn.begin_test_transaction()?;
///
/// // The code under test:
/// conn.transaction(|conn| outbox.enqueue(conn, &OrderPlaced { order_id: 42 }))?;
///
/// sent.assert_enqueued::<OrderPlaced>(|order| order.order_id == 42);
/// sent.assert_not_enqueued::<OrderPlaced>(|order| order.order_id == 43);
/// assert_eq!(sent.take().len(), 1);
/// sent.assert_none();
/// # }
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct TestOutbox {
    recorded: Arc<TestRecorder>,
}

impl Outbox {
    /// For tests of applications: from now on every committed message of this outbox, and of its clones, is kept in memory
    /// for assertions, also where the transaction around it is one of `begin_test_transaction`.
    ///
    /// Rows are written and, where a relay runs, sent as ever. Give each test an outbox of its own; a second call on the
    /// same one shares the messages of the first. It cannot be switched off, so it is not for production.
    pub fn testing(&self) -> TestOutbox {
        TestOutbox { recorded: Arc::clone(self.inner.recorder.get_or_init(Arc::default)) }
    }
}

impl TestOutbox {
    /// The messages so far, in the order in which their transactions committed. `deliver_at` of a message that was delayed by a
    /// duration is by the application's clock if the database did not return one.
    pub fn messages(&self) -> Vec<Envelope> {
        self.recorded.committed().iter().map(|(envelope, _)| envelope.clone()).collect()
    }

    /// Takes the messages so far.
    pub fn take(&self) -> Vec<Envelope> {
        let committed = std::mem::take(&mut *self.recorded.committed());
        committed.into_iter().map(|(envelope, _)| envelope).collect()
    }

    /// The events of one type so far: those of its topic and of one of its kinds, decoded from JSON. A tombstone is read as `null`,
    /// and left out where that is none of the type; [`messages`](Self::messages) has it.
    ///
    /// # Panics
    /// Where the payload of one of them is no JSON of the type.
    #[track_caller]
    pub fn events<M: OutboxMessage + DeserializeOwned>(&self) -> Vec<M> {
        self.deliveries().into_iter().map(|(event, _)| event).collect()
    }

    /// The same events, each with when it is to be sent.
    ///
    /// ```
    /// # #[cfg(feature = "sqlite")] {
    /// # use diesel::prelude::*;
    /// # use diesel_outbox::codec::{Codec, Json};
    /// # use std::time::Duration;
    /// use diesel_outbox::{CodecError, Delivery, Outbox, OutboxMessage, Topic};
    ///
    /// #[derive(Debug, PartialEq, serde::Serialize, serde::Deserialize)]
    /// struct PaymentReminder { order_id: i64 }
    /// # impl OutboxMessage for PaymentReminder {
    /// #     const TOPIC: Option<&'static str> = Some("reminders");
    /// #     const KIND: &'static str = "payment.reminder";
    /// #     fn payload(&self) -> Result<Option<Vec<u8>>, CodecError> { Json::encode(self).map(Some) }
    /// # }
    /// # use diesel_migrations::MigrationHarness;
    /// # let mut conn = SqliteConnection::establish(":memory:")?;
    /// # conn.run_pending_migrations(diesel_outbox::migrations::MIGRATIONS).unwrap();
    /// # let outbox = Outbox::builder().topic(Topic::new("reminders")).build()?;
    /// # let sent = outbox.testing();
    /// const WEEK: Duration = Duration::from_secs(7 * 24 * 3_600);
    ///
    /// conn.transaction(|conn| outbox.enqueue(conn, &PaymentReminder { order_id: 42 }.delay(WEEK)))?;
    ///
    /// assert_eq!(sent.deliveries::<PaymentReminder>(), [(PaymentReminder { order_id: 42 }, Delivery::After(WEEK))]);
    /// # }
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Panics
    /// As [`events`](Self::events).
    #[track_caller]
    pub fn deliveries<M: OutboxMessage + DeserializeOwned>(&self) -> Vec<(M, Delivery)> {
        let committed = self.recorded.committed();
        let mut found = Vec::new();
        // A loop, because `track_caller` does not reach through a closure.
        for (envelope, delivery) in committed.iter().filter(|(envelope, _)| is_of::<M>(envelope)) {
            found.extend(decode(envelope).map(|event| (event, *delivery)));
        }
        found
    }

    /// Asserts that an event of this type that `matches` was enqueued and committed; returns the first.
    ///
    /// # Panics
    /// Where there is none, saying what is there; or where the payload of an event of the type is no JSON of it.
    #[track_caller]
    pub fn assert_enqueued<M: OutboxMessage + DeserializeOwned>(&self, mut matches: impl FnMut(&M) -> bool) -> M {
        let (name, events) = (std::any::type_name::<M>(), self.events::<M>());
        let of_type = events.len();
        match events.into_iter().find(|event| matches(event)) {
            Some(event) => event,
            None => panic!(
                "no matching `{name}` was enqueued and committed ({of_type} of that type are); {}",
                self.listed()
            ),
        }
    }

    /// Asserts that no event of this type that `matches` was enqueued and committed.
    ///
    /// # Panics
    /// Where one was, saying what is there; where a commit could not be seen; or as [`events`](Self::events).
    #[track_caller]
    pub fn assert_not_enqueued<M: OutboxMessage + DeserializeOwned>(&self, mut matches: impl FnMut(&M) -> bool) {
        let (name, events) = (std::any::type_name::<M>(), self.events::<M>());
        let found = events.iter().filter(|event| matches(event)).count();
        assert!(found == 0, "{found} matching `{name}` were enqueued and committed; {}", self.listed());
        assert!(self.recorded.unseen() == 0, "one matching `{name}` may have been; {}", self.listed());
    }

    /// Asserts that no message was enqueued and committed.
    ///
    /// # Panics
    /// Where one was, saying which.
    #[track_caller]
    pub fn assert_none(&self) {
        assert!(
            self.recorded.committed().is_empty() && self.recorded.unseen() == 0,
            "messages were enqueued; {}",
            self.listed()
        );
    }

    fn listed(&self) -> String {
        let mut list = String::from("committed are:");
        for (Envelope { topic, kind, key, message_id, .. }, delivery) in &*self.recorded.committed() {
            let key = key.as_deref().unwrap_or("none");
            // Writing to a String cannot fail.
            let _ = write!(list, "\n  topic {topic:?}, kind {kind:?}, key {key:?}, id {message_id}");
            let _ = match delivery {
                Delivery::Now => Ok(()),
                Delivery::After(delay) => write!(list, ", delayed by {delay:?}"),
                Delivery::At(at) => write!(list, ", not before {at:?}"),
            };
        }
        let unseen = self.recorded.unseen();
        if unseen > 0 {
            let _ = write!(
                list,
                "\n  and perhaps {unseen} more, written through a connection whose own instrumentation hides its commits: \
                 install `outbox.commit_hook().chain(mine)`"
            );
        }
        list
    }
}

fn is_of<M: OutboxMessage>(envelope: &Envelope) -> bool {
    M::TOPIC.is_none_or(|topic| topic == &*envelope.topic) && M::KINDS.contains(&envelope.kind.as_str())
}

/// `None` is a tombstone that stands for no value of the type.
#[track_caller]
fn decode<M: DeserializeOwned>(envelope: &Envelope) -> Option<M> {
    let name = std::any::type_name::<M>();
    let Some(payload) = envelope.payload.as_deref() else { return serde_json::from_slice(b"null").ok() };
    match serde_json::from_slice(payload) {
        Ok(event) => Some(event),
        Err(error) => panic!("message {} is no JSON of `{name}`: {error}", envelope.message_id),
    }
}
