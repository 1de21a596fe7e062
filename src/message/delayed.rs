use std::borrow::Cow;

use super::{Delayed, Delivery, Headers, OutboxMessage};
use crate::codec::CodecError;

impl<M: OutboxMessage> OutboxMessage for Delayed<M> {
    const TOPIC: Option<&'static str> = M::TOPIC;
    const KIND: &'static str = M::KIND;
    const KINDS: &'static [&'static str] = M::KINDS;
    const FINGERPRINTS: &'static [&'static str] = M::FINGERPRINTS;

    fn fingerprint(&self) -> Option<&'static str> {
        self.event.fingerprint()
    }
    fn topic(&self) -> Cow<'_, str> {
        self.event.topic()
    }
    fn kind(&self) -> Cow<'_, str> {
        self.event.kind()
    }
    fn key(&self) -> Option<Cow<'_, str>> {
        self.event.key()
    }
    fn headers(&self) -> Headers {
        self.event.headers()
    }
    fn payload(&self) -> Result<Option<Vec<u8>>, CodecError> {
        self.event.payload()
    }
    fn payload_text(payload: &[u8]) -> Result<String, CodecError> {
        M::payload_text(payload)
    }
    fn check_codec() -> Result<(), CodecError> {
        M::check_codec()
    }
    fn delivery(&self) -> Delivery {
        self.delivery
    }
}
