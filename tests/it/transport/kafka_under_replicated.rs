//! A topic with too few replicas in sync, beside topics that lack nothing.

use std::sync::Arc;
use std::time::{Duration, Instant};

use diesel_outbox::Topic;
use diesel_outbox::testing::{OutcomeRecorder, RecordedOutcome};
use diesel_outbox::transport::{FailureClass, FencedLane, KafkaConfig, KeySequence, LaneName, Transport};
use rdkafka::admin::{NewTopic, TopicReplication};
use rdkafka::consumer::{BaseConsumer, Consumer as _};
use rdkafka::producer::{BaseProducer, Producer as _};
use xtask::servers::Kafka;
use xtask::servers::kafka::Options;
use xtask::test_servers;

use super::broker::{TIMEOUT, client, envelope, read, transport, unique_name};
use super::kafka_late_end::make;

/// The longest that a message to a topic which lacks nothing may take: five requests before it on the connection, each of which the
/// broker keeps for the half second that it waits for a dead replica, and what a busy machine takes. It was 25 s, the whole of
/// `message.timeout.ms`.
const BOUND: Duration = Duration::from_secs(15);

/// How often something is sent, and looked at.
const PACE: Duration = Duration::from_millis(100);

/// Messages to one topic at the pace of the test, and how long the slowest took. One that the client puts off is sent again, as a relay
/// does: on a busy machine a partition may stall for a moment.
struct Paced {
    to: SendMode,
    topic: String,
    outcomes: Arc<OutcomeRecorder>,
    /// When each was sent first, by id.
    sent: Vec<Instant>,
    completed: usize,
    delivered: usize,
    slowest: Duration,
    /// Why the lane could not be fenced again, at last.
    not_fenced: Option<String>,
}

#[derive(Clone)]
enum SendMode {
    Plain(Arc<dyn Transport>),
    Fenced { kafka: Arc<dyn Transport>, lane: Arc<dyn FencedLane> },
}

impl Paced {
    fn new(to: &SendMode, topic: &str) -> Self {
        Self {
            to: to.clone(),
            topic: topic.to_owned(),
            outcomes: OutcomeRecorder::new(),
            sent: Vec::new(),
            completed: 0,
            delivered: 0,
            slowest: Duration::ZERO,
            not_fenced: None,
        }
    }

    fn send(&mut self) {
        self.send_since(Instant::now());
    }

    fn send_since(&mut self, since: Instant) {
        let id = i64::try_from(self.sent.len()).expect("few");
        self.sent.push(since);
        let envelope = envelope(&self.topic, Some("key"));
        match &self.to {
            SendMode::Plain(kafka) => self.outcomes.send(&**kafka, id, envelope),
            SendMode::Fenced { lane, .. } => self.outcomes.send_fenced(&**lane, &KeySequence::new(), [(id, envelope)]),
        }
    }

    /// Looks at what came since the last look.
    async fn poll(&mut self) {
        // A busy machine may close a lane, and a closed one refuses everything: a relay fences it again.
        if let SendMode::Fenced { kafka, lane } = &mut self.to
            && !lane.is_open()
        {
            match kafka.fence(name_of(&self.topic)).await {
                Ok(again) => *lane = again,
                Err(error) => self.not_fenced = Some(format!("{error:?}")),
            }
        }
        let seen = self.outcomes.seen();
        for (id, seen) in &seen[self.completed..] {
            let since = self.sent[usize::try_from(*id).expect("an index")];
            match seen.class() {
                None if *seen == RecordedOutcome::Delivered => self.delivered += 1,
                Some(FailureClass::Temporary) => self.send_since(since),
                _ => panic!("after {:?}: {seen:?}", since.elapsed()),
            }
            self.slowest = self.slowest.max(since.elapsed());
        }
        self.completed = seen.len();
    }

    async fn ends(mut self, what: &str) {
        let ended_at = Instant::now();
        let mut tick = tokio::time::interval(PACE);
        while self.completed < self.sent.len() {
            let (of, why) = (self.sent.len(), &self.not_fenced);
            assert!(
                ended_at.elapsed() < BOUND,
                "{what}: {} of {of} done, {} delivered, {why:?}",
                self.completed,
                self.delivered
            );
            // What is put off at once is not sent again as fast as it can be.
            tick.tick().await;
            self.poll().await;
        }
        let again = self.sent.len() - self.delivered;
        tracing::info!(what, self.delivered, again, slowest = ?self.slowest, "all were delivered");
        assert!(self.slowest < BOUND, "{what}: {:?}", self.slowest);
    }
}

/// Two nodes. Every topic is led by the first, and so is the log of transactions; the topics that starve want both.
struct Pair {
    first: Kafka,
    second: Kafka,
}

impl Pair {
    fn open() -> Option<Self> {
        let first = test_servers::own_or_skip(Kafka::start(&Options::default()))?;
        // The log has one replica, and is made at the first use. On the second node it would be gone with it, and no lane could commit.
        let mut config = client(&first.bootstrap());
        let producer: BaseProducer = config.set("transactional.id", "first").create().expect("a client");
        producer.init_transactions(TIMEOUT).expect("there is a log of transactions");
        let options = Options { second_of: Some(first.cluster()), ..Options::default() };
        let second = test_servers::own_or_skip(Kafka::start(&options))?;
        Some(Self { first, second })
    }

    async fn topic(&self, name: &str, replicas: &[i32]) -> String {
        let topic = unique_name(name);
        let on: [&[i32]; 2] = [replicas; 2];
        let new = NewTopic::new(&topic, 2, TopicReplication::Variable(&on));
        let wanted = replicas.len().to_string();
        make(&self.first.bootstrap(), &new.set("min.insync.replicas", &wanted)).await;
        topic
    }

    /// Waits until every replica has the marks of the topic's transactions. A commit is answered before, and the coordinator has one
    /// request for marks on its way to a broker at a time. One that waits for a dead replica holds back the marks of every other
    /// topic, for as long as 30 s.
    async fn wait_until_marked(&self, topic: &str) {
        let is_marked = async {
            while read(&self.first.bootstrap(), topic).is_empty() {
                tokio::time::sleep(PACE).await;
            }
        };
        tokio::time::timeout(TIMEOUT, is_marked).await.expect("what was committed can be read");
    }

    /// Whether every replica of the topic is in sync.
    fn is_whole(&self, topic: &str) -> bool {
        let consumer: BaseConsumer = client(&self.first.bootstrap()).create().expect("a client");
        let metadata = consumer.fetch_metadata(Some(topic), TIMEOUT).expect("metadata");
        metadata.topics()[0].partitions().iter().all(|partition| partition.isr().len() == partition.replicas().len())
    }
}

fn name_of(topic: &str) -> LaneName {
    LaneName { outbox: "starved".into(), topic: topic.into(), lane: 0 }
}

async fn fenced_lane(kafka: &Arc<dyn Transport>, topic: &str) -> SendMode {
    let lane = kafka.fence(name_of(topic)).await.expect("fenced");
    SendMode::Fenced { kafka: Arc::clone(kafka), lane }
}

/// The broker keeps a request until every replica has it, and with it all requests behind it on the connection. A replica that died is
/// waited for as long as it counts as in sync, and with too few of them for as long as the request says.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_under_replicated_topic_blocks_no_other_and_recovers() {
    const WINDOW: usize = 2_000;
    let Some(mut pair) = Pair::open() else { return };
    let kafka: Arc<dyn Transport> = transport(KafkaConfig::new(pair.first.bootstrap())).into();
    let (starved, fenced_starved) = (pair.topic("starved", &[1, 2]).await, pair.topic("fenced-starved", &[1, 2]).await);
    let (warm, fenced) = (pair.topic("warm", &[1]).await, pair.topic("fenced", &[1]).await);
    let mut cold = Vec::new();
    for _ in 0..4 {
        cold.push(pair.topic("cold", &[1]).await);
    }
    let names = [&starved, &fenced_starved, &warm, &fenced].into_iter().chain(&cold);
    kafka.prepare(&names.map(|name| Topic::new(&**name)).collect::<Vec<_>>()).await.expect("prepared");
    let plain = SendMode::Plain(Arc::clone(&kafka));
    let (lane, starved_lane) = (fenced_lane(&kafka, &fenced).await, fenced_lane(&kafka, &fenced_starved).await);
    let all = [(&plain, &starved), (&plain, &warm), (&lane, &fenced), (&starved_lane, &fenced_starved)];
    for (to, topic) in all {
        let mut first = Paced::new(to, topic);
        first.send();
        first.ends("with every replica").await;
    }

    pair.wait_until_marked(&fenced_starved).await;
    pair.second.kill9().expect("killed");
    let (load, mut sent) = (OutcomeRecorder::new(), 0);
    let [mut to_warm, mut to_fenced] = [Paced::new(&plain, &warm), Paced::new(&lane, &fenced)];
    let mut to_cold: Vec<Paced> = cold.iter().map(|topic| Paced::new(&plain, topic)).collect();
    // Nobody waits for what becomes of it.
    Paced::new(&starved_lane, &fenced_starved).send();
    let mut tick = tokio::time::interval(PACE);
    // Longer than a dead broker counts as one: 9 s.
    for round in 0..150 {
        tick.tick().await;
        for _ in 0..WINDOW.saturating_sub(sent - load.count()).min(100) {
            let key = format!("key-{}", sent % 64);
            load.send(&*kafka, i64::try_from(sent).expect("few"), envelope(&starved, Some(&key)));
            sent += 1;
        }
        [&mut to_warm, &mut to_fenced].into_iter().for_each(Paced::send);
        if round % 30 == 10
            && let Some(cold) = to_cold.get_mut(round / 30)
        {
            cold.send();
        }
        for topic in [&mut to_warm, &mut to_fenced].into_iter().chain(&mut to_cold) {
            topic.poll().await;
        }
    }
    to_warm.ends("warm").await;
    to_fenced.ends("fenced").await;
    for cold in to_cold {
        cold.ends("cold").await;
    }
    assert!(load.seen().iter().all(|(_, seen)| *seen != RecordedOutcome::Delivered), "it lacks nothing");

    pair.second.start_again().expect("started");
    let is_back = async {
        while !pair.is_whole(&starved) {
            tick.tick().await;
        }
    };
    tokio::time::timeout(TIMEOUT, is_back).await.expect("every replica is in sync");
    let mut back = Paced::new(&plain, &starved);
    // The last of them came when there was one replica, and are tried again within a second.
    load.wait_until(|seen| seen.len() == sent, BOUND).await;
    back.send();
    back.ends("starved before").await;
}
