use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use cheetah_string::CheetahString;
use futures_util::future::BoxFuture;
use rocketmq_client_rust::{
    AclClientRPCHook, ClientConfig, ClientInstanceHandle, ClientRpcHook, ClientRuntime, DefaultMQProducer, SendResult,
    SendStatus, SessionCredentials,
};
use rocketmq_model::common::message::MessageTrait as _;
use rocketmq_model::common::message::message_batch::MessageBatch;
use rocketmq_model::common::message::message_client_id_setter::MessageClientIDSetter;
use rocketmq_model::common::message::message_queue::MessageQueue;
use rocketmq_model::common::message::message_single::Message;
use rocketmq_protocol::protocol::remoting_command::RemotingCommand;
use rocketmq_protocol::protocol::route::topic_route_data::TopicRouteData;

use super::batch::Content;
use super::classify::{CallError, TOPIC_NOT_EXIST};
use super::config::RocketMqConfig;
use super::connection::{Call, Connect, Connection, Fields, StoredHalf};
use super::queues::Queue;
use crate::limits::ROCKETMQ_COMPRESS_BYTES_MIN;
use crate::transport::FailureClass;

pub(super) fn connector(library: Arc<ClientRuntime>, config: RocketMqConfig) -> Connect {
    Box::new(move || {
        let (library, config) = (Arc::clone(&library), config.clone());
        Box::pin(async move { Ok(Arc::new(LibraryConnection::open(&library, &config).await?) as Arc<dyn Connection>) })
    })
}

/// A producer, and a second client for other requests, so that they do not wait behind messages.
struct LibraryConnection {
    producer: Arc<DefaultMQProducer>,
    lookup_client: Arc<ClientInstanceHandle>,
    request_timeout: Duration,
}

impl LibraryConnection {
    async fn open(library: &Arc<ClientRuntime>, config: &RocketMqConfig) -> Result<Self, CallError> {
        let request_timeout = config.request_timeout;
        let hook = hook(config);
        let (life, client) = client(config);
        let mut builder = DefaultMQProducer::builder(Arc::clone(library))
            .client_config(client.clone())
            .producer_group(config.group.as_str())
            .send_msg_timeout(u32::try_from(millis(request_timeout)).unwrap_or(u32::MAX))
            .retry_times_when_send_failed(0)
            .max_message_size(u32::try_from(config.message_bytes_max).unwrap_or(u32::MAX))
            .compress_msg_body_over_howmuch(ROCKETMQ_COMPRESS_BYTES_MIN);
        if let Some(hook) = &hook {
            builder = builder.rpc_hook(Arc::clone(hook));
        }
        let mut producer = builder.build();
        Box::pin(producer.start()).await?;
        let lookup_client = ClientInstanceHandle::get_or_create(library, life, client, hook)?;
        Box::pin(lookup_client.start()).await?;
        Ok(Self { producer: Arc::new(producer), lookup_client: Arc::new(lookup_client), request_timeout })
    }
}

/// Signs the requests, if there are credentials.
pub(super) fn hook(config: &RocketMqConfig) -> Option<Arc<ClientRpcHook>> {
    config.credentials.as_ref().map(|given| -> Arc<ClientRpcHook> {
        let keys = SessionCredentials::with_keys(given.access_key.as_str(), given.secret_key.as_str());
        Arc::new(AclClientRPCHook::new(keys))
    })
}

/// The settings of another client, and its number.
pub(super) fn client(config: &RocketMqConfig) -> (u64, ClientConfig) {
    // To a broker, two connections of one process are two clients.
    static CLIENTS_STARTED: AtomicU64 = AtomicU64::new(0);
    let life = CLIENTS_STARTED.fetch_add(1, Ordering::Relaxed);
    let mut client = ClientConfig::new();
    client.set_namesrv_addr(config.name_servers.as_str().into());
    client.set_instance_name(format!("outbox-{}-{life}", std::process::id()).into());
    client.set_vip_channel_enabled(false);
    client.set_mq_client_api_timeout(millis(config.request_timeout));
    (life, client)
}

impl Connection for LibraryConnection {
    fn send(&self, content: Content, topic: &str, queue: &Queue) -> Call<'_, SendStatus> {
        let (producer, request_timeout) = (Arc::clone(&self.producer), self.request_timeout);
        let (topic, queue) = (topic.to_owned(), queue.clone());
        Box::pin(async move {
            let target = MessageQueue::from_parts(topic.as_str(), &*queue.broker, queue.number);
            let within = millis(request_timeout);
            let sent = match content {
                Content::One(record) => {
                    let message = record.into_message(&topic);
                    Box::pin(producer.send_to_queue_with_timeout(message, target, within)).await?
                }
                Content::Batch(framed) => {
                    let batch = batch(framed, &topic);
                    Box::pin(producer.send_to_queue_with_timeout(batch, target, within)).await?
                }
            };
            sent.map(|sent| sent.send_status).ok_or_else(|| CallError::request_timed_out(request_timeout))
        })
    }

    fn send_half(&self, message: Message, topic: &str, queue: &Queue) -> Call<'_, StoredHalf> {
        let (producer, request_timeout) = (Arc::clone(&self.producer), self.request_timeout);
        let (topic, queue) = (topic.to_owned(), queue.clone());
        Box::pin(async move {
            let target = MessageQueue::from_parts(topic, &*queue.broker, queue.number);
            let sent = producer.send_to_queue_with_timeout(message, target, millis(request_timeout));
            let sent = Box::pin(sent).await?.ok_or_else(|| CallError::request_timed_out(request_timeout))?;
            stored_half(sent)
        })
    }

    fn route(&self, topic: &str) -> Call<'_, Option<TopicRouteData>> {
        let (client, topic, within) = (Arc::clone(&self.lookup_client), topic.to_owned(), millis(self.request_timeout));
        Box::pin(async move { Ok(client.topic_route(&topic, within).await?) })
    }

    fn request(&self, address: &str, code: i32, fields: Fields<'_>, body: Vec<u8>) -> Call<'_, Option<Vec<u8>>> {
        let text = |text: &str| CheetahString::from_slice(text);
        let fields = fields.iter().map(|(name, value)| (text(name), text(value))).collect();
        let (client, address, within) = (Arc::clone(&self.lookup_client), text(address), millis(self.request_timeout));
        Box::pin(async move {
            let mut request = RemotingCommand::create_remoting_command(code).set_ext_fields(fields);
            if !body.is_empty() {
                request.set_body_mut_ref(body);
            }
            let response = client.invoke_remoting(&address, request, within).await?;
            match response.code() {
                0 => Ok(Some(response.body().map(|body| body.to_vec()).unwrap_or_default())),
                TOPIC_NOT_EXIST => Ok(None),
                code => Err(CallError::answered(code)),
            }
        })
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        let (producer, client) = (Arc::clone(&self.producer), Arc::clone(&self.lookup_client));
        Box::pin(async move {
            DefaultMQProducer::clone(&producer).shutdown().await;
            client.shutdown_owned().await;
        })
    }
}

/// What the broker said of a half message that it stored.
fn stored_half(sent: SendResult) -> Result<StoredHalf, CallError> {
    // The broker's address and port, then eight bytes with the message's offset in the commit log.
    let id = sent.offset_msg_id.unwrap_or_default();
    let offset = id.len().checked_sub(16).and_then(|at| u64::from_str_radix(id.get(at..)?, 16).ok());
    let client_id = sent.msg_id.map(|id| id.to_string()).unwrap_or_default();
    Ok(StoredHalf {
        status: sent.send_status,
        queue_offset: sent.queue_offset,
        log_offset: offset.ok_or_else(|| {
            CallError::new(FailureClass::Temporary, "the broker did not say where it keeps the message")
        })?,
        transaction_id: sent.transaction_id.unwrap_or_else(|| client_id.clone()),
        client_id,
    })
}

/// A batch that is already framed: the library sends it as it is, and reads the parts only to frame them.
fn batch(framed: Vec<u8>, topic: &str) -> MessageBatch {
    let mut whole = Message::default();
    whole.set_topic(CheetahString::from_slice(topic));
    whole.set_wait_store_msg_ok(true);
    MessageClientIDSetter::set_uniq_id(&mut whole);
    whole.set_body(Some(framed.into()));
    MessageBatch { final_message: whole, messages: Vec::new() }
}

pub(super) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
