use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use super::panicked::RelayPanicked;
use super::routes::RoutingProblem;
use crate::store::{SchemaProblem, StoreError};
use crate::transport::TransportError;

/// Why a relay does not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// No store was given.
    #[error("the relay has no store: give it one with .store(..)")]
    NoStore,
    /// No transport was given.
    #[error("the relay has no transport: give it one with .transport(..)")]
    NoTransport,
    /// A topic is ordered, and the store does not support lanes.
    #[error("a topic is ordered by key, and this store has no lanes: use the store of PostgreSQL, MySQL, SQLite or memory")]
    NoLanes,
    /// A topic has `keep_sent_days` or `keep_dead_days`, and the store does not support a history.
    #[error(
        "a topic has keep_sent_days or keep_dead_days, and this store has no history: use the store of PostgreSQL, MySQL, SQLite or memory"
    )]
    NoHistory,
    /// A relay of this outbox already runs in this process.
    #[error("a relay of this outbox runs already in this process: shut it down first, or share it")]
    AlreadyRunning,
    /// The transport's delivery time-out does not fit into the lease. A message could still be in flight when its lease ends, and
    /// another relay would send it, too.
    #[error(
        "the delivery time-out ({delivery_timeout:?}) of the transport {transport:?} and the margin ({margin:?}) are not below the lease \
         ({lease:?}): shorten the time-out or give limits with a longer lease_duration"
    )]
    DeliveryTimeout {
        /// The transport's name.
        transport: Arc<str>,
        /// The transport's delivery time-out.
        delivery_timeout: Duration,
        /// `Limits::term_margin_duration`.
        margin: Duration,
        /// `Limits::lease_duration`.
        lease: Duration,
    },
    /// A topic is fenced, and its transport does not support fencing.
    #[error(
        "topic {topic:?} is fenced, and the transport {transport:?} cannot fence: leave .fenced() out, or send it via Kafka"
    )]
    CannotFence {
        /// The topic.
        topic: Arc<str>,
        /// The transport's name.
        transport: Arc<str>,
    },
    /// A limit has a value that cannot work.
    #[error(transparent)]
    Limits(LimitsProblem),
    /// The tables are missing or have another version, or a setting of the database prevents their use.
    #[error("{0}")]
    Schema(SchemaProblem),
    /// The database refuses the login: the user, the password or the name of the database is wrong.
    #[error("the relay does not start: {0}")]
    Refused(StoreError),
    /// The store's pool is too small: the relay would wait for its own connections.
    #[error(
        "the pool of the relay's store has at most {has} connections, and with these transports and limits the relay needs {needs}: set \
         max_size({needs}) or more, or let the store make its own connections with connect(..)"
    )]
    PoolTooSmall {
        /// The most connections that the pool opens.
        has: usize,
        /// The fewest connections that the relay needs.
        needs: usize,
    },
    /// The database answered the check of the tables with an error.
    #[error("the outbox's tables could not be checked: {0}")]
    Store(StoreError),
    /// Topics and transports do not fit together.
    #[error(transparent)]
    Routing(#[from] RoutingProblem),
    /// The broker answers, but its topics do not match the configuration.
    #[error("the transport {transport:?} is not as configured: {error}")]
    Transport {
        /// The transport's name.
        transport: Arc<str>,
        /// The differences.
        error: TransportError,
    },
    /// The operating system could not provide the thread or runtime of a blocking relay.
    #[error("the relay's thread could not be started: {0}")]
    Runtime(std::io::Error),
    /// The thread of a blocking relay panicked before the relay ran.
    #[error(transparent)]
    Panicked(RelayPanicked),
}

/// A limit with a value that cannot work: zero, or a value that another limit or a topic does not allow.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the limit {name} {problem}")]
pub struct LimitsProblem {
    pub(in crate::relay) name: &'static str,
    pub(in crate::relay) problem: Cow<'static, str>,
}
