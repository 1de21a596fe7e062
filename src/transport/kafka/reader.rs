use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::{Arc, Weak};
use std::thread;

use super::client::Client;
use super::config::KafkaConfigError;
use super::metadata_lookup::LookupRequest;
use crate::limits::{KAFKA_LOOKUP_INTERVAL_MIN, KAFKA_LOOKUP_TIMEOUT, KAFKA_PARTITION_COUNT_INTERVAL};

/// Starts the thread that waits for metadata, so that nobody else has to. It ends with the client.
///
/// While no broker is connected it keeps asking for one. The client does not report when it is connected again, and
/// without messages it does not even try.
pub(super) fn start(client: Weak<Client>, requests: Receiver<LookupRequest>) -> Result<(), KafkaConfigError> {
    let run = move || {
        let mut is_down = false;
        loop {
            let within = if is_down { KAFKA_LOOKUP_INTERVAL_MIN } else { KAFKA_PARTITION_COUNT_INTERVAL };
            let request = requests.recv_timeout(within);
            let Some(client) = client.upgrade() else { return };
            let look_up = |topic: &Arc<str>| client.refresh_partitions(topic, KAFKA_LOOKUP_TIMEOUT);
            // After a failed look-up, the next message asks again. Other topics would fail as well.
            let _ = match &request {
                Ok(LookupRequest::Topic(topic)) => look_up(topic),
                Ok(LookupRequest::Reachability) => Ok(()),
                Err(RecvTimeoutError::Timeout) if is_down => Ok(()),
                Err(RecvTimeoutError::Timeout) => client.known_topics().iter().try_for_each(look_up),
                Err(RecvTimeoutError::Disconnected) => return,
            };
            // Marked as done before the brokers are checked, so that a later request is not lost.
            request.into_iter().for_each(|request| client.lookups.done(request));
            is_down = !client.is_reachable(KAFKA_LOOKUP_TIMEOUT);
        }
    };
    let started = thread::Builder::new().name("outbox-kafka-topics".to_owned()).spawn(run);
    started.map(drop).map_err(|error| KafkaConfigError::Client { problem: error.to_string() })
}
