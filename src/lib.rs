//! Transactional outbox for Diesel.
#![forbid(unsafe_code)]

pub mod clock;
pub mod codec;
#[cfg(not(feature = "_failpoints"))]
mod crash_points;
#[cfg(feature = "_failpoints")]
#[doc(hidden)]
pub mod crash_points;
pub mod limits;
mod message;
pub mod metrics;
#[cfg(any(feature = "postgres", feature = "mysql", feature = "sqlite"))]
pub mod migrations;
mod naming;
pub mod relay;
pub mod retry;
pub mod store;
#[cfg(feature = "testing")]
pub mod testing;
mod topic;
pub mod transport;

pub use codec::CodecError;
#[cfg(feature = "derive")]
pub use diesel_outbox_derive::OutboxMessage;
pub use limits::Limits;
pub use message::{Envelope, HeaderError, Headers, Message, MessageId, OutboxMessage};
pub use naming::{NameError, TableNames};
pub use topic::{Topic, TopicError};
