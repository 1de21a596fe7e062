//! The broker's side of RocketMQ, read in its own protocol: no client library stands between the test and what is stored.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use base64::Engine as _;
use diesel_outbox::Headers;
use diesel_outbox::testing::StoredMessage;
use diesel_outbox::transport::header;
use xtask::servers::rocketmq::request;

const GET_ROUTE: u16 = 105;
pub(crate) const GET_MAX_OFFSET: u16 = 30;
const PULL_MESSAGE: u16 = 11;

/// A message as the broker has it.
#[derive(Debug, Clone)]
pub(crate) struct Message {
    pub(crate) queue: u32,
    /// By the broker's clock.
    stored_at_ms: u64,
    pub(crate) body: Vec<u8>,
    pub(crate) properties: BTreeMap<String, String>,
}

/// The address of the one broker that the name server knows for the topic.
pub(crate) fn broker_of(name_server: &str, topic: &str) -> String {
    let answer = request(name_server, GET_ROUTE, &[("topic", topic)]).expect("a name server");
    assert_eq!(answer.code, 0, "no route of {topic}: {}", answer.header);
    let text = String::from_utf8(answer.body).expect("JSON");
    let (_, rest) = text.split_once("\"brokerAddrs\":{").expect("brokers");
    rest.split('"').find(|part| part.contains('.') && part.contains(':')).expect("an address").to_owned()
}

/// Everything a topic of 4 queues holds, queue by queue.
pub(crate) fn read(name_server: &str, topic: &str) -> Vec<Message> {
    let broker = broker_of(name_server, topic);
    wait_for_queues(&broker);
    (0..4).flat_map(|queue| read_queue(&broker, topic, queue)).collect()
}

/// What is stored comes to the queues a moment later.
pub(crate) fn wait_for_queues(broker: &str) {
    while !runtime_info(broker).contains("\"dispatchBehindBytes\":\"0\"") {}
}

fn runtime_info(broker: &str) -> String {
    const GET_BROKER_RUNTIME_INFO: u16 = 28;
    let answer = request(broker, GET_BROKER_RUNTIME_INFO, &[]).expect("a broker");
    String::from_utf8(answer.body).expect("JSON")
}

fn read_queue(broker: &str, topic: &str, queue: u32) -> Vec<Message> {
    let number = queue.to_string();
    let answer = request(broker, GET_MAX_OFFSET, &[("topic", topic), ("queueId", &number)]).expect("a broker");
    let end: usize = field(&answer.header, "offset").parse().expect("an offset");
    let mut messages = Vec::new();
    while messages.len() < end {
        let offset = messages.len().to_string();
        let fields = [
            ("consumerGroup", "reader"),
            ("topic", topic),
            ("queueId", number.as_str()),
            ("queueOffset", &offset),
            ("maxMsgNums", "10000"),
            ("sysFlag", "4"), // the subscription is in the request
            ("commitOffset", "0"),
            ("suspendTimeoutMillis", "0"),
            ("subscription", "*"),
            ("subVersion", "0"),
            ("expressionType", "TAG"),
        ];
        let pulled = request(broker, PULL_MESSAGE, &fields).expect("a broker");
        match pulled.code {
            0 => decode(&pulled.body, &mut messages),
            19 | 20 => continue, // not dispatched to the queue yet
            code => panic!("pulling {topic}/{queue} at {offset}: {code}, {}", pulled.header),
        }
    }
    messages
}

/// A field of a header's `extFields`.
pub(crate) fn field(header: &str, name: &str) -> String {
    let (_, rest) = header.split_once(&format!("\"{name}\":\"")).unwrap_or_else(|| panic!("no {name} in {header}"));
    rest.split('"').next().unwrap_or_default().to_owned()
}

/// Messages one behind the other, as the commit log has them.
fn decode(mut bytes: &[u8], messages: &mut Vec<Message>) {
    while !bytes.is_empty() {
        let mut rest = bytes;
        let size = number(&mut rest, 4);
        let _magic_and_checksum = take(&mut rest, 8);
        let queue = u32::try_from(number(&mut rest, 4)).expect("a queue");
        let _flag_and_offsets = take(&mut rest, 4 + 8 + 8);
        let flags = number(&mut rest, 4);
        assert_eq!(flags & 1, 0, "nothing is compressed");
        let host = |bit| if flags & bit == 0 { 4 + 4 } else { 16 + 4 };
        let _born = take(&mut rest, 8 + host(0x10));
        let stored_at_ms = u64::try_from(number(&mut rest, 8)).expect("milliseconds");
        let _stored_at = take(&mut rest, host(0x20));
        let _times_and_transaction = take(&mut rest, 4 + 8);
        let length = number(&mut rest, 4);
        let body = take(&mut rest, length).to_vec();
        let length = number(&mut rest, 1);
        let _topic = take(&mut rest, length);
        let length = number(&mut rest, 2);
        let properties = String::from_utf8(take(&mut rest, length).to_vec()).expect("UTF-8");
        let pairs = properties.split('\u{2}').filter_map(|pair| pair.split_once('\u{1}'));
        let properties = pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        messages.push(Message { queue, stored_at_ms, body, properties });
        bytes = &bytes[size..];
    }
}

fn take<'a>(rest: &mut &'a [u8], length: usize) -> &'a [u8] {
    let (taken, left) = rest.split_at(length);
    *rest = left;
    taken
}

fn number(rest: &mut &[u8], length: usize) -> usize {
    take(rest, length).iter().fold(0, |number, byte| number << 8 | usize::from(*byte))
}

impl Message {
    fn get(&self, name: &str) -> Option<Vec<u8>> {
        self.properties.get(name).map(|value| value.clone().into_bytes())
    }

    /// What a consumer makes of it that knows `docs/rocketmq.md`.
    pub(crate) fn stored(&self) -> StoredMessage {
        let own = [header::MESSAGE_ID, header::KIND, header::ATTEMPT, header::CREATED_AT, header::DELIVER_AT];
        let mut headers: Vec<_> = own.iter().filter_map(|name| Some(((*name).to_owned(), self.get(name)?))).collect();
        let listed = self.properties.get("outbox-headers").map(|list| Headers::from_json(list).expect("headers"));
        if let Some(listed) = listed {
            headers.extend(listed.iter().map(|(name, value)| (name.to_owned(), value.to_vec())));
        }
        let encoded = self.properties.get("outbox-key").map(|key| key.strip_prefix('=').expect("a sign before it"));
        let decoded = encoded.map(|key| base64::engine::general_purpose::STANDARD.decode(key).expect("base64"));
        let payload = match self.properties.get("outbox-payload").map(String::as_str) {
            Some("none") => None,
            Some("empty") => Some(Vec::new()),
            _ => Some(self.body.clone()),
        };
        StoredMessage {
            key: self.get("__SHARDINGKEY").or(decoded),
            payload,
            headers,
            timestamp: Some(SystemTime::UNIX_EPOCH + Duration::from_millis(self.stored_at_ms)),
        }
    }
}
