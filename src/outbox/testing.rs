use std::fmt::Write as _;
use std::sync::Arc;

use serde::de::DeserializeOwned;

use super::Outbox;
use crate::hook::TestRecorder;
use crate::message::{Envelope, OutboxMessage};

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
    /// The messages so far, in the order in which their transactions committed.
    pub fn messages(&self) -> Vec<Envelope> {
        self.recorded.committed().clone()
    }

    /// Takes the messages so far.
    pub fn take(&self) -> Vec<Envelope> {
        std::mem::take(&mut *self.recorded.committed())
    }

    /// The events of one type so far: those of its topic and kind, decoded from JSON.
    ///
    /// # Panics
    /// Where one of them is no JSON of the type.
    #[track_caller]
    pub fn events<M: OutboxMessage + DeserializeOwned>(&self) -> Vec<M> {
        let committed = self.recorded.committed();
        committed.iter().filter(|envelope| is_of::<M>(envelope)).map(decode).collect()
    }

    /// Asserts that an event of this type that `matches` was enqueued and committed; returns the first.
    ///
    /// # Panics
    /// Where there is none, saying what is there; or where an event of the type is no JSON of it.
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
        for Envelope { topic, kind, key, message_id, .. } in &*self.recorded.committed() {
            let key = key.as_deref().unwrap_or("none");
            // Writing to a String cannot fail.
            let _ = write!(list, "\n  topic {topic:?}, kind {kind:?}, key {key:?}, id {message_id}");
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
    M::TOPIC.is_none_or(|topic| topic == &*envelope.topic) && envelope.kind == M::KIND
}

#[track_caller]
fn decode<M: DeserializeOwned>(envelope: &Envelope) -> M {
    let name = std::any::type_name::<M>();
    let payload = envelope.payload.as_deref().unwrap_or(b"null");
    match serde_json::from_slice(payload) {
        Ok(event) => event,
        Err(error) => panic!("message {} is no JSON of `{name}`: {error}", envelope.message_id),
    }
}
