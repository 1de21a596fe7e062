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
    /// A topic is ordered, and the store knows no lanes.
    #[error(
        "a topic is ordered by key, and this store knows no lanes: implement Store::lanes, or use a store that does"
    )]
    NoLanes,
    /// A topic keeps sent messages or ages dead letters out, and the store has no part for that.
    #[error(
        "a topic has keep_sent_days or keep_dead_days, and this store keeps nothing: implement Store::history, or use a store that does"
    )]
    NoHistory,
    /// This outbox has a relay already.
    #[error("a relay of this outbox runs already in this process: shut it down first, or share it")]
    AlreadyRunning,
    /// A message could still be under way when its lease ends, and another holder would send it too.
    #[error(
        "the delivery time-out ({delivery_timeout:?}) of the transport {transport:?} and the margin ({margin:?}) are not below the lease \
         ({lease:?}): shorten the time-out or give limits with a longer lease_duration"
    )]
    DeliveryTimeout {
        /// The transport's name.
        transport: Arc<str>,
        /// The transport's.
        delivery_timeout: Duration,
        /// `Limits::term_margin_duration`.
        margin: Duration,
        /// `Limits::lease_duration`.
        lease: Duration,
    },
    /// A topic is fenced, and its transport cannot fence.
    #[error(
        "topic {topic:?} is fenced, and the transport {transport:?} cannot fence: leave .fenced() out, or send it via Kafka"
    )]
    CannotFence {
        /// The topic.
        topic: Arc<str>,
        /// The transport's name.
        transport: Arc<str>,
    },
    /// A limit makes no sense.
    #[error(transparent)]
    Limits(LimitsProblem),
    /// The tables are missing, of another version, or the database is set so that they cannot be used.
    #[error("{0}")]
    Schema(SchemaProblem),
    /// The database does not let the relay in: the user, the password or the name of the database is wrong.
    #[error("the relay does not start: {0}")]
    Refused(StoreError),
    /// The store's pool is so small that the relay would wait for itself.
    #[error(
        "the pool of the relay's store has at most {has} connections, and with these transports and limits the relay needs {needs}: set \
         max_size({needs}) or more, or let the store make its own connections with connect(..)"
    )]
    PoolTooSmall {
        /// What the pool has at most.
        has: usize,
        /// What the relay needs at least.
        needs: usize,
    },
    /// The database refused the check.
    #[error("the outbox's tables could not be checked: {0}")]
    Store(StoreError),
    /// Topics and transports do not fit together.
    #[error(transparent)]
    Routing(#[from] RoutingProblem),
    /// The broker is there, and does not fit the configuration.
    #[error("the transport {transport:?} is not as configured: {error}")]
    Transport {
        /// The transport's name.
        transport: Arc<str>,
        /// What does not fit.
        error: TransportError,
    },
    /// The thread or runtime of a blocking relay could not be made.
    #[error("the relay's thread could not be started: {0}")]
    Runtime(std::io::Error),
    /// The thread of a blocking relay panicked before the relay ran.
    #[error(transparent)]
    Panicked(RelayPanicked),
}

/// A limit with which nothing would ever happen, or too much: zero, or one that another limit or a topic does not allow.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the limit {name} {problem}")]
pub struct LimitsProblem {
    pub(in crate::relay) name: &'static str,
    pub(in crate::relay) problem: Cow<'static, str>,
}
