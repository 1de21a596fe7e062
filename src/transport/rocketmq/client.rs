use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use rocketmq_client_rust::SendStatus;
use rocketmq_model::common::message::message_single::Message;
use tokio::runtime::Handle;
use tokio::time::{Instant, timeout};

use super::batch::Content;
use super::classify::{NO_PERMISSION, Trouble, Voice};
use super::config::RocketMqConfig;
use super::health::Health;
use super::line::Entry;
use super::link::{Fields, Guarded, Kept, Link, Open};
use super::nodes::{self, Node};
use super::queues::Queue;
use super::room::Room;
use super::topics::Topics;
use crate::limits::{ROCKETMQ_CALL_SLACK, ROCKETMQ_REPLACE_AFTER};
use crate::transport::Unanswered;

/// What every message of a transport shares.
pub(super) struct Client {
    pub(super) config: RocketMqConfig,
    /// The library's own runtime. Nothing of it runs on the application's: a call of it that blocks, blocks itself.
    pub(super) runtime: Handle,
    pub(super) health: Health,
    pub(super) room: Arc<Room>,
    pub(super) unanswered: Unanswered,
    pub(super) topics: Topics,
    open: Open,
    link: RwLock<Option<Arc<dyn Link>>>,
    /// Held by whoever opens a link; why that failed last, and when.
    opening: tokio::sync::Mutex<Option<(Trouble, Instant)>>,
    /// Where each broker is, as the name servers said last.
    addresses: Mutex<HashMap<Arc<str>, String>>,
    /// Which name server is asked first.
    name_server: AtomicUsize,
    failing_since: Mutex<Option<Instant>>,
    is_closed: AtomicBool,
}

impl Client {
    pub(super) fn new(config: RocketMqConfig, runtime: Handle, open: Open) -> Self {
        Self {
            room: Room::new(config.in_flight_max),
            config,
            runtime,
            health: Health::default(),
            unanswered: Unanswered::new(),
            topics: Topics::default(),
            open,
            link: RwLock::default(),
            opening: tokio::sync::Mutex::default(),
            addresses: Mutex::default(),
            name_server: AtomicUsize::new(0),
            failing_since: Mutex::default(),
            is_closed: AtomicBool::new(false),
        }
    }

    /// The library, begun where it is not. Who waited while it was begun in vain does not begin it once more: the last of many
    /// would wait for all of them.
    pub(super) async fn link(&self) -> Result<Arc<dyn Link>, Trouble> {
        if let Some(link) = self.begun() {
            return Ok(link);
        }
        let asked_at = Instant::now();
        let mut last_failed = self.opening.lock().await;
        if let Some(link) = self.begun() {
            return Ok(link);
        }
        if let Some((trouble, at)) = &*last_failed
            && *at > asked_at
        {
            return Err(trouble.clone());
        }
        let patience = self.config.request_timeout + ROCKETMQ_CALL_SLACK.min(self.config.request_timeout);
        match Guarded::open(&self.open, patience).await {
            Ok(link) => {
                let link: Arc<dyn Link> = Arc::new(link);
                *self.link.write().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(&link));
                self.health.replaced();
                Ok(link)
            }
            Err(trouble) => {
                *last_failed = Some((trouble.clone(), Instant::now()));
                Err(trouble)
            }
        }
    }

    fn begun(&self) -> Option<Arc<dyn Link>> {
        self.link.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Ends this life of the library; whoever needs it next begins another.
    pub(super) fn replace(&self) {
        let link = self.link.write().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(link) = link {
            self.runtime.spawn(async move { link.close().await });
        }
        self.health.replaced();
    }

    /// Over this link, or with this outcome of beginning one.
    pub(super) async fn send(
        &self,
        link: Result<Arc<dyn Link>, Trouble>,
        content: Content,
        topic: &str,
        queue: &Queue,
    ) -> Result<SendStatus, Trouble> {
        let sent = match link {
            Ok(link) => link.send(content, topic, queue).await,
            Err(trouble) => Err(trouble),
        };
        self.heard(sent, queue).await
    }

    pub(super) async fn send_half(&self, message: Message, topic: &str, queue: &Queue) -> Result<Kept, Trouble> {
        let sent = match self.link().await {
            Ok(link) => link.send_half(message, topic, queue).await,
            Err(trouble) => Err(trouble),
        };
        self.heard(sent, queue).await
    }

    /// What a request to a broker says of that broker.
    async fn heard<T>(&self, sent: Result<T, Trouble>, queue: &Queue) -> Result<T, Trouble> {
        match sent {
            Ok(answer) => {
                self.health.answered(&queue.broker);
                Ok(answer)
            }
            Err(trouble) => {
                let trouble = self.about(trouble, &queue.broker).await;
                match trouble.voice {
                    Voice::Broker(_) if !trouble.class.is_outage() => self.health.answered(&queue.broker),
                    _ => self.health.failed(&queue.broker, &trouble),
                }
                Err(trouble)
            }
        }
    }

    /// What a failure is about, where that takes another question: a broker that says nothing may be slow or gone, and one
    /// that says no may mean the topic or everything.
    async fn about(&self, trouble: Trouble, broker: &str) -> Trouble {
        let is_open = trouble.voice == Voice::Nobody || trouble.voice == Voice::Broker(NO_PERMISSION);
        let address = is_open.then(|| self.address(broker)).flatten();
        let (Some(address), Some(link)) = (address, self.begun()) else { return trouble };
        let node = Node { name: broker.into(), cluster: String::new(), address };
        let greeted = timeout(self.config.request_timeout, nodes::greet(&*link, &node, &self.config.group)).await;
        match greeted
            .unwrap_or_else(|_| Err(Trouble::overdue(self.config.request_timeout)))
            .map_err(Trouble::into_outage)
        {
            Err(outage) if outage.class.is_outage() => outage,
            _ => trouble,
        }
    }

    /// The brokers that messages can be sent to.
    pub(super) async fn masters(&self) -> Result<Vec<Node>, Trouble> {
        let link = self.link().await?;
        let masters = nodes::masters(&*link, &self.config.name_servers, &self.name_server).await?;
        let mut addresses = self.addresses();
        addresses.extend(masters.iter().map(|node| (Arc::clone(&node.name), node.address.clone())));
        drop(addresses);
        self.health.listed(masters.iter().map(|node| &node.name));
        Ok(masters)
    }

    /// Asks for a broker that lets us in.
    pub(super) async fn probe(&self) -> Result<(), Trouble> {
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
            // Perhaps it is the library that does not find back.
            Err(_) if since.is_some_and(|since| since.elapsed() >= ROCKETMQ_REPLACE_AFTER) => {
                *since = Some(Instant::now());
                self.replace();
            }
            Err(trouble) => {
                since.get_or_insert_with(Instant::now);
                self.health.lost_names(trouble);
            }
        }
        probed
    }

    async fn find_one(&self) -> Result<(), Trouble> {
        let masters = self.masters().await.map_err(Trouble::into_outage)?;
        let link = self.link().await?;
        let mut failed = None;
        for node in &masters {
            match nodes::greet(&*link, node, &self.config.group).await.map_err(Trouble::into_outage) {
                Ok(()) => return Ok(()),
                Err(trouble) => failed = Some(trouble),
            }
        }
        Err(failed.unwrap_or_else(nodes::none_known))
    }

    /// Gives up what waits: its receipts report it.
    pub(super) fn close(&self) {
        self.is_closed.store(true, Ordering::Release);
        for topic in self.topics.all() {
            topic.take().into_iter().for_each(Entry::give_up);
        }
    }

    pub(super) fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::Acquire)
    }

    /// Asks a broker. Where nobody answers at the address that was read last, and the name servers have another one by now,
    /// it is asked there.
    pub(super) async fn ask(&self, broker: &str, code: i32, fields: Fields<'_>) -> Result<(), Trouble> {
        let (before, mut failed) = (self.address(broker), None);
        if let Some(address) = &before {
            match self.link().await?.ask(address, code, fields, Vec::new()).await {
                Err(trouble) if trouble.is_unheard() => failed = Some(trouble),
                answer => return answer.map(drop),
            }
        }
        let read = self.masters().await;
        let now = self.address(broker).filter(|now| before.as_ref() != Some(now));
        match (now, failed) {
            (Some(address), _) => self.link().await?.ask(&address, code, fields, Vec::new()).await.map(drop),
            (None, Some(trouble)) => Err(trouble),
            (None, None) => Err(read.err().unwrap_or_else(nodes::none_known)),
        }
    }

    /// Where a broker is, as far as that was read.
    fn address(&self, broker: &str) -> Option<String> {
        self.addresses().get(broker).cloned()
    }

    fn addresses(&self) -> MutexGuard<'_, HashMap<Arc<str>, String>> {
        self.addresses.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
