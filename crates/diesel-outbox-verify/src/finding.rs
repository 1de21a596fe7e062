use std::fmt;
use std::time::SystemTime;

use diesel_outbox::MessageId;
use serde::Serialize;

use crate::content::Part;
use crate::serialize::{instant, instant_or_none, shown};

/// What is wrong, or worth knowing, about a message: with the row and the record that show it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "verdict", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Finding {
    /// The history says that it was sent, but the topic does not have it.
    Lost {
        /// Its row.
        row: RowPlace,
    },
    /// The history says that it was sent, but its consumer did not report it as processed in time.
    Unprocessed {
        /// Its row.
        row: RowPlace,
    },
    /// The topic has it, but no table does.
    Phantom {
        /// Its first record.
        record: RecordPlace,
        /// Its message id; `None` if no outbox has written the record.
        message_id: Option<MessageId>,
    },
    /// A message of a key was sent before an earlier one of the same key.
    Reordered {
        /// The row of the earlier message.
        row: RowPlace,
        /// Its record.
        record: RecordPlace,
        /// The row of the later message.
        later_row: RowPlace,
        /// Its record, which comes first.
        later_record: RecordPlace,
    },
    /// The record differs from the row.
    Altered {
        /// The row.
        row: RowPlace,
        /// The first record that differs.
        record: RecordPlace,
        /// In what they differ.
        parts: Vec<Part>,
    },
    /// It was sent before its delivery time.
    Early {
        /// Its row, with the delivery time.
        row: RowPlace,
        /// The record that is too early.
        record: RecordPlace,
    },
    /// The topic has more than one record of it. That is allowed: a message is sent again if its acknowledgement is lost.
    Doubled {
        /// Its row.
        row: RowPlace,
        /// Its first record.
        record: RecordPlace,
        /// How many records there are.
        copies: u64,
    },
}

/// A table of messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Table {
    /// Sent messages.
    History,
    /// Dead letters.
    DeadLetters,
    /// Messages that are not sent, or not settled.
    Live,
}

/// Where a row is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct RowPlace {
    /// The table.
    pub table: Table,
    /// The id of the row; `None` for a dead letter, which is found by its message id.
    pub row_id: Option<i64>,
    /// The message id.
    pub message_id: MessageId,
    /// When the message was enqueued, by the database's clock.
    #[serde(serialize_with = "instant")]
    pub created_at: SystemTime,
    /// When a delayed message was to be sent, by the database's clock.
    #[serde(serialize_with = "instant_or_none", skip_serializing_if = "Option::is_none")]
    pub deliver_at: Option<SystemTime>,
    /// When its acknowledgement was settled, by the database's clock.
    #[serde(serialize_with = "instant_or_none", skip_serializing_if = "Option::is_none")]
    pub sent_at: Option<SystemTime>,
}

/// Where a record is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct RecordPlace {
    /// The partition.
    pub partition: String,
    /// The offset.
    pub offset: i64,
    /// Its timestamp.
    #[serde(serialize_with = "instant")]
    pub at: SystemTime,
}

impl Finding {
    /// The verdict, as a word.
    pub fn verdict(&self) -> &'static str {
        match self {
            Self::Lost { .. } => "lost",
            Self::Unprocessed { .. } => "unprocessed",
            Self::Phantom { .. } => "phantom",
            Self::Reordered { .. } => "reordered",
            Self::Altered { .. } => "altered",
            Self::Early { .. } => "early",
            Self::Doubled { .. } => "doubled",
        }
    }

    /// The message that it is about; of two messages of a key, the earlier one. `None` if no outbox has written the record.
    pub fn message_id(&self) -> Option<MessageId> {
        match self {
            Self::Phantom { message_id, .. } => *message_id,
            Self::Lost { row }
            | Self::Unprocessed { row }
            | Self::Reordered { row, .. }
            | Self::Altered { row, .. }
            | Self::Early { row, .. }
            | Self::Doubled { row, .. } => Some(row.message_id),
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lost { row } => {
                write!(f, "the {row} says that it was sent{}, and the topic has no record of it", At(row.sent_at))
            }
            Self::Unprocessed { row } => {
                write!(
                    f,
                    "the {row} says that it was sent{}, and its consumer has not reported it as processed",
                    At(row.sent_at)
                )
            }
            Self::Phantom { record, message_id: Some(_) } => {
                write!(f, "the {record} is of a message that no table has")
            }
            Self::Phantom { record, message_id: None } => {
                write!(f, "the {record} has no message id: it was not written by an outbox")
            }
            Self::Reordered { row, record, later_row, later_record } => write!(
                f,
                "the {record} is of the {row}, and comes after the {later_record} of the {later_row}, message {}, of the same key",
                later_row.message_id
            ),
            Self::Altered { row, record, parts } => {
                let parts: Vec<String> = parts.iter().map(ToString::to_string).collect();
                write!(f, "the {record} differs from the {row} in {}", parts.join(", "))
            }
            Self::Early { row, record } => {
                write!(f, "the {record} is before the delivery time of the {row}{}", At(row.deliver_at))
            }
            Self::Doubled { row, record, copies } => {
                write!(f, "{copies} records of the {row}, the first is the {record}")
            }
        }
    }
}

/// A moment in a sentence, if it is known.
struct At(Option<SystemTime>);

impl fmt::Display for At {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.map_or(Ok(()), |at| write!(f, " at {}", shown(at)))
    }
}

impl fmt::Display for RowPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.table, self.row_id) {
            (Table::History, Some(id)) => write!(f, "row {id} of the history"),
            (Table::Live, Some(id)) => write!(f, "live row {id}"),
            (Table::History, None) => f.write_str("row of the history"),
            (Table::Live, None) => f.write_str("live row"),
            (Table::DeadLetters, _) => f.write_str("dead letter"),
        }
    }
}

impl fmt::Display for RecordPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "record at offset {} of partition {}, of {}", self.offset, self.partition, shown(self.at))
    }
}
