use std::fmt;
use std::sync::Arc;

use super::client::Client;
use super::error::NotSent;
use super::metadata_lookup::LookupRequest;
use super::murmur2;
use super::partitions::{Admission, PartitionPermit};
use crate::message::Envelope;
use crate::panic_guard::catch_panic;
use crate::transport::{FailureClass, TransportError};

type PartitionFnInner = dyn Fn(&Envelope, i32) -> Option<i32> + Send + Sync;

pub(super) struct PartitionFn(pub(super) Box<PartitionFnInner>);

impl fmt::Debug for PartitionFn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("closure")
    }
}

/// Chooses partitions, as far as that is not left to the client.
#[derive(Debug)]
pub(super) struct Partitioner {
    pub(super) client: Arc<Client>,
    /// Whether the client hashes keys as we do.
    pub(super) hashes_by_murmur2: bool,
    pub(super) partition_with: Option<PartitionFn>,
}

impl Partitioner {
    /// A message's partition, and its permit there.
    pub(super) fn place(&self, envelope: &Envelope) -> Result<(Option<i32>, Option<PartitionPermit>), TransportError> {
        let topic = &envelope.topic;
        let chooses = self.partition_with.is_some() || (envelope.key.is_some() && self.hashes_by_murmur2);
        if !chooses {
            return Ok((None, None));
        }
        let Some(slots) = self.client.partitions.of(topic) else {
            self.client.lookups.request(LookupRequest::Topic(Arc::clone(topic)));
            return match self.partition_with {
                // Sent anywhere else, consumers would look for the message in the wrong partition.
                Some(_) => Err(not_sent(FailureClass::Temporary, NotSent::CountUnknown { topic: Arc::clone(topic) })),
                None => Ok((None, None)),
            };
        };
        let count = i32::try_from(slots.len()).unwrap_or(i32::MAX);
        let chosen = match &self.partition_with {
            Some(PartitionFn(choose)) => {
                catch_panic("partition", topic, || choose(envelope, count)).ok_or_else(|| {
                    not_sent(FailureClass::Record, NotSent::PartitionFnPanicked { topic: Arc::clone(topic) })
                })?
            }
            None => None,
        };
        let hashed = || {
            let key = envelope.key.as_deref().filter(|_| self.hashes_by_murmur2)?;
            Some(murmur2::partition_of(key.as_bytes(), count))
        };
        let Some(partition) = chosen.or_else(hashed) else { return Ok((None, None)) };
        let slot = usize::try_from(partition).ok().and_then(|index| slots.get(index));
        let Some(slot) = slot else {
            let error = NotSent::NoSuchPartition { topic: Arc::clone(topic), chosen: partition, count };
            return Err(not_sent(FailureClass::Record, error));
        };
        let (admission, place) = slot.enter();
        if admission != Admission::Open {
            self.client.lookups.request(LookupRequest::Topic(Arc::clone(topic)));
        }
        if admission == Admission::Closed {
            let error = NotSent::Stalled { topic: Arc::clone(topic), partition };
            return Err(not_sent(FailureClass::Temporary, error));
        }
        Ok((Some(partition), place))
    }
}

fn not_sent(class: FailureClass, error: NotSent) -> TransportError {
    TransportError::new(class, error)
}
