//! Tables and a topic in memory.

use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use diesel_outbox::admin::Admin;
use diesel_outbox::internals::store::{
    Held, HistoryRow, InsertOptions, Keep, Locking, NewDeadLetter, Requeue, RowKey, Store as _,
};
use diesel_outbox::store::MemoryStore;
use diesel_outbox::{Envelope, MessageId, Outbox, Topic};

use crate::{Doubt, Finding, Partition, Record, RecordSource, Report, SourceError, TopicState, Verification};

pub(super) const SECOND: Duration = Duration::from_secs(1);
pub(super) const HOUR: Duration = Duration::from_secs(3_600);
const KEEP: Keep = Keep { days: 30, awaits_processing: true };

/// What somebody does while a topic is opened: the tables are read by then.
type Meanwhile = Box<dyn FnOnce(&mut Vec<Vec<Record>>) + Send>;

/// A topic of two partitions, unless a test makes more of them.
#[derive(Default)]
pub(super) struct MemoryTopic {
    pub(super) partitions: Vec<Vec<Record>>,
    pub(super) state: TopicState,
    pub(super) meanwhile: Option<Meanwhile>,
    /// Records that the broker shows only when it is asked again.
    pub(super) late: Vec<Record>,
    unread: Vec<Record>,
    pub(super) opened_from: Option<SystemTime>,
}

#[async_trait]
impl RecordSource for MemoryTopic {
    async fn open(&mut self, _topic: &str, from: Option<SystemTime>) -> Result<TopicState, SourceError> {
        self.opened_from = from;
        if let Some(meanwhile) = self.meanwhile.take() {
            meanwhile(&mut self.partitions);
        }
        self.unread = self.partitions.concat();
        self.unread.reverse();
        for (index, records) in self.partitions.iter().enumerate() {
            if self.state.partitions.len() <= index {
                self.state.partitions.push(Partition { name: index.to_string(), ..Partition::default() });
            }
            self.state.partitions[index].end = records.len() as i64;
        }
        Ok(self.state.clone())
    }

    /// A few at once.
    async fn next(&mut self) -> Result<Vec<Record>, SourceError> {
        let left = self.unread.len().saturating_sub(3);
        let mut batch = self.unread.split_off(left);
        batch.reverse();
        Ok(batch)
    }

    async fn move_ends(&mut self) -> Result<(), SourceError> {
        self.unread = std::mem::take(&mut self.late);
        Ok(())
    }

    fn state(&self) -> TopicState {
        self.state.clone()
    }
}

impl MemoryTopic {
    /// Appends a record.
    pub(super) fn push(&mut self, partition: usize, mut record: Record) {
        (record.partition, record.offset) = (partition as u32, self.partitions[partition].len() as i64);
        self.partitions[partition].push(record);
    }

    /// Changes a record.
    pub(super) fn record(&mut self, message: MessageId) -> &mut Record {
        let mut all = self.partitions.iter_mut().flatten();
        all.find(|record| record.message_id == Some(message)).expect("a record")
    }

    pub(super) fn remove(&mut self, message: MessageId) {
        self.partitions.iter_mut().for_each(|records| records.retain(|record| record.message_id != Some(message)));
    }
}

pub(super) struct Shop {
    pub(super) store: MemoryStore,
    pub(super) admin: Admin,
    pub(super) topic: MemoryTopic,
}

impl Shop {
    pub(super) fn open() -> Self {
        let kept = |name: &str| Topic::new(name).keep_sent_days(30);
        let outbox = Outbox::builder()
            .topic(kept("orders").processed_within(10 * SECOND))
            .topic(kept("payments").ordered_by_key().lanes(4))
            .topic(Topic::new("invoices"))
            .build()
            .expect("build");
        let store = MemoryStore::new();
        let admin = outbox.admin(store.clone());
        let topic = MemoryTopic { partitions: vec![Vec::new(), Vec::new()], ..MemoryTopic::default() };
        Self { store, admin, topic }
    }

    pub(super) fn enqueue(&self, topic: &str, key: &str, options: InsertOptions) -> RowKey {
        let mut envelope = Envelope::new(MessageId::new(), topic.into(), SystemTime::UNIX_EPOCH);
        envelope.key = Some(key.to_owned());
        envelope.kind = "order.placed".to_owned();
        envelope.headers.push("source", "shop");
        envelope.payload = Some(b"{}".to_vec());
        self.store.advance(SECOND);
        self.store.insert(envelope, options)
    }

    pub(super) async fn settle(&self, key: RowKey) {
        let row = HistoryRow { key, keep: KEEP };
        let settled = self.store.history().settle_into_history(&[row], Locking::Wait).await.expect("settle");
        assert_eq!(settled, [key]);
    }

    /// The record of a sent message.
    pub(super) async fn record_of(&self, message: MessageId) -> Record {
        let sent = self.admin.sent(message).await.expect("it is in the history");
        let mut record = Record::new(0, 0, sent.created_at);
        record.key = sent.key.clone().map(String::into_bytes);
        record.kind.clone_from(&sent.kind);
        record.headers = sent.headers().expect("headers");
        record.payload.clone_from(&sent.payload);
        record.message_id = Some(message);
        record.created_at = Some(sent.created_at);
        record
    }

    /// An enqueued, sent and settled message.
    pub(super) async fn send_to(&mut self, topic: &str, key: &str, options: InsertOptions, partition: usize) -> RowKey {
        let row = self.enqueue(topic, key, options);
        self.settle(row).await;
        let record = self.record_of(row.message_id).await;
        self.topic.push(partition, record);
        row
    }

    pub(super) async fn send(&mut self, key: &str) -> MessageId {
        self.send_to("orders", key, InsertOptions::default(), 0).await.message_id
    }

    /// A message of the ordered topic.
    pub(super) async fn pay(&mut self, key: &str, partition: usize) -> RowKey {
        self.send_to("payments", key, InsertOptions::default().in_lane(1), partition).await
    }

    pub(super) async fn dead_letter(&self, key: RowKey) {
        let dead = NewDeadLetter { held: Held { key, epoch: 0 }, reason: "attempts".to_owned() };
        assert_eq!(self.store.dead_letter(&[dead]).await.expect("dead_letter"), [key]);
    }

    /// Takes a row out of the history, as if nobody had kept it.
    pub(super) async fn forget(&self, message: MessageId) {
        let moved = self.store.history().resend(&[Requeue { message_id: message, lane: None }], None).await;
        assert_eq!(moved.expect("resend"), [message]);
        let live = self.store.live_rows().into_iter().find(|row| row.key.message_id == message).expect("it is live");
        self.store.settle(&[live.key], Locking::Wait).await.expect("settle");
    }

    pub(super) fn verification(&self, topic: &str) -> Verification {
        // What was enqueued right now is as old as the comparison.
        self.store.advance(SECOND);
        Verification::of(&self.admin, topic)
    }

    pub(super) async fn verify(&mut self, topic: &str) -> Report {
        let verification = self.verification(topic);
        verification.run(&mut self.topic, |_| {}).await.expect("verified")
    }
}

/// The verdicts of the findings, with the message of each.
pub(super) fn verdicts(report: &Report) -> Vec<(&'static str, Option<MessageId>)> {
    report.findings.iter().map(|finding| (finding.verdict(), finding.message_id())).collect()
}

#[track_caller]
pub(super) fn only(report: &Report) -> &Finding {
    assert_eq!(report.cannot_tell, [], "{:?}", report.findings);
    let [finding] = &report.findings[..] else { panic!("one finding: {:?}", report.findings) };
    finding
}

#[track_caller]
pub(super) fn only_doubt(report: &Report) -> &Doubt {
    assert_eq!(report.findings, []);
    let [doubt] = &report.cannot_tell[..] else { panic!("one doubt: {:?}", report.cannot_tell) };
    assert!(!report.is_clean());
    doubt
}

/// As precise as what verify keeps.
pub(crate) fn in_millis(at: SystemTime) -> SystemTime {
    let since = at.duration_since(SystemTime::UNIX_EPOCH).expect("a time after 1970");
    SystemTime::UNIX_EPOCH
        + Duration::from_millis(u64::try_from(since.as_millis()).expect("a time before the year 500 million"))
}
