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
    /// This outbox already has a relay.
    #[error("this process already runs a relay of this outbox: shut it down first, or share it")]
    AlreadyRunning,
    /// A message could still be in flight when its lease ends, and another holder would send it too.
    #[error(
        "the delivery time-out ({delivery_timeout:?}) of the transport {transport:?} plus lease_margin_duration ({margin:?}) must be below \
         lease_duration ({lease:?}): shorten the time-out, or give limits with a longer lease_duration"
    )]
    DeliveryTimeout {
        /// The transport's name.
        transport: Arc<str>,
        /// The transport's delivery time-out.
        delivery_timeout: Duration,
        /// `Limits::lease_margin_duration`.
        margin: Duration,
        /// `Limits::lease_duration`.
        lease: Duration,
    },
    /// A topic is fenced, and its transport does not support fencing.
    #[error(
        "topic {topic:?} is fenced, and the transport {transport:?} does not support fencing: leave .fenced() out, or send the topic via \
         Kafka"
    )]
    CannotFence {
        /// The topic.
        topic: Arc<str>,
        /// The transport's name.
        transport: Arc<str>,
    },
    /// A topic is exactly once, and its transport does not support that.
    #[error(
        "topic {topic:?} is exactly once, and the transport {transport:?} does not support that: leave .exactly_once() out, or send the \
         topic via Kafka"
    )]
    CannotSendOnce {
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
        "the store's pool has at most {has} connections, and the relay needs {needs} with these transports and limits: set \
         max_size({needs}) or more, or let the store open its own connections with connect(..)"
    )]
    PoolTooSmall {
        /// The pool's maximum.
        has: usize,
        /// The relay's minimum.
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
