use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::{Arc, Weak};
use std::thread;

use super::client::Client;
use super::config::KafkaConfigError;
use super::look_up::Ask;
use crate::limits::{KAFKA_COUNTS_INTERVAL, KAFKA_LOOK_UP_INTERVAL_MIN, KAFKA_LOOK_UP_TIMEOUT};

/// Starts the thread that waits for metadata, so that nobody else has to. It ends with the client.
///
/// While no broker is connected it asks for one: the client does not say when it is connected again, and without
/// messages it does not even try.
pub(super) fn start(client: Weak<Client>, asked: Receiver<Ask>) -> Result<(), KafkaConfigError> {
    let run = move || {
        let mut is_down = false;
        loop {
            let within = if is_down { KAFKA_LOOK_UP_INTERVAL_MIN } else { KAFKA_COUNTS_INTERVAL };
            let ask = asked.recv_timeout(within);
            let Some(client) = client.upgrade() else { return };
            let look_up = |topic: &Arc<str>| client.look_up(topic, KAFKA_LOOK_UP_TIMEOUT);
            // A look-up that fails is asked for again by the next message, and the other topics' would fail as well.
            let _ = match &ask {
                Ok(Ask::Topic(topic)) => look_up(topic),
                Ok(Ask::Life) => Ok(()),
                Err(RecvTimeoutError::Timeout) if is_down => Ok(()),
                Err(RecvTimeoutError::Timeout) => client.known_topics().iter().try_for_each(look_up),
                Err(RecvTimeoutError::Disconnected) => return,
            };
            // Done before the look at the brokers: an ask that comes later than that is heard again.
            ask.into_iter().for_each(|ask| client.look_ups.done(ask));
            is_down = !client.revives(KAFKA_LOOK_UP_TIMEOUT);
        }
    };
    let started = thread::Builder::new().name("outbox-kafka-topics".to_owned()).spawn(run);
    started.map(drop).map_err(|error| KafkaConfigError::Client { problem: error.to_string() })
}
