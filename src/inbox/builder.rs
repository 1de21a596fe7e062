use std::sync::Arc;
use std::sync::atomic::AtomicI64;

use super::{Inbox, Inner};
use crate::lane::fnv1a;
use crate::limits::{INBOX_CONSUMER_CHARS_MAX, INBOX_KEEP_DAYS, KEEP_DAYS_MAX};
use crate::naming::TableNames;
use crate::topic::Topic;

/// Configures and builds an [`Inbox`]. From [`Inbox::builder`].
#[derive(Debug, Clone)]
#[must_use = "an inbox is there only after `build`"]
pub struct InboxBuilder {
    consumer: String,
    keep_days: u32,
    tables: TableNames,
    topics: Vec<Topic>,
}

impl Inbox {
    /// Starts to configure the inbox of a consumer.
    ///
    /// Each consumer handles each message once. So two services that read one topic have different names, and all processes of a service
    /// have the same. A new name is a new consumer, which has handled nothing.
    ///
    /// ```
    /// use diesel_outbox::TableNames;
    /// use diesel_outbox::inbox::Inbox;
    ///
    /// let inbox = Inbox::builder("billing").keep_days(30).tables(TableNames::default().prefix("billing_")?).build()?;
    /// assert_eq!(inbox.tables().inbox(), "billing_inbox");
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    pub fn builder(consumer: impl Into<String>) -> InboxBuilder {
        InboxBuilder {
            consumer: consumer.into(),
            keep_days: INBOX_KEEP_DAYS,
            tables: TableNames::default(),
            topics: Vec::new(),
        }
    }
}

impl InboxBuilder {
    /// Keeps entries for at least this many days after their messages were made, and for less than one more; 14 by default. A message
    /// that is older when it arrives is refused: [`InboxError::TooOld`](super::InboxError::TooOld).
    ///
    /// Choose more than the longest way of a message: how long the broker keeps it, plus its delay, plus an outage of the relay or of the
    /// consumer. Consumers that share the tables share the longest of their times.
    pub fn keep_days(mut self, days: u32) -> Self {
        self.keep_days = days;
        self
    }

    /// Sets the schema and the prefix of the tables.
    pub fn tables(mut self, tables: TableNames) -> Self {
        self.tables = tables;
        self
    }

    /// Checks, where producer and consumer are one application, that this topic's dead letters and sent messages are not kept for
    /// longer than entries. A message that is redriven or sent again later than that would be refused.
    ///
    /// ```
    /// use diesel_outbox::Topic;
    /// use diesel_outbox::inbox::Inbox;
    ///
    /// let orders = Topic::new("orders").keep_dead_days(30);
    /// let error = Inbox::builder("billing").keep_days(14).receives(&orders).build().unwrap_err();
    /// assert!(error.to_string().contains("keep_dead_days"));
    /// Inbox::builder("billing").keep_days(45).receives(&orders).build()?;
    /// # Ok::<_, diesel_outbox::inbox::InboxBuildError>(())
    /// ```
    pub fn receives(mut self, topic: &Topic) -> Self {
        self.topics.push(topic.clone());
        self
    }

    /// Builds the inbox.
    ///
    /// # Errors
    /// Returns an error if the consumer's name or a retention makes no sense.
    pub fn build(self) -> Result<Inbox, InboxBuildError> {
        let Self { consumer, keep_days, tables, topics } = self;
        let is_plain = |c: char| c.is_ascii_alphanumeric() || ['.', '_', '-', ':', '/'].contains(&c);
        if consumer.is_empty() || consumer.len() > INBOX_CONSUMER_CHARS_MAX || !consumer.chars().all(is_plain) {
            return Err(InboxBuildError::Consumer { consumer });
        }
        if !(1..=KEEP_DAYS_MAX).contains(&keep_days) {
            return Err(InboxBuildError::KeepDays { consumer, keep_days });
        }
        for topic in &topics {
            check_retention(&consumer, keep_days, topic)?;
        }
        let (entries, start) = (tables.inbox(), tables.qualified("inbox_start"));
        let number = number_of(&consumer);
        Ok(Inbox {
            inner: Arc::new(Inner {
                consumer,
                number,
                keep_days,
                tables,
                entries,
                start,
                seen_start_ms: AtomicI64::new(i64::MAX),
            }),
        })
    }
}

/// The number of a consumer in the tables: computed, and not given by the database. So a claim need not ask for it, and a rollback
/// cannot give it to somebody else.
fn number_of(consumer: &str) -> i64 {
    i64::from_ne_bytes(fnv1a(consumer).to_ne_bytes())
}

/// A dead letter is older than its retention says, which counts from the last attempt: entries are kept for longer.
fn check_retention(consumer: &str, keep_days: u32, topic: &Topic) -> Result<(), InboxBuildError> {
    let retention = topic.retention();
    for (setting, days) in [("keep_dead_days", retention.dead_days), ("keep_sent_days", retention.sent_days)] {
        if let Some(days) = days.filter(|days| *days >= keep_days) {
            let (consumer, topic) = (consumer.to_owned(), topic.name().to_owned());
            return Err(InboxBuildError::BelowTopic { consumer, keep_days, topic, setting, days });
        }
    }
    if retention.dead_days.is_none() {
        let (consumer, topic) = (consumer.to_owned(), topic.name().to_owned());
        return Err(InboxBuildError::DeadLettersUnbounded { consumer, keep_days, topic });
    }
    Ok(())
}

/// Why an [`Inbox`] could not be built.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InboxBuildError {
    /// The consumer's name cannot be used.
    #[error(
        "the consumer's name {consumer:?} cannot be used: give 1 to {INBOX_CONSUMER_CHARS_MAX} of A-Z, a-z, 0-9 and . _ - : /"
    )]
    Consumer {
        /// The name.
        consumer: String,
    },
    /// The retention makes no sense.
    #[error("keep_days of consumer {consumer:?} is {keep_days}: give 1 to {KEEP_DAYS_MAX}")]
    KeepDays {
        /// The consumer's name.
        consumer: String,
        /// The setting.
        keep_days: u32,
    },
    /// A topic keeps messages for as long as the inbox keeps its entries, or longer.
    #[error(
        "keep_days of consumer {consumer:?} is {keep_days}, and {setting} of topic {topic:?} is {days}: a message that is sent again after so \
         long would be refused as too old; keep entries for more than {days} days, or messages for less than {keep_days}"
    )]
    BelowTopic {
        /// The consumer's name.
        consumer: String,
        /// Its retention.
        keep_days: u32,
        /// The topic.
        topic: String,
        /// The topic's setting.
        setting: &'static str,
        /// Its value.
        days: u32,
    },
    /// A topic keeps dead letters for ever.
    #[error(
        "topic {topic:?} keeps dead letters until somebody handles them, and consumer {consumer:?} keeps entries for {keep_days} days: a dead \
         letter that is redriven later would be refused as too old; give the topic a `keep_dead_days` of less than {keep_days}"
    )]
    DeadLettersUnbounded {
        /// The consumer's name.
        consumer: String,
        /// Its retention.
        keep_days: u32,
        /// The topic.
        topic: String,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_never_change() {
        assert_eq!(number_of("billing"), 4_613_189_061_923_820_124);
    }

    #[test]
    fn names_that_need_quotes_are_refused() {
        for consumer in ["", "billing's", "a b", "größe", &"x".repeat(INBOX_CONSUMER_CHARS_MAX + 1)] {
            let error = Inbox::builder(consumer).build().expect_err(consumer);
            assert!(matches!(error, InboxBuildError::Consumer { .. }), "{error}");
        }
        Inbox::builder("eu-1/billing.v2:orders_paid").build().expect("a plain name");
    }

    #[test]
    fn retentions_that_do_not_fit_are_refused_with_a_remedy() {
        let topic = || Topic::new("orders");
        let build = |topic: &Topic| Inbox::builder("billing").keep_days(14).receives(topic).build();
        for (topic, remedy) in [
            (topic(), "give the topic a `keep_dead_days` of less than 14"),
            (topic().keep_dead_days(14), "more than 14 days"),
            (topic().keep_dead_days(7).keep_sent_days(30), "messages for less than 14"),
        ] {
            let text = build(&topic).expect_err("a redrive would be refused").to_string();
            assert!(text.contains("\"orders\"") && text.contains(remedy), "{text}");
        }
        build(&topic().keep_dead_days(13).keep_sent_days(13)).expect("it fits");
        for days in [0, KEEP_DAYS_MAX + 1] {
            assert!(matches!(Inbox::builder("billing").keep_days(days).build(), Err(InboxBuildError::KeepDays { .. })));
        }
    }
}
