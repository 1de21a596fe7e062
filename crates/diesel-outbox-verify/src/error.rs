use std::io;

use diesel_outbox::admin::AdminError;

use crate::source::SourceError;

/// Why a verification could not be done.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum VerifyError {
    /// The tables hold nothing of the topic, and it is not configured.
    #[error("topic {topic:?} is not configured, and the tables have no messages of it: use one of {known:?}")]
    NoSuchTopic {
        /// The topic.
        topic: String,
        /// The topics that are configured, or have messages.
        known: Vec<String>,
    },
    /// The period is empty.
    #[error("the period is empty: give a `since` before `until`, and before the present of the database's clock")]
    EmptyPeriod,
    /// The tables could not be read.
    #[error(transparent)]
    Admin(#[from] AdminError),
    /// The topic could not be read.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// The files with what is compared could not be written or read.
    #[error(
        "the temporary files in {folder} could not be written or read: {error}; they need 86 bytes for each row and each record"
    )]
    Files {
        /// Where they are.
        folder: String,
        /// What happened.
        error: io::Error,
    },
}
