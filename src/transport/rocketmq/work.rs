use std::sync::Arc;
use std::time::Duration;

use rocketmq_client_rust::SendStatus;
use tokio::time::{Instant, timeout, timeout_at};

use super::batch::Content;
use super::classify::{CallError, ErrorSource, TOPIC_NOT_EXIST};
use super::client::Client;
use super::error::NotSent;
use super::nodes;
use super::queues::{self, Queue};
use super::record;
use super::send_queue::{PendingOutcome, QueuedMessage, SendQueue, split_expired};
use super::topics::Topic;
use crate::limits::ROCKETMQ_BATCH_BYTES_MAX;
use crate::transport::{FailureClass, Outcome, TransportError};

/// Puts messages in their send queues, in this order, and starts the workers that are missing.
pub(super) fn hand_over(client: &Arc<Client>, entries: Vec<QueuedMessage>) {
    let mut entries = entries.into_iter().peekable();
    while let Some(first) = entries.next() {
        let topic = client.topics.of(&first.envelope.topic, &client.config);
        let mut together = vec![first];
        together.extend(std::iter::from_fn(|| entries.next_if(|next| next.envelope.topic == topic.name)));
        hand_over_of(client, &topic, together);
    }
}

fn hand_over_of(client: &Arc<Client>, topic: &Arc<Topic>, entries: Vec<QueuedMessage>) {
    if !topic.is_legal {
        return fail(entries.into_iter().map(|entry| entry.held), || {
            TransportError::new(FailureClass::Topic, NotSent::TopicName { topic: Arc::clone(&topic.name) })
        });
    }
    let next = topic.hand_over(entries, &client.health);
    if next.reads {
        client.runtime.spawn(read(Arc::clone(client), Arc::clone(topic)));
    }
    // Only now, so that a first request carries everything that arrived with its first message.
    next.starts.into_iter().for_each(|send_queue| start(client, topic, send_queue));
}

fn start(client: &Arc<Client>, topic: &Arc<Topic>, send_queue: Arc<SendQueue>) {
    client.runtime.spawn(work(Arc::clone(client), Arc::clone(topic), send_queue));
}

/// Sends what is in a send queue until it is empty.
async fn work(client: Arc<Client>, topic: Arc<Topic>, send_queue: Arc<SendQueue>) {
    // A batch is one message to the broker, and its frames add to its size: half of the limit leaves room for them.
    let bytes_max = ROCKETMQ_BATCH_BYTES_MAX.min(client.config.message_bytes_max / 2);
    loop {
        let entries = send_queue.next(topic.batches, bytes_max);
        if entries.is_empty() {
            return;
        }
        if client.is_closed() {
            return entries.into_iter().for_each(QueuedMessage::abandon);
        }
        deliver(&client, &topic, &send_queue.queue, entries).await;
    }
}

async fn deliver(client: &Arc<Client>, topic: &Arc<Topic>, queue: &Queue, entries: Vec<QueuedMessage>) {
    if let Some(class) = client.health.outage().map(|outage| outage.class()) {
        return fail(entries.into_iter().map(|entry| entry.held), || {
            client.health.outage().unwrap_or_else(|| CallError::new(class, "an outage that is over").error())
        });
    }
    // A slow start of the library counts like the wait in the queue.
    let connection = client.connection().await;
    let (entries, expired) = split_expired(entries, wait_max(client));
    for entry in expired {
        let waited = entry.handed_at.elapsed();
        entry.held.complete(Outcome::Failed(TransportError::new(FailureClass::Temporary, NotSent::Overdue { waited })));
    }
    let (mut sent, mut records) = (Vec::with_capacity(entries.len()), Vec::with_capacity(entries.len()));
    for QueuedMessage { envelope, held, .. } in entries {
        match record::of(envelope, &client.config) {
            Ok(record) => {
                records.push(record);
                sent.push(held);
            }
            Err(error) => held.complete(Outcome::Failed(TransportError::new(FailureClass::RecordRefused, error))),
        }
    }
    let Some(content) = Content::of(records) else { return };
    match client.send(connection, content, &topic.wire_name, queue).await.and_then(|status| accepted(client, status)) {
        Ok(()) => sent.into_iter().for_each(|held| held.complete(Outcome::Delivered)),
        Err(call_error) => {
            if call_error.origin == ErrorSource::Broker(TOPIC_NOT_EXIST) {
                topic.forget();
            }
            let is_stale = matches!(call_error.class, FailureClass::Topic | FailureClass::Connection);
            if is_stale && topic.request_refresh() {
                client.runtime.spawn(read(Arc::clone(client), Arc::clone(topic)));
            }
            fail(sent, || to_transport_error(client, &call_error));
        }
    }
}

/// A stored message counts as delivered only if it is stored as safely as configured.
pub(super) fn accepted(client: &Client, status: SendStatus) -> Result<(), CallError> {
    match status {
        SendStatus::SendOk => Ok(()),
        SendStatus::FlushSlaveTimeout | SendStatus::SlaveNotAvailable if client.config.accepts_unreplicated => Ok(()),
        status => Err(CallError::status(status)),
    }
}

/// How long a message may wait in its queue. The rest of the delivery time-out is for the library's start, the request,
/// their overruns, and a check of why it failed.
fn wait_max(client: &Client) -> Duration {
    client.config.delivery_timeout.saturating_sub(client.config.request_timeout * 4)
}

/// Reads a topic's queues.
pub(super) async fn read(client: Arc<Client>, topic: Arc<Topic>) {
    let within = client.config.request_timeout * 3;
    let looked_up = timeout(within, find_queues(&client, &topic)).await;
    let error: Box<dyn Fn() -> TransportError + Send> = match looked_up
        .unwrap_or_else(|_| Err(CallError::request_timed_out(within).into_outage()))
    {
        Ok(queues) if !queues.is_empty() => {
            client.health.found(&topic.name, queues.iter().map(|queue| &queue.broker));
            let send_queues = topic.found(queues, &client.health);
            send_queues.into_iter().for_each(|send_queue| start(&client, &topic, send_queue));
            return;
        }
        Ok(_none) => {
            client.health.not_found(&topic.name);
            let name = Arc::clone(&topic.name);
            Box::new(move || TransportError::new(FailureClass::Topic, NotSent::NoQueue { topic: Arc::clone(&name) }))
        }
        Err(call_error) => {
            client.health.name_server_failed(&call_error);
            let client = Arc::clone(&client);
            Box::new(move || to_transport_error(&client, &call_error))
        }
    };
    fail(topic.not_found().into_iter().map(|entry| entry.held), error);
}

async fn find_queues(client: &Client, topic: &Topic) -> Result<Vec<Queue>, CallError> {
    let masters_until = Instant::now() + client.config.request_timeout * 2;
    let connection = client.connection().await?;
    if let Some(route) = connection.route(&topic.wire_name).await.map_err(CallError::into_outage)? {
        // For the checks after a later failure. Messages need not wait for name servers that do not answer.
        let listed = timeout_at(masters_until, client.masters()).await;
        match listed.unwrap_or_else(|_| Err(CallError::request_timed_out(client.config.request_timeout))) {
            Err(call_error) if matches!(call_error.class, FailureClass::Connection | FailureClass::Temporary) => {
                tracing::debug!(topic = &*topic.name, error = %call_error.text, "a topic was found, but the list of brokers could not be read");
            }
            listed => drop(listed?),
        }
        return Ok(queues::of(&route));
    }
    // A name server that lost its brokers, or has just started, answers the same for every topic.
    if client.masters().await?.is_empty() {
        return Err(nodes::none_known());
    }
    client.health.not_found(&topic.name);
    let error = NotSent::UnknownTopic { topic: Arc::clone(&topic.name) };
    Err(CallError::new(FailureClass::Topic, error.to_string()))
}

/// The failure of a message whose broker failed. It is no outage while other brokers accept messages: the relay would
/// stop for their messages, too.
fn to_transport_error(client: &Client, call_error: &CallError) -> TransportError {
    match client.health.outage() {
        None if call_error.class.is_outage() => {
            CallError { class: FailureClass::Temporary, ..call_error.clone() }.error()
        }
        _ => call_error.error(),
    }
}

fn fail(all: impl IntoIterator<Item = PendingOutcome>, error: impl Fn() -> TransportError) {
    all.into_iter().for_each(|held| held.complete(Outcome::Failed(error())));
}
