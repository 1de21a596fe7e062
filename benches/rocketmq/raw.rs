//! The plain client library, as an application tuned for speed would use it.

use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context, Result, anyhow};
use diesel_outbox::MessageId;
use diesel_outbox::transport::header;
use rocketmq_client_rust::{ClientRuntime, ClientRuntimeConfig, DefaultMQProducer};
use rocketmq_model::common::message::MessageTrait as _;
use rocketmq_model::common::message::message_queue::MessageQueue;
use rocketmq_model::common::message::message_single::Message;
use rocketmq_observability::TelemetryHandle;
use rocketmq_runtime::{RuntimeConfig, RuntimeOwner};

const BATCH: usize = 1_000;
const TIMEOUT_MS: u64 = 10_000;

/// The properties of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Properties {
    /// A tag and a key.
    Few,
    /// Everything that a message of the outbox has.
    Ours,
}

pub(crate) struct BareClient {
    producer: DefaultMQProducer,
    queues: Vec<MessageQueue>,
    topic: &'static str,
    /// Dropped last: everything above runs on it.
    _owner: RuntimeOwner,
}

impl BareClient {
    pub(crate) async fn start(name_server: &str, topic: &'static str) -> Result<Self> {
        let owner =
            RuntimeOwner::plan(RuntimeConfig::for_parallelism("bare", 2)).map_err(|error| anyhow!("{error}"))?;
        let owner = owner.build().map_err(|error| anyhow!("{error}"))?;
        let context = owner.root_context().component("client");
        let runtime = ClientRuntime::try_new(context, ClientRuntimeConfig::default(), TelemetryHandle::noop())?;
        let builder = DefaultMQProducer::builder(Arc::clone(&runtime)).producer_group("bare");
        let builder = builder.name_server_addr(name_server.to_owned()).compress_msg_body_over_howmuch(64 << 20);
        let mut producer = builder.build();
        Box::pin(producer.start()).await?;
        let queues = Box::pin(producer.fetch_publish_message_queues(topic)).await?;
        Ok(Self { producer, queues, topic, _owner: owner })
    }

    fn message(&self, key: usize, payload_bytes: usize, properties: Properties) -> Message {
        let (mut message, key) = (Message::default(), key.to_string());
        message.set_topic(self.topic.into());
        message.set_tags("order.placed".into());
        message.set_body(Some(vec![b'x'; payload_bytes].into()));
        if properties == Properties::Few {
            message.set_keys(key.into());
            return message;
        }
        let id = MessageId::new().to_string();
        message.set_keys(format!("{id} {key}").into());
        let others = [
            (header::MESSAGE_ID, id),
            (header::KIND, "order.placed".to_owned()),
            ("outbox-created-at", "0".to_owned()),
            ("__SHARDINGKEY", key),
        ];
        others.into_iter().for_each(|(name, value)| message.put_property(name.into(), value.into()));
        message
    }

    /// Messages a second, in batches, with one in flight to each queue.
    pub(crate) async fn drain(&self, messages: usize, payload_bytes: usize, properties: Properties) -> Result<f64> {
        let started = Instant::now();
        let each = messages / self.queues.len();
        let queues = self.queues.iter().map(|queue| async move {
            for begin in (0..each).step_by(BATCH) {
                let keys = begin..each.min(begin + BATCH);
                let batch = keys.map(|key| self.message(key, payload_bytes, properties)).collect();
                Box::pin(self.producer.send_batch_to_queue_with_timeout(batch, queue.clone(), TIMEOUT_MS)).await?;
            }
            anyhow::Ok(())
        });
        futures_util::future::try_join_all(queues).await?;
        Ok(messages as f64 / started.elapsed().as_secs_f64())
    }

    /// One message after the other: microseconds each.
    pub(crate) async fn singles(&self, messages: usize, payload_bytes: usize) -> Result<Vec<f64>> {
        let mut waits = Vec::with_capacity(messages);
        for number in 0..messages {
            let (message, queue) =
                (self.message(number, payload_bytes, Properties::Few), self.queues[number % self.queues.len()].clone());
            let started = Instant::now();
            let sent = Box::pin(self.producer.send_to_queue_with_timeout(message, queue, TIMEOUT_MS)).await?;
            sent.context("an answer")?;
            waits.push(started.elapsed().as_secs_f64() * 1e6);
        }
        Ok(waits)
    }
}
