//! What an application publishes: the [`OutboxMessage`] trait, the hand-built [`Message`], and their parts.

mod builder;
mod delayed;
mod delivery;
#[cfg(feature = "derive")]
pub(crate) mod derive;
mod envelope;
mod headers;
mod id;

pub use builder::Message;
pub use delivery::{Delayed, Delivery};
pub use envelope::Envelope;
pub use headers::{HeaderError, Headers};
pub use id::MessageId;

use std::borrow::Cow;
use std::time::{Duration, SystemTime};

use crate::codec::CodecError;

/// An event that can be enqueued.
///
/// Usually derived. Implement it by hand if the topic is chosen at run time, or if `serde` does not make the payload.
///
/// ```
/// use std::borrow::Cow;
/// use diesel_outbox::{CodecError, OutboxMessage};
///
/// struct Reading { sensor: u32, celsius: f32 }
///
/// impl OutboxMessage for Reading {
///     const TOPIC: Option<&'static str> = Some("readings");
///     const KIND: &'static str = "reading.taken";
///
///     fn key(&self) -> Option<Cow<'_, str>> {
///         Some(self.sensor.to_string().into())
///     }
///
///     fn payload(&self) -> Result<Option<Vec<u8>>, CodecError> {
///         Ok(Some(self.celsius.to_be_bytes().to_vec()))
///     }
/// }
/// assert_eq!(Reading { sensor: 7, celsius: 21.5 }.key().as_deref(), Some("7"));
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not an outbox message",
    label = "cannot be enqueued",
    note = "add `#[derive(serde::Serialize, diesel_outbox::OutboxMessage)]` and `#[outbox(topic = \"..\")]` to it"
)]
pub trait OutboxMessage {
    /// The topic, if it is the same for every value of the type; `None` if [`topic`](Self::topic) chooses it.
    const TOPIC: Option<&'static str>;

    /// What happened, such as `order.placed`. Consumers tell the events of a topic apart by it.
    const KIND: &'static str;

    /// Every kind that a value of the type may have.
    const KINDS: &'static [&'static str] = &[Self::KIND];

    /// The fingerprints of the shapes that a value may have: one for a struct, one for each variant of an enum. The
    /// [derive](derive@crate::OutboxMessage) makes them; by default there are none.
    const FINGERPRINTS: &'static [&'static str] = &[];

    /// The fingerprint of this value's shape, one of [`FINGERPRINTS`](Self::FINGERPRINTS). It is sent if the outbox has
    /// [`fingerprints`](crate::OutboxBuilder::fingerprints).
    fn fingerprint(&self) -> Option<&'static str> {
        None
    }

    /// The topic this value goes to.
    fn topic(&self) -> Cow<'_, str> {
        Cow::Borrowed(Self::TOPIC.unwrap_or_default())
    }

    /// What happened; [`KIND`](Self::KIND) by default.
    fn kind(&self) -> Cow<'_, str> {
        Cow::Borrowed(Self::KIND)
    }

    /// What the message is about. It decides the partition, and on an ordered topic the order.
    fn key(&self) -> Option<Cow<'_, str>> {
        None
    }

    /// Headers to send along, in this order.
    fn headers(&self) -> Headers {
        Headers::new()
    }

    /// The encoded event; `None` is a tombstone, a message without payload.
    ///
    /// # Errors
    /// Returns the codec's error; [`enqueue`](crate::Outbox::enqueue) passes it to its caller.
    fn payload(&self) -> Result<Option<Vec<u8>>, CodecError>;

    /// A payload of such an event in readable form, for [`Admin::payload_text`](crate::admin::Admin::payload_text). The
    /// codec makes it. If it fails, people see the bytes.
    ///
    /// # Errors
    /// Returns an error if the payload is not of such an event, or if the type has no readable form.
    fn payload_text(payload: &[u8]) -> Result<String, CodecError> {
        let _ = payload;
        Err(CodecError::new("its type has no readable form: implement `OutboxMessage::payload_text`"))
    }

    /// Whether such events can be encoded: [`OutboxBuilder::build`](crate::OutboxBuilder::build) asks it for a registered type. The
    /// codec answers it.
    ///
    /// # Errors
    /// Returns what the codec lacks.
    fn check_codec() -> Result<(), CodecError> {
        Ok(())
    }

    /// When it is sent; right after COMMIT by default.
    fn delivery(&self) -> Delivery {
        Delivery::Now
    }

    /// The same event, sent this long after it was enqueued: from a millisecond to a century. Not for an
    /// [ordered](crate::Topic::ordered_by_key) topic, where a later message would overtake it.
    ///
    /// ```
    /// # #[cfg(feature = "sqlite")] {
    /// # use diesel::prelude::*;
    /// # use diesel_migrations::MigrationHarness;
    /// use std::time::Duration;
    /// use diesel_outbox::{CodecError, Outbox, OutboxMessage, Topic};
    ///
    /// struct PaymentReminder { order_id: i64 }
    ///
    /// impl OutboxMessage for PaymentReminder {
    ///     const TOPIC: Option<&'static str> = Some("reminders");
    ///     const KIND: &'static str = "payment.reminder";
    ///     fn payload(&self) -> Result<Option<Vec<u8>>, CodecError> { Ok(Some(self.order_id.to_string().into())) }
    /// }
    ///
    /// # let mut conn = SqliteConnection::establish(":memory:")?;
    /// # conn.run_pending_migrations(diesel_outbox::migrations::MIGRATIONS).unwrap();
    /// let outbox = Outbox::builder().topic(Topic::new("reminders")).build()?;
    /// let in_a_week = Duration::from_secs(7 * 24 * 3_600);
    /// conn.transaction(|conn| outbox.enqueue(conn, &PaymentReminder { order_id: 42 }.delay(in_a_week)))?;
    /// # }
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    fn delay(self, delay: Duration) -> Delayed<Self>
    where
        Self: Sized,
    {
        Delayed::new(self, Delivery::After(delay))
    }

    /// The same event, sent at this time by the database's clock; at once if the time is past. Not for an
    /// [ordered](crate::Topic::ordered_by_key) topic.
    fn deliver_at(self, at: SystemTime) -> Delayed<Self>
    where
        Self: Sized,
    {
        Delayed::new(self, Delivery::At(at))
    }
}

impl<M: OutboxMessage + ?Sized> OutboxMessage for &M {
    const TOPIC: Option<&'static str> = M::TOPIC;
    const KIND: &'static str = M::KIND;
    const KINDS: &'static [&'static str] = M::KINDS;
    const FINGERPRINTS: &'static [&'static str] = M::FINGERPRINTS;

    fn fingerprint(&self) -> Option<&'static str> {
        (**self).fingerprint()
    }
    fn topic(&self) -> Cow<'_, str> {
        (**self).topic()
    }
    fn kind(&self) -> Cow<'_, str> {
        (**self).kind()
    }
    fn key(&self) -> Option<Cow<'_, str>> {
        (**self).key()
    }
    fn headers(&self) -> Headers {
        (**self).headers()
    }
    fn payload(&self) -> Result<Option<Vec<u8>>, CodecError> {
        (**self).payload()
    }
    fn payload_text(payload: &[u8]) -> Result<String, CodecError> {
        M::payload_text(payload)
    }
    fn check_codec() -> Result<(), CodecError> {
        M::check_codec()
    }
    fn delivery(&self) -> Delivery {
        (**self).delivery()
    }
}
