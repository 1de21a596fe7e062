use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::{Arc, Weak};
use std::thread;

use super::client::Client;
use super::config::KafkaConfigError;
use crate::limits::{KAFKA_COUNTS_INTERVAL, KAFKA_LOOK_UP_TIMEOUT};

/// Answers the asks, and reads every known topic's partitions again from time to time, until the client is gone.
pub(super) fn start(client: Weak<Client>, asks: Receiver<Arc<str>>) -> Result<(), KafkaConfigError> {
    let run = move || {
        loop {
            let asked = asks.recv_timeout(KAFKA_COUNTS_INTERVAL);
            let Some(client) = client.upgrade() else { return };
            let look_up = |topic: &Arc<str>| client.look_up(topic, KAFKA_LOOK_UP_TIMEOUT);
            match asked {
                Ok(topic) => look_up(&topic),
                Err(RecvTimeoutError::Timeout) => client.known_topics().iter().for_each(look_up),
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    };
    let started = thread::Builder::new().name("outbox-kafka-topics".to_owned()).spawn(run);
    started.map(drop).map_err(|error| KafkaConfigError::Client { problem: error.to_string() })
}
