//! Requests of consumers. The protocol itself, and not the library's consumers: these commit by themselves, log what failed and go on, and
//! no caller learns which offset a broker took.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use cheetah_string::CheetahString;
use rocketmq_client_rust::{ClientConfig, ClientInstanceHandle, ClientRpcHook, ClientRuntime};
use rocketmq_protocol::common::message::message_decoder;
use rocketmq_protocol::protocol::remoting_command::RemotingCommand;
use rocketmq_protocol::protocol::route::topic_route_data::TopicRouteData;
use tokio::runtime::Handle;
use tokio::time::Instant;

use super::classify::CallError;
use super::client_lifecycle;
use super::config::{RocketMqConfig, RocketMqConfigError};
use super::connection::{Fields, call_guarded};
use super::decode::RocketMqRecord;
use super::library::Library;
use crate::limits::{ROCKETMQ_CALL_SLACK, ROCKETMQ_REPLACE_AFTER};

/// The permission bit of a queue that can be read.
const READ: u32 = 4;
/// The number of the master among the brokers of one name.
const MASTER: u64 = 0;

/// The client library, for the requests of one consumer.
pub(crate) struct Requests {
    config: RocketMqConfig,
    runtime: Handle,
    library: Arc<ClientRuntime>,
    hook: Option<Arc<ClientRpcHook>>,
    state: Mutex<State>,
    _library: Library,
}

struct State {
    /// The client that lines use, by its number.
    life: u64,
    client: ClientConfig,
    failing_since: HashMap<String, Instant>,
}

impl Requests {
    /// For a consumer of this group. Connects with the first request.
    pub(crate) fn start(config: RocketMqConfig, group: &str) -> Result<Arc<Self>, RocketMqConfigError> {
        let config = config.group(group);
        config.check()?;
        let (library, runtime, clients) = Library::start()?;
        let hook = client_lifecycle::hook(&config);
        let (life, client) = client_lifecycle::client(&config);
        let state = Mutex::new(State { life, client, failing_since: HashMap::new() });
        Ok(Arc::new(Self { config, runtime, library: clients, hook, state, _library: library }))
    }

    /// The library's runtime. Nothing of it runs elsewhere.
    pub(crate) fn runtime(&self) -> &Handle {
        &self.runtime
    }

    /// How long a broker may take for an answer.
    pub(crate) fn timeout(&self) -> Duration {
        self.config.request_timeout
    }

    /// The name on the cluster of a topic or group.
    pub(crate) fn wire_name(&self, name: &str) -> String {
        self.config.wire_name(name)
    }

    /// A line of its own, see [`Line`].
    pub(crate) fn line(self: &Arc<Self>) -> Line {
        Line { requests: Arc::clone(self), held: tokio::sync::Mutex::default() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Uses new connections, if nobody has answered at this address for a while: perhaps the library itself cannot reconnect.
    fn note(&self, address: &str, is_silent: bool) {
        let mut state = self.state();
        if !is_silent {
            state.failing_since.remove(address);
        } else if state.failing_since.entry(address.to_owned()).or_insert_with(Instant::now).elapsed()
            >= ROCKETMQ_REPLACE_AFTER
        {
            (state.life, state.client) = client_lifecycle::client(&self.config);
            state.failing_since.clear();
        }
    }
}

/// Sends requests one after the other. The library lets no two requests of a handle be on their way at once, so whoever waits at a broker
/// for messages needs a line of their own. All lines share their connections.
pub(crate) struct Line {
    requests: Arc<Requests>,
    held: tokio::sync::Mutex<Option<Held>>,
}

struct Held {
    life: u64,
    handle: Option<ClientInstanceHandle>,
    runtime: Handle,
}

impl Line {
    /// The readable queues of a topic, and where their brokers are; `None` if the name servers know no such topic.
    pub(crate) async fn route(&self, wire_topic: &str) -> Result<Option<Route>, String> {
        let within = self.requests.timeout();
        let ask = async {
            let mut held = self.held.lock().await;
            let handle = self.held(&mut held).await?;
            Ok(Box::pin(handle.topic_route(wire_topic, client_lifecycle::millis(within))).await?)
        };
        let route = call_guarded(Box::pin(ask), within + ROCKETMQ_CALL_SLACK).await;
        self.requests.note("", route.as_ref().is_err_and(CallError::got_no_response));
        match route {
            Ok(route) => Ok(route.map(|route| Route::of(&route))),
            Err(call_error) => Err(format!("the name servers: {}", call_error.text)),
        }
    }

    /// Sends a request to a broker, and returns its answer, whatever its code.
    pub(crate) async fn call(
        &self,
        address: &str,
        code: i32,
        fields: Fields<'_>,
        body: Vec<u8>,
        within: Duration,
    ) -> Result<Answer, String> {
        let text = |text: &str| CheetahString::from_slice(text);
        let mut request = RemotingCommand::create_remoting_command(code);
        request = request.set_ext_fields(fields.iter().map(|(name, value)| (text(name), text(value))).collect());
        if !body.is_empty() {
            request.set_body_mut_ref(body);
        }
        let ask = async {
            let mut held = self.held.lock().await;
            let handle = self.held(&mut held).await?;
            let address = text(address);
            Ok(Box::pin(handle.invoke_remoting(&address, request, client_lifecycle::millis(within))).await?)
        };
        let response = call_guarded(Box::pin(ask), within + ROCKETMQ_CALL_SLACK).await;
        self.requests.note(address, response.as_ref().is_err_and(CallError::got_no_response));
        response.map(Answer).map_err(|call_error| format!("the broker at {address}: {}", call_error.text))
    }

    async fn held<'h>(&self, held: &'h mut Option<Held>) -> Result<&'h ClientInstanceHandle, CallError> {
        let (life, client) = {
            let state = self.requests.state();
            (state.life, state.client.clone())
        };
        if held.as_ref().is_none_or(|held| held.life != life) {
            let requests = &self.requests;
            let handle = ClientInstanceHandle::get_or_create(&requests.library, life, client, requests.hook.clone())?;
            let opened = Held { life, handle: Some(handle), runtime: requests.runtime.clone() };
            Box::pin(opened.handle()?.start()).await?;
            *held = Some(opened);
        }
        match held {
            Some(held) => held.handle(),
            None => Err(CallError::panicked()),
        }
    }
}

impl Held {
    fn handle(&self) -> Result<&ClientInstanceHandle, CallError> {
        self.handle.as_ref().ok_or_else(CallError::panicked)
    }
}

impl Drop for Held {
    /// Gives the client back: it ends with its last line.
    fn drop(&mut self) {
        if let Some(handle) = self.handle.take() {
            self.runtime.spawn(async move { handle.shutdown_owned().await });
        }
    }
}

/// What the name servers say of a topic.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Route {
    /// How many queues each broker has.
    pub(crate) queues: BTreeMap<Arc<str>, u32>,
    /// The masters' addresses, those of the brokers that have one.
    pub(crate) addresses: BTreeMap<Arc<str>, String>,
}

impl Route {
    fn of(route: &TopicRouteData) -> Self {
        let readable = route.queue_datas.iter().filter(|queues| queues.perm() & READ != 0);
        let queues = readable.map(|queues| (queues.broker_name().as_str().into(), queues.read_queue_nums())).collect();
        let addresses = route.broker_datas.iter().filter_map(|broker| {
            let address = broker.broker_addrs().get(&MASTER)?;
            Some((broker.broker_name().as_str().into(), address.to_string()))
        });
        Self { queues, addresses: addresses.collect() }
    }
}

/// A broker's answer.
pub(crate) struct Answer(RemotingCommand);

impl Answer {
    pub(crate) fn code(&self) -> i32 {
        self.0.code()
    }

    /// The answer, unless its code says that the request failed.
    pub(crate) fn ok(self) -> Result<Self, String> {
        match self.code() {
            0 => Ok(self),
            code => Err(CallError::answered(code).text.to_string()),
        }
    }

    pub(crate) fn number(&self, field: &str) -> Result<i64, String> {
        let fields = self.0.ext_fields().into_iter().flatten();
        let found = fields.into_iter().find(|(name, _)| name.as_str() == field);
        let number = found.and_then(|(_, value)| value.as_str().parse().ok());
        number.ok_or_else(|| format!("the broker's answer has no number {field}"))
    }

    pub(crate) fn body(&self) -> &[u8] {
        self.0.body().map(|body| &body[..]).unwrap_or_default()
    }

    /// The messages in its body, up to one that cannot be read. If that is the first one, the answer is an error.
    pub(crate) fn messages(&self) -> Result<Vec<QueuedRecord>, String> {
        let mut rest = self.0.body().cloned().unwrap_or_default();
        let mut messages = Vec::new();
        while !rest.is_empty() {
            let Some(message) = message_decoder::decode(&mut rest, true, true, true, false, true) else { break };
            let properties = message.properties();
            let properties = properties.iter().map(|(name, value)| (name.as_str(), value.as_str()));
            let body = message.body().map(|body| body.to_vec()).unwrap_or_default();
            messages.push(QueuedRecord {
                offset: message.queue_offset(),
                stored_at_ms: message.store_timestamp(),
                record: RocketMqRecord::read(properties, body),
            });
        }
        match messages.is_empty() {
            true => Err("the broker sent a message that cannot be read".to_owned()),
            false => Ok(messages),
        }
    }
}

/// A message of a queue.
#[derive(Debug)]
pub(crate) struct QueuedRecord {
    pub(crate) offset: i64,
    /// When the broker stored it, by its clock.
    pub(crate) stored_at_ms: i64,
    pub(crate) record: RocketMqRecord,
}

#[cfg(test)]
mod tests {
    use rocketmq_protocol::protocol::route::route_data_view::{BrokerData, QueueData};

    use super::*;

    #[test]
    fn readable_queues_count_whether_their_master_is_there_or_not() {
        let broker = |name: &str, id: u64| {
            let addresses = [(id, "127.0.0.1:1".into())].into_iter().collect();
            BrokerData::new("cluster".into(), name.into(), addresses, None)
        };
        let mut route = TopicRouteData::new();
        route.broker_datas = vec![broker("b", 0), broker("a", 1), broker("closed", 0)];
        let queues = |name: &str, perm| QueueData::new(name.into(), 2, 1, perm, 0);
        route.queue_datas = vec![queues("b", 6), queues("a", 4), queues("closed", 2)];
        let read = Route::of(&route);
        assert_eq!(read.queues, [("a".into(), 2), ("b".into(), 2)].into_iter().collect());
        let addresses: Vec<&str> = read.addresses.keys().map(|name| &**name).collect();
        assert_eq!(addresses, ["b", "closed"]);
    }
}
