//! Transactional outbox for Diesel.
#![forbid(unsafe_code)]

pub mod codec;
mod message;

pub use codec::CodecError;
pub use message::{Envelope, HeaderError, Headers, Message, MessageId, OutboxMessage};
