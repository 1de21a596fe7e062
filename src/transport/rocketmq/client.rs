use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use rocketmq_client_rust::SendStatus;
use rocketmq_model::common::message::message_single::Message;
use tokio::runtime::Handle;
use tokio::time::{Instant, timeout};

use super::batch::Content;
use super::capacity::Capacity;
use super::classify::{CallError, ErrorSource, NO_PERMISSION};
use super::config::RocketMqConfig;
use super::connection::{Connect, Connection, Fields, GuardedConnection, StoredHalf};
use super::health::Health;
use super::nodes::{self, Node};
use super::queues::Queue;
use super::send_queue::QueuedMessage;
use super::topics::Topics;
use crate::limits::{ROCKETMQ_CALL_SLACK, ROCKETMQ_REPLACE_AFTER};
use crate::transport::InFlightCounter;

/// The state that all messages of a transport share.
pub(super) struct Client {
    pub(super) config: RocketMqConfig,
    /// The library's own runtime. Nothing of the library runs on the application's runtime, so its blocking calls block
    /// only itself.
    pub(super) runtime: Handle,
    pub(super) health: Health,
    pub(super) capacity: Arc<Capacity>,
    pub(super) in_flight: InFlightCounter,
    pub(super) topics: Topics,
    open: Connect,
    connection: RwLock<Option<Arc<dyn Connection>>>,
    /// Locked while a connection is opened; holds the last failure and its time.
    opening: tokio::sync::Mutex<Option<(CallError, Instant)>>,
    /// Each broker's address, as the name servers last reported it.
    addresses: Mutex<HashMap<Arc<str>, String>>,
    /// The name server that is asked first.
    name_server: AtomicUsize,
    failing_since: Mutex<Option<Instant>>,
    is_closed: AtomicBool,
}

impl Client {
    pub(super) fn new(config: RocketMqConfig, runtime: Handle, open: Connect) -> Self {
        Self {
            capacity: Capacity::new(config.in_flight_max),
            config,
            runtime,
            health: Health::default(),
            in_flight: InFlightCounter::new(),
            topics: Topics::default(),
            open,
            connection: RwLock::default(),
            opening: tokio::sync::Mutex::default(),
            addresses: Mutex::default(),
            name_server: AtomicUsize::new(0),
            failing_since: Mutex::default(),
            is_closed: AtomicBool::new(false),
        }
    }

    /// The library's connection, started if necessary. Callers that waited during a failed start share its error:
    /// otherwise each would try in turn, and the last would wait for all of them.
    pub(super) async fn connection(&self) -> Result<Arc<dyn Connection>, CallError> {
        if let Some(connection) = self.current() {
            return Ok(connection);
        }
        let asked_at = Instant::now();
        let mut last_failed = self.opening.lock().await;
        if let Some(connection) = self.current() {
            return Ok(connection);
        }
        if let Some((call_error, at)) = &*last_failed
            && *at > asked_at
        {
            return Err(call_error.clone());
        }
        let call_timeout = self.config.request_timeout + ROCKETMQ_CALL_SLACK.min(self.config.request_timeout);
        match GuardedConnection::open(&self.open, call_timeout).await {
            Ok(connection) => {
                let connection: Arc<dyn Connection> = Arc::new(connection);
                *self.connection.write().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(&connection));
                self.health.replaced();
                Ok(connection)
            }
            Err(call_error) => {
                *last_failed = Some((call_error.clone(), Instant::now()));
                Err(call_error)
            }
        }
    }

    fn current(&self) -> Option<Arc<dyn Connection>> {
        self.connection.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Ends this connection of the library; the next caller starts another.
    pub(super) fn replace(&self) {
        let connection = self.connection.write().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(connection) = connection {
            self.runtime.spawn(async move { connection.close().await });
        }
        self.health.replaced();
    }

    /// Sends over this connection, or fails with the error of starting it.
    pub(super) async fn send(
        &self,
        connection: Result<Arc<dyn Connection>, CallError>,
        content: Content,
        topic: &str,
        queue: &Queue,
    ) -> Result<SendStatus, CallError> {
        let sent = match connection {
            Ok(connection) => connection.send(content, topic, queue).await,
            Err(call_error) => Err(call_error),
        };
        self.record_result(sent, queue).await
    }

    pub(super) async fn send_half(
        &self,
        message: Message,
        topic: &str,
        queue: &Queue,
    ) -> Result<StoredHalf, CallError> {
        let sent = match self.connection().await {
            Ok(connection) => connection.send_half(message, topic, queue).await,
            Err(call_error) => Err(call_error),
        };
        self.record_result(sent, queue).await
    }

    /// Records what a request's result says about its broker.
    async fn record_result<T>(&self, sent: Result<T, CallError>, queue: &Queue) -> Result<T, CallError> {
        match sent {
            Ok(response) => {
                self.health.answered(&queue.broker);
                Ok(response)
            }
            Err(call_error) => {
                let call_error = self.diagnose(call_error, &queue.broker).await;
                match call_error.origin {
                    ErrorSource::Broker(_) if !call_error.class.is_outage() => self.health.answered(&queue.broker),
                    _ => self.health.failed(&queue.broker, &call_error),
                }
                Err(call_error)
            }
        }
    }

    /// Finds out what a failure is about, if that takes another request. A silent broker may be slow or down. A broker
    /// that refuses may mean the topic or everything.
    async fn diagnose(&self, call_error: CallError, broker: &str) -> CallError {
        let is_open =
            call_error.origin == ErrorSource::NoResponse || call_error.origin == ErrorSource::Broker(NO_PERMISSION);
        let address = is_open.then(|| self.address(broker)).flatten();
        let (Some(address), Some(connection)) = (address, self.current()) else { return call_error };
        let node = Node { name: broker.into(), cluster: String::new(), address };
        let greeted = timeout(self.config.request_timeout, nodes::greet(&*connection, &node, &self.config.group)).await;
        match greeted
            .unwrap_or_else(|_| Err(CallError::request_timed_out(self.config.request_timeout)))
            .map_err(CallError::into_outage)
        {
            Err(outage) if outage.class.is_outage() => outage,
            _ => call_error,
        }
    }

    /// The brokers that accept messages.
    pub(super) async fn masters(&self) -> Result<Vec<Node>, CallError> {
        let connection = self.connection().await?;
        let masters = nodes::masters(&*connection, &self.config.name_servers, &self.name_server).await?;
        let mut addresses = self.addresses();
        addresses.extend(masters.iter().map(|node| (Arc::clone(&node.name), node.address.clone())));
        drop(addresses);
        self.health.listed(masters.iter().map(|node| &node.name));
        Ok(masters)
    }

    /// Looks for a broker that accepts our credentials.
    pub(super) async fn probe(&self) -> Result<(), CallError> {
        if self.health.is_broken() {
            self.replace();
        }
        let probed = self.find_one().await;
        let mut since = self.failing_since.lock().unwrap_or_else(PoisonError::into_inner);
        match &probed {
            Ok(()) => {
                *since = None;
                self.health.recovered();
            }
            // Perhaps the library itself cannot reconnect.
            Err(_) if since.is_some_and(|since| since.elapsed() >= ROCKETMQ_REPLACE_AFTER) => {
                *since = Some(Instant::now());
                self.replace();
            }
            Err(call_error) => {
                since.get_or_insert_with(Instant::now);
                self.health.name_server_failed(call_error);
            }
        }
        probed
    }

    async fn find_one(&self) -> Result<(), CallError> {
        let masters = self.masters().await.map_err(CallError::into_outage)?;
        let connection = self.connection().await?;
        let mut failed = None;
        for node in &masters {
            match nodes::greet(&*connection, node, &self.config.group).await.map_err(CallError::into_outage) {
                Ok(()) => return Ok(()),
                Err(call_error) => failed = Some(call_error),
            }
        }
        Err(failed.unwrap_or_else(nodes::none_known))
    }

    /// Abandons waiting messages: their outcome senders report it.
    pub(super) fn close(&self) {
        self.is_closed.store(true, Ordering::Release);
        for topic in self.topics.all() {
            topic.take().into_iter().for_each(QueuedMessage::abandon);
        }
    }

    pub(super) fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::Acquire)
    }

    /// Sends a request to a broker. If nobody answers at the known address, and the name servers report another one, it
    /// is sent there.
    pub(super) async fn request(&self, broker: &str, code: i32, fields: Fields<'_>) -> Result<(), CallError> {
        let (before, mut failed) = (self.address(broker), None);
        if let Some(address) = &before {
            match self.connection().await?.request(address, code, fields, Vec::new()).await {
                Err(call_error) if call_error.got_no_response() => failed = Some(call_error),
                response => return response.map(drop),
            }
        }
        let read = self.masters().await;
        let now = self.address(broker).filter(|now| before.as_ref() != Some(now));
        match (now, failed) {
            (Some(address), _) => self.connection().await?.request(&address, code, fields, Vec::new()).await.map(drop),
            (None, Some(call_error)) => Err(call_error),
            (None, None) => Err(read.err().unwrap_or_else(nodes::none_known)),
        }
    }

    /// A broker's last known address.
    fn address(&self, broker: &str) -> Option<String> {
        self.addresses().get(broker).cloned()
    }

    fn addresses(&self) -> MutexGuard<'_, HashMap<Arc<str>, String>> {
        self.addresses.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
