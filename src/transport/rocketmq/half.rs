//! Half messages: a broker stores and hides them until it learns the outcome of their transaction. If it learns none,
//! it asks.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use cheetah_string::CheetahString;
use futures_util::future::BoxFuture;
use rocketmq_client_rust::{ClientRuntime, LocalTransactionState, TransactionListener, TransactionMQProducer};
use rocketmq_model::common::message::message_ext::MessageExt;
use rocketmq_model::common::message::{MessageConst, MessageTrait};
use tokio::runtime::Handle;
use tokio::time::{Instant, sleep};

use super::classify::CallError;
use super::client::Client;
use super::client_lifecycle;
use super::config::{HALF_SUFFIX, RocketMqConfig, RocketMqConfigError};
use super::connection::{StoredHalf, call_guarded};
use super::error::NotSent;
use super::library::Library;
use super::queues::{self, Queue};
use super::{record, work};
use crate::limits::{
    ROCKETMQ_CHECKS_AT_ONCE_MAX, ROCKETMQ_CHECKS_QUEUED_MAX, ROCKETMQ_HEARTBEAT, ROCKETMQ_LISTEN_RETRY_INTERVAL,
    ROCKETMQ_LISTEN_TIMEOUT, ROCKETMQ_ROUTE_INTERVAL,
};
use crate::message::{Envelope, MessageId};
use crate::repeated::{Repeated, warn_once_a_minute};
use crate::transport::{FailureClass, TransportError, header};

const END_TRANSACTION: i32 = 37;
const COMMIT: &str = "8";
const ROLLBACK: &str = "12";

/// A broker's request about a half message.
#[derive(Debug)]
pub(crate) struct CheckRequest {
    pub(crate) message_id: MessageId,
    pub(crate) topic: Arc<str>,
}

/// The answer to the broker; `None` if the outcome is unknown, and then the broker asks again.
pub(crate) type CheckResponse = Option<bool>;

/// Answers the broker's requests.
type Check = Arc<dyn Fn(CheckRequest) -> BoxFuture<'static, CheckResponse> + Send + Sync>;

/// Sends half messages, ends them, and answers the broker's requests about them.
pub(crate) struct HalfProducer {
    client: Arc<Client>,
    group: String,
    routes: Mutex<HashMap<Arc<str>, Route>>,
    turn: AtomicUsize,
    _library: Library,
}

/// The queues of a topic, and when they were read.
type Route = (Arc<[Queue]>, Instant);

/// A half message that the broker stored.
#[derive(Debug)]
pub(crate) struct HalfSent {
    wire_topic: String,
    broker: Arc<str>,
    stored: StoredHalf,
}

#[cfg(test)]
impl HalfSent {
    /// A half message that no broker stored.
    pub(crate) fn nowhere() -> Self {
        let stored = StoredHalf {
            status: rocketmq_client_rust::SendStatus::SendOk,
            queue_offset: 0,
            log_offset: 0,
            client_id: String::new(),
            transaction_id: String::new(),
        };
        Self { wire_topic: "orders".to_owned(), broker: "a".into(), stored }
    }
}

impl HalfProducer {
    /// Starts to answer the brokers' requests; an unreachable cluster is no error.
    pub(crate) fn start(
        config: RocketMqConfig,
        topics: &[Arc<str>],
        check: Check,
    ) -> Result<Self, RocketMqConfigError> {
        config.check()?;
        let (library, runtime, clients) = Library::start()?;
        let listener = Listener { check, topics: names(&config, topics), runtime: runtime.clone() };
        let open = client_lifecycle::connector(Arc::clone(&clients), config.clone());
        let halves = Self::with_client(Arc::new(Client::new(config.clone(), runtime.clone(), open)), library);
        runtime.spawn(listen(clients, config, halves.group.clone(), Arc::new(listener)));
        Ok(halves)
    }

    /// One that sends and ends half messages, but does not answer requests.
    pub(super) fn with_client(client: Arc<Client>, library: Library) -> Self {
        // Its own group, apart from plain producers: a broker asks any producer of the group, and those could not
        // answer.
        let group = format!("{}{HALF_SUFFIX}", client.config.group);
        Self { client, group, routes: Mutex::default(), turn: AtomicUsize::new(0), _library: library }
    }

    /// The runtime for requests and answers about half messages.
    pub(crate) fn runtime(&self) -> &Handle {
        &self.client.runtime
    }

    /// Sends a message that stays hidden until it is ended.
    pub(crate) async fn send(&self, envelope: Envelope) -> Result<HalfSent, TransportError> {
        let name = Arc::clone(&envelope.topic);
        let refused = |class, why: NotSent| TransportError::new(class, why);
        let topic = self.client.topics.of(&name, &self.client.config);
        if !topic.is_legal {
            return Err(refused(FailureClass::Topic, NotSent::TopicName { topic: name }));
        }
        if !topic.batches {
            return Err(refused(FailureClass::RecordRefused, NotSent::HalfDelayed { topic: name }));
        }
        let queues = self.queues(&name, &topic.wire_name).await.map_err(|call_error| call_error.error())?;
        if queues.is_empty() {
            return Err(refused(FailureClass::Topic, NotSent::NoQueue { topic: name }));
        }
        let turn = || self.turn.fetch_add(1, Ordering::Relaxed) % queues.len();
        let queue = &queues[envelope.key.as_ref().map_or_else(turn, |key| queues::index_of(key, queues.len()))];
        let record = record::of(envelope, &self.client.config);
        let mut message =
            record.map_err(|error| refused(FailureClass::RecordRefused, error))?.into_message(&topic.wire_name);
        let text = CheetahString::from_static_str;
        message.put_property(text(MessageConst::PROPERTY_TRANSACTION_PREPARED), text("true"));
        message.put_property(text(MessageConst::PROPERTY_PRODUCER_GROUP), CheetahString::from_slice(&self.group));
        match self.client.send_half(message, &topic.wire_name, queue).await {
            Ok(stored) => {
                work::accepted(&self.client, stored.status).map_err(|call_error| call_error.error())?;
                Ok(HalfSent { wire_topic: topic.wire_name.clone(), broker: Arc::clone(&queue.broker), stored })
            }
            Err(call_error) => {
                self.lock_routes().remove(&name);
                if call_error.class.is_outage() {
                    // Checks whether the library is the cause; then it is replaced.
                    let client = Arc::clone(&self.client);
                    self.client.runtime.spawn(async move { client.probe().await });
                }
                Err(call_error.error())
            }
        }
    }

    /// Reports the outcome to the broker, and waits until the broker confirms it. Other RocketMQ clients do not wait.
    /// Without waiting, we would not know that the mark is no longer needed.
    pub(crate) async fn end(&self, half: &HalfSent, commits: bool) -> Result<(), TransportError> {
        let stored = &half.stored;
        let fields = [
            ("topic", half.wire_topic.clone()),
            ("producerGroup", self.group.clone()),
            ("tranStateTableOffset", stored.queue_offset.to_string()),
            ("commitLogOffset", stored.log_offset.to_string()),
            ("commitOrRollback", if commits { COMMIT } else { ROLLBACK }.to_owned()),
            ("fromTransactionCheck", "false".to_owned()),
            ("msgId", stored.client_id.clone()),
            ("transactionId", stored.transaction_id.clone()),
            ("bname", half.broker.to_string()),
        ];
        let ended = self.client.request(&half.broker, END_TRANSACTION, &fields).await;
        ended.map_err(|call_error| call_error.error())
    }

    async fn queues(&self, name: &Arc<str>, wire_topic: &str) -> Result<Arc<[Queue]>, CallError> {
        let known = self.lock_routes().get(name).cloned();
        if let Some((queues, read_at)) = known
            && read_at.elapsed() < ROCKETMQ_ROUTE_INTERVAL
        {
            return Ok(queues);
        }
        let route = self.client.connection().await?.route(wire_topic).await?;
        let queues: Arc<[Queue]> = route.map(|route| queues::of(&route)).unwrap_or_default().into();
        if !queues.is_empty() {
            self.lock_routes().insert(Arc::clone(name), (Arc::clone(&queues), Instant::now()));
        }
        Ok(queues)
    }

    fn lock_routes(&self) -> std::sync::MutexGuard<'_, HashMap<Arc<str>, Route>> {
        self.routes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for HalfProducer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HalfProducer")
            .field("group", &self.group)
            .field("config", &self.client.config)
            .finish_non_exhaustive()
    }
}

/// The outbox's topic names by their names on the wire.
fn names(config: &RocketMqConfig, topics: &[Arc<str>]) -> HashMap<String, Arc<str>> {
    topics.iter().map(|topic| (config.wire_name(topic), Arc::clone(topic))).collect()
}

/// Registers with every broker as a producer that can be asked, for as long as the library's runtime lives.
async fn listen(clients: Arc<ClientRuntime>, config: RocketMqConfig, group: String, listener: Arc<Listener>) {
    let failures = Repeated::default();
    loop {
        match open(&clients, &config, &group, &listener).await {
            Ok(producer) => {
                let _listens = producer;
                return std::future::pending().await;
            }
            Err(call_error) => {
                let cause = call_error.text;
                warn_once_a_minute!(HALF_CHECKS_NOT_RECEIVED, failures, cause, %group);
                sleep(ROCKETMQ_LISTEN_RETRY_INTERVAL).await;
            }
        }
    }
}

async fn open(
    clients: &Arc<ClientRuntime>,
    config: &RocketMqConfig,
    group: &str,
    listener: &Arc<Listener>,
) -> Result<TransactionMQProducer, CallError> {
    let (_, mut client) = client_lifecycle::client(config);
    let heartbeat = u32::try_from(ROCKETMQ_HEARTBEAT.as_millis()).unwrap_or(u32::MAX);
    client.set_heartbeat_broker_interval(heartbeat);
    client.set_poll_name_server_interval(heartbeat);
    let mut builder = TransactionMQProducer::builder(Arc::clone(clients))
        .client_config(client)
        .producer_group(group)
        // It finds brokers only through its topics.
        .topics(listener.topics.keys().map(String::as_str).collect())
        .check_thread_pool_max_size(ROCKETMQ_CHECKS_AT_ONCE_MAX)
        .check_request_hold_max(ROCKETMQ_CHECKS_QUEUED_MAX);
    if let Some(hook) = client_lifecycle::hook(config) {
        builder = builder.rpc_hook(hook);
    }
    let mut producer = builder.build();
    producer.set_transaction_listener_arc(Arc::clone(listener) as Arc<dyn TransactionListener>);
    // It looks up its topics one after the other, and a name server may not answer.
    let topics = u32::try_from(listener.topics.len()).unwrap_or(u32::MAX);
    let call_timeout = ROCKETMQ_LISTEN_TIMEOUT.saturating_add(config.request_timeout.saturating_mul(topics));
    let started = async { Box::pin(producer.start()).await.map_err(CallError::from) };
    let started = call_guarded(Box::pin(started), call_timeout).await;
    if let Err(call_error) = started {
        let ended = async {
            Box::pin(producer.shutdown()).await;
            Ok(())
        };
        // It is dropped either way. Without this it would go on sending heartbeats, and brokers would ask it and get no
        // answer.
        let _ = call_guarded(Box::pin(ended), ROCKETMQ_LISTEN_TIMEOUT).await;
        return Err(call_error);
    }
    Ok(producer)
}

struct Listener {
    check: Check,
    topics: HashMap<String, Arc<str>>,
    runtime: Handle,
}

impl TransactionListener for Listener {
    /// Never called: nothing is sent through this producer.
    fn execute_local_transaction(
        &self,
        _message: &dyn MessageTrait,
        _argument: Option<&(dyn std::any::Any + Send + Sync)>,
    ) -> LocalTransactionState {
        LocalTransactionState::Unknown
    }

    /// Runs on a library thread that may block.
    fn check_local_transaction(&self, message: &MessageExt) -> LocalTransactionState {
        let id = message.property(&CheetahString::from_static_str(header::MESSAGE_ID));
        let id = id.and_then(|id| id.parse::<MessageId>().ok());
        // For a topic that is not ours the outcome is unknown: another outbox in this group may know it.
        let (Some(message_id), Some(topic)) = (id, self.topics.get(message.topic().as_str())) else {
            return LocalTransactionState::Unknown;
        };
        let request = CheckRequest { message_id, topic: Arc::clone(topic) };
        match self.runtime.block_on((self.check)(request)) {
            Some(true) => LocalTransactionState::CommitMessage,
            Some(false) => LocalTransactionState::RollbackMessage,
            None => LocalTransactionState::Unknown,
        }
    }
}
