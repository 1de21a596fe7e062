//! A topic that a login may not write, and a login that is none: relays on a broker with TLS, SASL and access lists.

use std::time::Duration;

use diesel_outbox::relay::{RelayStatus, TransportStatus};
use diesel_outbox::testing::TransportUnderTest as _;
use diesel_outbox::transport::{FailureClass, KafkaTransport};
use diesel_outbox::{Message, Outbox, Topic};
use uuid::Uuid;
use xtask::servers::ServerKind;
use xtask::servers::kafka::Login;
use xtask::test_servers;

use super::audit::{arrived, audit};
use super::messages::commit;
use super::outages::until;
use super::shop::{Shop, limits};
use crate::transport::acl::{self, Operation};
use crate::transport::kafka_access::SecuredBroker;

/// Messages of a transaction for each topic.
const EACH: usize = 20;

/// A shop with a topic on this broker; `None` where its database cannot be had.
async fn open(broker: &SecuredBroker) -> Option<Shop> {
    let database = test_servers::shared_or_skip(ServerKind::Postgres)?;
    let shop = Shop::open_on(&database, &broker.bootstrap()).await;
    Some(Shop { topic: broker.new_topic().await, ..shop })
}

fn kafka(broker: &SecuredBroker, login: &Login) -> KafkaTransport {
    KafkaTransport::new(broker.config(login).set("message.timeout.ms", "2000")).unwrap()
}

/// With one attempt: a message for which one is spent becomes a dead letter.
fn outbox(topics: &[&str]) -> Outbox {
    let topic = |name: &&str| Topic::new(*name).staleness(Duration::from_secs(2)).attempts_max(1);
    topics.iter().map(topic).fold(Outbox::builder(), |builder, topic| builder.topic(topic)).build().unwrap()
}

/// Commits messages for two topics in one transaction; the ids of each.
async fn commit_to_both(shop: &Shop, outbox: &Outbox, topics: [&str; 2]) -> [Vec<Uuid>; 2] {
    let message = |number: usize| Message::to(topics[number % 2]).payload_bytes(number.to_string());
    let ids = commit(shop, outbox, (0..2 * EACH).map(message).collect()).await;
    [0, 1].map(|topic| ids.iter().skip(topic).step_by(2).copied().collect())
}

async fn unsettled(shop: &Shop) -> Vec<Uuid> {
    let mut ids = shop.unsettled().await;
    ids.sort_unstable();
    ids
}

#[tokio::test(flavor = "multi_thread")]
async fn a_topic_that_may_not_be_written_waits_until_it_may() {
    let Some(broker) = SecuredBroker::open() else { return };
    let Some(shop) = open(&broker).await else { return };
    let (allowed, denied) = (shop.topic.clone(), broker.new_topic().await);
    let stranger = &broker.sasl().stranger;
    acl::allow(broker.port(), &stranger.user, Operation::Write, &allowed);
    let topics = [allowed.as_str(), denied.as_str()];
    let outbox = outbox(&topics);
    let limits = limits().topic_back_off_duration(Duration::from_millis(500));
    let [mut may, mut may_not] = commit_to_both(&shop, &outbox, topics).await;
    let relay = shop.relay(&outbox, kafka(&broker, stranger)).limits(limits).start().await.unwrap();
    let [also_may, neither_may] = commit_to_both(&shop, &outbox, topics).await;
    may.extend(also_may);
    may_not.extend(neither_may);
    may.sort_unstable();
    may_not.sort_unstable();

    until("what may be sent is settled", async || unsettled(&shop).await == may_not).await;
    until("the others are left to the sweepers", async || {
        let backlog = relay.backlog().await.unwrap();
        backlog.topic(&denied).is_some_and(|of| of.due == may_not.len())
    })
    .await;
    let is_refused = || relay.status().refused_topics.iter().any(|topic| **topic == *denied);
    until("the topic is known to be refused", async || is_refused()).await;
    let status = relay.status();
    assert_eq!((status.refused_topics.len(), &status.transport), (1, &TransportStatus::Up), "{status:?}");
    assert_eq!(shop.highest_attempts_and_failures().await, (0, 0), "neither an attempt nor a failure");
    assert_eq!(arrived(&shop.bootstrap, &allowed).await, may, "each once");
    assert!(arrived(&shop.bootstrap, &denied).await.is_empty());

    acl::allow(broker.port(), &stranger.user, Operation::Write, &denied);
    shop.wait_until_drained().await;
    assert!(relay.status().refused_topics.is_empty(), "{:?}", relay.status());
    assert!(relay.shutdown(Duration::from_secs(10)).await.is_clean());
    assert_eq!(arrived(&shop.bootstrap, &denied).await, may_not, "each once");
    assert!(shop.dead_letters().await.is_empty(), "an attempt was spent");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_password_is_an_outage_that_spends_nothing() {
    let Some(broker) = SecuredBroker::open() else { return };
    a_wrong_password_spends_nothing(&broker).await;
}

/// For how long the broker has not let a relay in; `None` where it does, or is away.
fn not_let_in_for(status: &RelayStatus) -> Option<Duration> {
    match status.transport {
        TransportStatus::Down { class: FailureClass::Authentication, since, .. } => Some(since),
        _ => None,
    }
}

/// A relay with a wrong password says so, and sends nothing; what waits goes with the right one. Does nothing where there is
/// no database.
pub(crate) async fn a_wrong_password_spends_nothing(broker: &SecuredBroker) {
    let Some(shop) = open(broker).await else { return };
    let (outbox, wrong) = (outbox(&[shop.topic.as_str()]), broker.wrong_login());
    let messages = || vec![Message::to(shop.topic.as_str()).payload_bytes("x"); EACH];
    let mut ids = commit(&shop, &outbox, messages()).await;
    let transport = kafka(broker, &wrong);
    let mut shown = format!("{transport:?}");
    let relay = shop.relay(&outbox, transport).start().await.unwrap();
    let status = relay.status();
    assert!(not_let_in_for(&status).is_some(), "{status:?}");
    ids.extend(commit(&shop, &outbox, messages()).await);
    ids.sort_unstable();

    until("every row has been due for some polls", async || {
        let is_long = not_let_in_for(&relay.status()) >= Some(Duration::from_secs(6));
        is_long && relay.backlog().await.unwrap().due() == ids.len()
    })
    .await;
    let status = relay.status();
    assert!(not_let_in_for(&status).is_some(), "{status:?}");
    assert_eq!(unsettled(&shop).await, ids);
    assert_eq!(shop.highest_attempts_and_failures().await, (0, 0), "neither an attempt nor a failure");
    assert!(arrived(&shop.bootstrap, &shop.topic).await.is_empty());
    shown += &format!("{status:?} {relay:?}");
    assert!(!shown.contains(&wrong.password), "{shown}");
    let report = relay.shutdown(Duration::from_secs(10)).await;
    assert!(report.is_clean(), "nothing is in flight: {report:?}");

    let relay = shop.relay(&outbox, kafka(broker, &broker.sasl().owner)).start().await.unwrap();
    shop.wait_until_drained().await;
    assert!(relay.shutdown(Duration::from_secs(10)).await.is_clean());
    let audit = audit(&shop).await;
    assert_eq!((audit.delivered, audit.duplicates, audit.dead_letters), (2 * EACH, 0, 0), "{audit:?}");
}
