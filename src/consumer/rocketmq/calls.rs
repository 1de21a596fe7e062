//! What a member of a group asks of brokers.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, UNIX_EPOCH};

use serde::Deserialize;

use super::queues::Queue;
use crate::consumer::record::Record;
use crate::consumer::report;
use crate::limits::{ROCKETMQ_PULL_MESSAGES_MAX, ROCKETMQ_PULL_WAIT};
use crate::transport::{Answer, Line, QueuedRecord, Requests};

const PULL_MESSAGE: i32 = 11;
const QUERY_CONSUMER_OFFSET: i32 = 14;
const UPDATE_CONSUMER_OFFSET: i32 = 15;
const GET_MAX_OFFSET: i32 = 30;
const GET_MIN_OFFSET: i32 = 31;
const HEART_BEAT: i32 = 34;
const UNREGISTER_CLIENT: i32 = 35;
const GET_CONSUMER_LIST_BY_GROUP: i32 = 38;

/// A broker's general code for failures: here, that it knows nobody of the group.
const SYSTEM_ERROR: i32 = 1;
const PULL_NOT_FOUND: i32 = 19;
const PULL_RETRY_IMMEDIATELY: i32 = 20;
const PULL_OFFSET_MOVED: i32 = 21;
const QUERY_NOT_FOUND: i32 = 22;

/// Lets the broker wait for messages, and says that the subscription is in the request. The bit that would commit the offset is not set: the
/// group's offsets are those of `UPDATE_CONSUMER_OFFSET` alone.
const SUSPEND_AND_SUBSCRIPTION: &str = "6";

/// A member of a group.
pub(super) struct Member {
    pub(super) requests: Arc<Requests>,
    pub(super) topics: Vec<Arc<str>>,
    /// As it is called on the cluster.
    group: String,
    /// Its name among the members.
    pub(super) name: String,
    /// The masters' addresses, as the name servers last reported them.
    addresses: Mutex<BTreeMap<Arc<str>, String>>,
}

/// What came of a request for messages.
#[derive(Debug)]
pub(super) enum Pulled {
    Records(Vec<Record>),
    /// There was none in time.
    Nothing,
    /// There was none, and the broker did not wait for one.
    NothingYet,
    /// What is below this offset is gone.
    Gone(i64),
    /// The queue has no such offset.
    OutOfRange,
}

impl Member {
    pub(super) fn new(requests: Arc<Requests>, topics: Vec<Arc<str>>, group: &str) -> Self {
        let group = requests.wire_name(group);
        // A member that comes last is the last in the list: then the others keep most of their queues.
        let name = format!("outbox-{}-{}", uuid::Uuid::now_v7().simple(), std::process::id());
        Self { requests, topics, group, name, addresses: Mutex::default() }
    }

    pub(super) fn addresses(&self) -> MutexGuard<'_, BTreeMap<Arc<str>, String>> {
        self.addresses.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn address(&self, queue: &Queue) -> Result<String, String> {
        let known = self.addresses().get(&queue.broker).cloned();
        known.ok_or_else(|| format!("the name servers know no master of the broker {}", queue.broker))
    }

    async fn ask(&self, line: &Line, queue: &Queue, code: i32, more: &[(&str, String)]) -> Result<Answer, String> {
        self.ask_within(line, queue, code, more, self.requests.timeout()).await
    }

    async fn ask_within(
        &self,
        line: &Line,
        queue: &Queue,
        code: i32,
        more: &[(&str, String)],
        within: Duration,
    ) -> Result<Answer, String> {
        let mut fields = vec![
            ("consumerGroup", self.group.clone()),
            ("topic", self.requests.wire_name(&queue.topic)),
            ("queueId", queue.number.to_string()),
        ];
        fields.extend_from_slice(more);
        line.call(&self.address(queue)?, code, &fields, Vec::new(), within).await
    }

    /// The offset of the oldest message.
    pub(super) async fn first(&self, line: &Line, queue: &Queue) -> Result<i64, String> {
        let first = self.ask(line, queue, GET_MIN_OFFSET, &[]).await?.ok()?.number("offset")?;
        // A queue that never had a message has -1.
        Ok(first.max(0))
    }

    /// Where a message that is sent now would go.
    pub(super) async fn end(&self, line: &Line, queue: &Queue, within: Duration) -> Result<i64, String> {
        self.ask_within(line, queue, GET_MAX_OFFSET, &[], within).await?.ok()?.number("offset")
    }

    /// The offset that the group has committed.
    pub(super) async fn committed(&self, line: &Line, queue: &Queue) -> Result<Option<i64>, String> {
        // By itself the broker answers 0 for a small queue that the group has never read.
        let honest = [("setZeroIfNotFound", "false".to_owned())];
        let answer = self.ask(line, queue, QUERY_CONSUMER_OFFSET, &honest).await?;
        match answer.code() {
            QUERY_NOT_FOUND => Ok(None),
            _ => answer.ok()?.number("offset").map(Some),
        }
    }

    pub(super) async fn commit(&self, line: &Line, queue: &Queue, offset: i64) -> Result<(), String> {
        let offset = [("commitOffset", offset.to_string())];
        self.ask(line, queue, UPDATE_CONSUMER_OFFSET, &offset).await?.ok().map(drop)
    }

    /// Messages from an offset on. The broker waits a while for the first one.
    pub(super) async fn pull(&self, line: &Line, queue: &Queue, offset: i64) -> Result<Pulled, String> {
        let wait = ROCKETMQ_PULL_WAIT;
        let fields = [
            ("queueOffset", offset.to_string()),
            ("maxMsgNums", ROCKETMQ_PULL_MESSAGES_MAX.to_string()),
            ("sysFlag", SUSPEND_AND_SUBSCRIPTION.to_owned()),
            ("commitOffset", "0".to_owned()),
            ("suspendTimeoutMillis", wait.as_millis().to_string()),
            ("subscription", "*".to_owned()),
            ("subVersion", "0".to_owned()),
            ("expressionType", "TAG".to_owned()),
        ];
        let answer = self.ask_within(line, queue, PULL_MESSAGE, &fields, wait + self.requests.timeout()).await?;
        match answer.code() {
            PULL_NOT_FOUND => Ok(Pulled::Nothing),
            // The log no longer has the message, or the queue has a hole.
            PULL_RETRY_IMMEDIATELY => match answer.number("nextBeginOffset")? {
                next if next > offset => {
                    report::gone(&queue.id(), offset, next, answer.number("maxOffset")?);
                    Ok(Pulled::Gone(next))
                }
                // Unlike `PULL_NOT_FOUND`, it comes without a wait.
                _ => Ok(Pulled::NothingYet),
            },
            PULL_OFFSET_MOVED => Ok(Pulled::OutOfRange),
            _ => {
                let answer = answer.ok()?;
                let messages = answer.messages()?;
                if let Some(first) = messages.first().filter(|first| first.offset > offset) {
                    report::gone(&queue.id(), offset, first.offset, answer.number("maxOffset")?);
                }
                let id = queue.id();
                let record = |message: QueuedRecord| Record {
                    partition: id.clone(),
                    offset: message.offset,
                    key: message.record.key.map(Arc::from),
                    payload: message.record.payload,
                    headers: message.record.headers,
                    timestamp: u64::try_from(message.stored_at_ms)
                        .ok()
                        .map(|ms| UNIX_EPOCH + Duration::from_millis(ms)),
                };
                Ok(Pulled::Records(messages.into_iter().map(record).collect()))
            }
        }
    }

    /// Tells a broker that this member is there. It learns by itself when the connection ends.
    pub(super) async fn greet(&self, line: &Line, address: &str) -> Result<(), String> {
        let subscription = |topic: &Arc<str>| {
            serde_json::json!({
                "topic": self.requests.wire_name(topic),
                "subString": "*",
                "expressionType": "TAG",
                "subVersion": 0,
                "tagsSet": [],
                "codeSet": [],
                "classFilterMode": false,
            })
        };
        let body = serde_json::json!({
            "clientID": self.name,
            "producerDataSet": [],
            "consumerDataSet": [{
                "groupName": self.group,
                "consumeType": "CONSUME_ACTIVELY",
                "messageModel": "CLUSTERING",
                "consumeFromWhere": "CONSUME_FROM_FIRST_OFFSET",
                "subscriptionDataSet": self.topics.iter().map(subscription).collect::<Vec<_>>(),
                "unitMode": false,
            }],
        });
        let body = body.to_string().into_bytes();
        line.call(address, HEART_BEAT, &[], body, self.requests.timeout()).await?.ok().map(drop)
    }

    /// The members that a broker knows.
    pub(super) async fn members(&self, line: &Line, address: &str) -> Result<BTreeSet<String>, String> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Members {
            #[serde(default)]
            consumer_id_list: BTreeSet<String>,
        }
        let group = [("consumerGroup", self.group.clone())];
        let answer =
            line.call(address, GET_CONSUMER_LIST_BY_GROUP, &group, Vec::new(), self.requests.timeout()).await?;
        if answer.code() == SYSTEM_ERROR {
            return Ok(BTreeSet::new());
        }
        let answer = answer.ok()?;
        let members: Members = serde_json::from_slice(answer.body())
            .map_err(|_| format!("the broker at {address}: its list of members cannot be read"))?;
        Ok(members.consumer_id_list)
    }

    /// Tells every broker that this member is gone.
    pub(super) async fn leave(&self, line: &Line) {
        let addresses: Vec<String> = self.addresses().values().cloned().collect();
        let fields = [("clientID", self.name.clone()), ("consumerGroup", self.group.clone())];
        for address in addresses {
            let left = line.call(&address, UNREGISTER_CLIENT, &fields, Vec::new(), self.requests.timeout()).await;
            if let Err(error) = left.and_then(Answer::ok) {
                // The broker notices when the connection ends.
                tracing::debug!(group = self.group, error, "a broker was not told that a consumer has left");
            }
        }
    }
}
