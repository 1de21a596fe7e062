use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use super::panicked::RelayPanicked;
use crate::store::{SchemaProblem, StoreError};
use crate::transport::TransportError;

/// Why a relay does not start, or why several [`Relays`](crate::relay::Relays) do not.
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
    /// A limit has a value that cannot work: zero, or a value that another limit or a topic does not allow.
    #[error("the limit {name} {problem}")]
    Limit {
        /// Its name.
        name: &'static str,
        /// What is wrong with it, and what to do.
        problem: Cow<'static, str>,
    },
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
    /// A topic names a transport that the relay does not have.
    #[error(
        "topic {topic:?} goes via the transport {transport:?}, which the relay does not have (it has {known:?}): \
         add it with .transport_named({transport:?}, ..), or change Topic::via"
    )]
    UnknownTransport {
        /// The topic.
        topic: Arc<str>,
        /// The name.
        transport: Arc<str>,
        /// The names that the relay has.
        known: Vec<Arc<str>>,
    },
    /// A topic names no transport, and the relay has no default transport.
    #[error(
        "topic {topic:?} names no transport, and the relay has no default transport: add one with .transport(..), or \
         name one with Topic::via"
    )]
    NoDefaultTransport {
        /// The topic.
        topic: Arc<str>,
    },
    /// Two transports have the same name.
    #[error(
        "two transports are named {transport:?}: give each its own name with .transport_named(..), and name it in \
         Topic::via"
    )]
    DuplicateTransport {
        /// Their name.
        transport: Arc<str>,
    },
    /// No topic uses the transport; among several relays, no topic of any.
    #[error(
        "no topic goes via the transport {transport:?}, so it would never send anything: name it with \
         Topic::via({transport:?}), or leave the transport out"
    )]
    UnusedTransport {
        /// Its name.
        transport: Arc<str>,
    },
    /// [`Relays`](crate::relay::Relays) have none.
    #[error("no relay was given: add one with .relay(\"name\", outbox.relay().store(..))")]
    NoRelays,
    /// Two of [`Relays`](crate::relay::Relays) have the same name.
    #[error("two relays have the name {relay:?}: give each database its own name")]
    DuplicateRelay {
        /// The name.
        relay: Arc<str>,
    },
    /// One of [`Relays`](crate::relay::Relays) does not start.
    #[error("the relay {relay:?} does not start: {error}")]
    Relay {
        /// Its name.
        relay: Arc<str>,
        /// Why.
        error: Box<StartError>,
    },
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
