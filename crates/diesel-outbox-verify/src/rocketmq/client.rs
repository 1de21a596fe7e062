use std::pin::Pin;
use std::sync::Arc;
use std::time::SystemTime;

#[expect(
    deprecated,
    reason = "the other consumer assigns queues to the members of a group; this one reads by offset"
)]
use rocketmq_client_rust::DefaultMQPullConsumer;
use rocketmq_client_rust::{AclClientRPCHook, ClientResult, PullResult, SessionCredentials};
use rocketmq_model::common::message::message_queue::MessageQueue;
use tokio::runtime::Handle;
use tokio::time::timeout;

use super::library::Library;
use crate::entry::Millis;
use crate::limits::{BROKER_TIMEOUT, ROCKETMQ_PULLED_MAX};
use crate::source::SourceError;

/// The client wants one. Nothing is committed for it.
const GROUP: &str = "diesel-outbox-verify";

/// A running client of a topic.
pub(super) struct Client {
    /// With its namespace.
    pub(super) topic: Arc<str>,
    pub(super) queues: Vec<MessageQueue>,
    runtime: Handle,
    consumer: Arc<dyn Consumer>,
    _library: Library,
}

/// A call of the client library.
type Call<T> = Pin<Box<dyn Future<Output = ClientResult<T>> + Send>>;

/// The client library's consumer without its type. Inside an async function of a trait, the compiler took 40 s to find that it and its
/// futures are `Send`.
trait Consumer: Send + Sync {
    fn start(&self) -> Call<()>;

    /// The queues of a topic.
    fn queues(&self, topic: Arc<str>) -> Call<Vec<MessageQueue>>;

    fn pull(&self, queue: MessageQueue, offset: i64) -> Call<PullResult>;

    /// The first offset of a queue, that of a moment, and the end.
    fn offsets(&self, queue: MessageQueue, at: Option<u64>) -> Call<[i64; 3]>;
}

#[expect(deprecated, reason = "see the import")]
impl Consumer for DefaultMQPullConsumer {
    fn start(&self) -> Call<()> {
        let consumer = self.clone();
        Box::pin(async move { consumer.start().await })
    }

    fn queues(&self, topic: Arc<str>) -> Call<Vec<MessageQueue>> {
        let consumer = self.clone();
        Box::pin(async move { consumer.fetch_subscribe_message_queues(&topic).await })
    }

    fn pull(&self, queue: MessageQueue, offset: i64) -> Call<PullResult> {
        let consumer = self.clone();
        Box::pin(async move { consumer.pull(&queue, "*", offset, ROCKETMQ_PULLED_MAX).await })
    }

    fn offsets(&self, queue: MessageQueue, at: Option<u64>) -> Call<[i64; 3]> {
        let consumer = self.clone();
        Box::pin(async move {
            let (first, end) = (consumer.min_offset(&queue).await?, consumer.max_offset(&queue).await?);
            let begin = match at {
                Some(at) => consumer.search_offset(&queue, at).await?,
                None => first,
            };
            Ok([first, begin.max(first), end])
        })
    }
}

impl Client {
    /// Starts a client of a topic, with its namespace. The credentials are an access key and a secret key.
    pub(super) async fn start(
        name_servers: &str,
        credentials: Option<&(String, String)>,
        topic: Arc<str>,
    ) -> Result<Self, SourceError> {
        let (consumer, runtime, library) = consumer(name_servers, credentials)?;
        let mut client = Self { topic, runtime, consumer, queues: Vec::new(), _library: library };
        client.call(client.consumer.start()).await?;
        let mut queues = client.call(client.consumer.queues(Arc::clone(&client.topic))).await?;
        queues.sort_by_key(|queue| (queue.broker_name().to_string(), queue.queue_id()));
        // The library takes the namespace away that we put there.
        let topic = &*client.topic;
        let own = |queue: MessageQueue| MessageQueue::from_parts(topic, queue.broker_name().clone(), queue.queue_id());
        client.queues = queues.into_iter().map(own).collect();
        Ok(client)
    }

    pub(super) async fn pull(&self, queue: &MessageQueue, offset: i64) -> Result<PullResult, SourceError> {
        self.call(self.consumer.pull(queue.clone(), offset)).await
    }

    /// The first offset of a queue, that of a moment, and the end.
    pub(super) async fn offsets(
        &self,
        queue: &MessageQueue,
        from: Option<SystemTime>,
    ) -> Result<[i64; 3], SourceError> {
        let at = from.map(|from| u64::try_from(Millis::of(from).0).unwrap_or_default());
        self.call(self.consumer.offsets(queue.clone(), at)).await
    }

    /// Calls the library on its own runtime, with a time-out of ours: it does not keep all of its own.
    async fn call<T: Send + 'static>(&self, call: Call<T>) -> Result<T, SourceError> {
        let problem = match self.runtime.spawn(timeout(2 * BROKER_TIMEOUT, call)).await {
            Ok(Ok(Ok(done))) => return Ok(done),
            Ok(Ok(Err(error))) => error.to_string(),
            Ok(Err(_)) => format!("no answer within {:?}", 2 * BROKER_TIMEOUT),
            Err(error) => error.to_string(),
        };
        Err(SourceError::Broker { topic: self.topic.to_string(), problem })
    }
}

/// A consumer that is not started, and the library's runtime.
fn consumer(
    name_servers: &str,
    credentials: Option<&(String, String)>,
) -> Result<(Arc<dyn Consumer>, Handle, Library), SourceError> {
    let (library, runtime, clients) = Library::start().map_err(|problem| SourceError::Settings { problem })?;
    #[expect(deprecated, reason = "see the import")]
    let mut builder = DefaultMQPullConsumer::builder(clients)
        .consumer_group(GROUP)
        .name_server_addr(name_servers)
        .consumer_pull_timeout(BROKER_TIMEOUT);
    if let Some((access_key, secret_key)) = credentials {
        let keys = SessionCredentials::with_keys(access_key.as_str(), secret_key.as_str());
        builder = builder.rpc_hook(Arc::new(AclClientRPCHook::new(keys)));
    }
    let consumer = builder.build().map_err(|error| SourceError::Settings { problem: error.to_string() })?;
    Ok((Arc::new(consumer), runtime, library))
}
