use std::fmt;
use std::time::Duration;

type Source = Box<dyn std::error::Error + Send + Sync>;

/// Why a store call failed, or why a store cannot be made.
///
/// ```
/// use std::time::Duration;
/// use diesel_outbox::store::StoreError;
/// assert!(StoreError::TimedOut { after: Duration::from_secs(5) }.is_retriable());
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The database cannot be reached, or the pool provided no connection.
    #[error("the database cannot be reached: {0}")]
    Unreachable(Source),
    /// The database answers, but refuses the login.
    #[error(
        "the database refuses the login: {0}: check that the user and the database exist, and correct the user, the password and the name of the database"
    )]
    Refused(Source),
    /// The statement did not answer in time, or the server cancelled it as slow. Its connection is not used again.
    #[error("the database did not answer within {after:?}")]
    TimedOut {
        /// The client-side deadline.
        after: Duration,
    },
    /// A deadlock, a lock time-out, a serialization failure or a busy database: the same statement may succeed next time.
    #[error("the database cannot run the statement now: {0}")]
    Conflict(Source),
    /// The tables are missing, have another version, or do not fit the relay.
    #[error("{0}")]
    Schema(SchemaProblem),
    /// The statement failed, and would fail again.
    #[error("the statement failed: {0}")]
    Statement(Source),
    /// The URL or path that was given to `connect` cannot be used: why, and what to do.
    #[error("{0}")]
    Url(String),
}

impl StoreError {
    /// Whether the same call may succeed later without anybody changing anything.
    pub fn is_retriable(&self) -> bool {
        match self {
            Self::Unreachable(_) | Self::Refused(_) | Self::TimedOut { .. } | Self::Conflict(_) => true,
            Self::Schema(_) | Self::Statement(_) | Self::Url(_) => false,
        }
    }

    /// Whether a table is missing that a migration of its own creates.
    pub(crate) fn is_not_migrated(&self) -> bool {
        matches!(self, Self::Schema(SchemaProblem::NotMigrated { .. }))
    }

    /// Adds the migration that creates the table to the error of a missing table. Other errors stay as they are.
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

/// A store's pool has fewer connections than its relay needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooFewConnections {
    /// The pool's maximum.
    pub has: usize,
    /// The relay's minimum.
    pub needs: usize,
}

/// What is wrong with the tables or the database's settings, and what to do.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum SchemaProblem {
    /// A table is missing.
    Missing {
        /// Its name with its schema.
        table: String,
    },
    /// A table is missing that a later migration creates, and that only some features need.
    NotMigrated {
        /// Its name with its schema.
        table: String,
        /// The migration.
        migration: &'static str,
    },
    /// A table exists, but in another version.
    Version {
        /// Its name with its schema.
        table: String,
        /// The version found; `None` if the table has no version comment of this library.
        found: Option<u32>,
        /// The version needed.
        needed: u32,
    },
    /// A topic has another number of lanes than configured.
    LaneCount {
        /// The topic.
        topic: String,
        /// The lanes it has.
        found: usize,
        /// The configured lanes.
        configured: u16,
    },
    /// A topic has rows that were written for another number of lanes.
    LaneOfRow {
        /// The topic.
        topic: String,
        /// The configured lanes.
        configured: u16,
    },
    /// An unordered topic has rows in lanes, which nobody would read.
    OrderedRows {
        /// The topic.
        topic: String,
    },
    /// A setting that changes what the statements mean.
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
                "the table {table} is missing: run the outbox's migrations (outbox.migrate(&mut conn), or copy their SQL), \
                 or set its schema and prefix with Outbox::builder().tables(..)"
            ),
            Self::NotMigrated { table, migration } if migration.starts_with("0000consumer") => write!(
                f,
                "the table {table} is missing: a consumer's migration {migration} creates it (consumer.migrate(&mut conn), or copy its SQL)"
            ),
            Self::NotMigrated { table, migration } => write!(
                f,
                "the table {table} is missing: run the outbox's migration {migration} (outbox.migrate(&mut conn), or copy its SQL)"
            ),
            Self::Version { table, found: Some(found), needed } => write!(
                f,
                "the table {table} is of version {found}, but this release needs {needed}: run the outbox's migrations of this release"
            ),
            Self::Version { table, found: None, needed } => write!(
                f,
                "the table {table} carries no version mark of diesel-outbox (needed: {needed}): it is another table of that \
                 name, or was created without the outbox's migrations. Run the migrations, or set another schema or prefix"
            ),
            Self::LaneCount { topic, found, configured } => write!(
                f,
                "the ordered topic {topic:?} has {found} lanes, and {configured} are configured: keys would change lanes \
                 and their messages would lose their order. Configure .lanes({found}). To change the number, stop everything that \
                 enqueues to the topic, let the relays drain it, stop them, delete its rows from the table of lanes, and start \
                 everything with the new number"
            ),
            Self::LaneOfRow { topic, configured } => write!(
                f,
                "the ordered topic {topic:?} has messages that were enqueued for another number of lanes than {configured}: \
                 they would never be sent in order. Configure the number they were enqueued with, and let a relay drain them"
            ),
            Self::OrderedRows { topic } => write!(
                f,
                "the topic {topic:?} is not ordered, and has messages that were enqueued while it was: nobody would send them. \
                 Let a relay with .ordered_by_key() drain them; or give up their order, and set lane = -1 where \
                 topic = '{topic}' in the table of messages"
            ),
            Self::Setting { found, remedy } => write!(f, "{found}: {remedy}"),
        }
    }
}
