use std::fmt;
use std::time::Duration;

type Source = Box<dyn std::error::Error + Send + Sync>;

/// Why a store could not do what it was asked.
///
/// ```
/// use std::time::Duration;
/// use diesel_outbox::store::StoreError;
/// assert!(StoreError::TimedOut { after: Duration::from_secs(5) }.is_retriable());
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The database cannot be reached, or the pool gave no connection.
    #[error("the database cannot be reached: {0}")]
    Unreachable(#[source] Source),
    /// The statement did not answer in time, or the server gave it up as slow; its connection is not used again.
    #[error("the database did not answer within {after:?}")]
    TimedOut {
        /// The client-side deadline.
        after: Duration,
    },
    /// A deadlock, a lock time-out, a serialization failure or a busy database: the same statement may succeed next time.
    #[error("the database could not run the statement now: {0}")]
    Conflict(#[source] Source),
    /// The tables are missing, of another version, or not what a relay can work with.
    #[error("{0}")]
    Schema(SchemaProblem),
    /// The statement failed, and would again.
    #[error("the statement failed: {0}")]
    Statement(#[source] Source),
}

impl StoreError {
    /// Whether the same call may succeed later without anybody changing anything.
    pub fn is_retriable(&self) -> bool {
        match self {
            Self::Unreachable(_) | Self::TimedOut { .. } | Self::Conflict(_) => true,
            Self::Schema(_) | Self::Statement(_) => false,
        }
    }

    /// Of a missing table, with the migration that makes it; every other error as it is.
    #[cfg(any(feature = "postgres", feature = "mysql", feature = "sqlite"))]
    pub(crate) fn with_migration(self, migration: &'static str) -> Self {
        match self {
            Self::Schema(SchemaProblem::Missing { table }) => {
                Self::Schema(SchemaProblem::NotMigrated { table, migration })
            }
            error => error,
        }
    }
}

/// What is wrong with the tables or the database's settings, and what to do.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum SchemaProblem {
    /// A table is not there.
    Missing {
        /// Its name with its schema.
        table: String,
    },
    /// A table is not there that a later migration makes, and that only those need who use what it is for.
    NotMigrated {
        /// Its name with its schema.
        table: String,
        /// The migration.
        migration: &'static str,
    },
    /// A table is there, but of another version.
    Version {
        /// Its name with its schema.
        table: String,
        /// The version found; `None` where the table carries no mark of ours.
        found: Option<u32>,
        /// The version needed.
        needed: u32,
    },
    /// A topic's lanes are of another number than configured.
    LaneCount {
        /// The topic.
        topic: String,
        /// The lanes it has.
        found: usize,
        /// The lanes it is to have.
        configured: u16,
    },
    /// A topic has rows that were written for another number of lanes.
    LaneOfRow {
        /// The topic.
        topic: String,
        /// The lanes it is to have.
        configured: u16,
    },
    /// A topic without order has rows in lanes, which nobody would read.
    OrderedRows {
        /// The topic.
        topic: String,
    },
    /// A setting under which statements would do something else than they say.
    Setting {
        /// What was found.
        found: String,
        /// What to do about it.
        remedy: &'static str,
    },
}

impl fmt::Display for SchemaProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing { table } => write!(
                f,
                "the table {table} is missing: run the outbox's migrations (diesel_outbox::migrations, or copy their SQL), \
                 or name the schema and prefix it has with Outbox::builder().tables(..)"
            ),
            Self::NotMigrated { table, migration } => write!(
                f,
                "the table {table} is missing: run the outbox's migration {migration} (diesel_outbox::migrations, or copy its SQL)"
            ),
            Self::Version { table, found: Some(found), needed } => write!(
                f,
                "the table {table} is of version {found}, this release needs {needed}: run the outbox's migrations of this release"
            ),
            Self::Version { table, found: None, needed } => write!(
                f,
                "the table {table} carries no version mark of diesel-outbox (needed: {needed}): it is somebody else's table \
                 or was made without the outbox's migrations"
            ),
            Self::LaneCount { topic, found, configured } => write!(
                f,
                "the ordered topic {topic:?} has {found} lanes, and {configured} are configured: keys would change their lane \
                 and overtake their own messages. Configure .lanes({found}); to change it, stop what enqueues to the topic, let \
                 the relays drain it, stop them, delete its rows from the table of lanes, and start everything with the new number"
            ),
            Self::LaneOfRow { topic, configured } => write!(
                f,
                "the ordered topic {topic:?} has messages that were enqueued for another number of lanes than {configured}: \
                 they would never be sent in order. Configure the number they were enqueued with, and let a relay drain them"
            ),
            Self::OrderedRows { topic } => write!(
                f,
                "the topic {topic:?} is not ordered, and has messages that were enqueued while it was: nobody would send them. \
                 Let a relay with .ordered_by_key() drain them; or give their order up, and set lane = -1 where \
                 topic = '{topic}' in the table of messages"
            ),
            Self::Setting { found, remedy } => write!(f, "{found}: {remedy}"),
        }
    }
}
