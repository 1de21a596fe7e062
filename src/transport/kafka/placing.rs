use std::fmt;
use std::sync::Arc;

use super::client::Client;
use super::error::NotSent;
use super::look_up::Ask;
use super::murmur2;
use super::partitions::{Entrance, Place};
use crate::guarded::guarded;
use crate::message::Envelope;
use crate::transport::{FailureClass, TransportError};

type ChooseFn = dyn Fn(&Envelope, i32) -> Option<i32> + Send + Sync;

pub(super) struct Choose(pub(super) Box<ChooseFn>);

impl fmt::Debug for Choose {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("closure")
    }
}

/// Where messages go, as far as that is ours to say.
#[derive(Debug)]
pub(super) struct Placing {
    pub(super) client: Arc<Client>,
    /// Whether the client hashes keys as we do.
    pub(super) hashes_by_murmur2: bool,
    pub(super) partition_with: Option<Choose>,
}

impl Placing {
    /// Where a message goes, and the place it takes there.
    pub(super) fn place(&self, envelope: &Envelope) -> Result<(Option<i32>, Option<Place>), TransportError> {
        let topic = &envelope.topic;
        let chooses = self.partition_with.is_some() || (envelope.key.is_some() && self.hashes_by_murmur2);
        if !chooses {
            return Ok((None, None));
        }
        let Some(slots) = self.client.partitions.of(topic) else {
            self.client.look_ups.ask(Ask::Topic(Arc::clone(topic)));
            return match self.partition_with {
                // Sent anywhere else, the message would be where nobody looks for it.
                Some(_) => Err(not_sent(FailureClass::Temporary, NotSent::CountUnknown { topic: Arc::clone(topic) })),
                None => Ok((None, None)),
            };
        };
        let count = i32::try_from(slots.len()).unwrap_or(i32::MAX);
        let chosen = match &self.partition_with {
            Some(Choose(choose)) => guarded("partition", topic, || choose(envelope, count))
                .ok_or_else(|| not_sent(FailureClass::Record, NotSent::ChoosePanicked { topic: Arc::clone(topic) }))?,
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
        let (entrance, place) = slot.enter();
        if entrance != Entrance::Open {
            self.client.look_ups.ask(Ask::Topic(Arc::clone(topic)));
        }
        if entrance == Entrance::Closed {
            let error = NotSent::Stalled { topic: Arc::clone(topic), partition };
            return Err(not_sent(FailureClass::Temporary, error));
        }
        Ok((Some(partition), place))
    }
}

fn not_sent(class: FailureClass, error: NotSent) -> TransportError {
    TransportError::new(class, error)
}
