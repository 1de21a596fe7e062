//! Fenced topics: what an owner that died or stopped had under way, and what becomes of a broker's death in a transaction.

use std::time::Duration;

use diesel_outbox::relay::TransportStatus;
use xtask::servers::{Kafka, ServerKind, kafka};
use xtask::test_servers;

use super::any_shop::{AnyShop, Database};
use super::audit::{count_written, read_records};
use super::ordered::Ordered;
use super::owner::{LANE_LEASE, Sends, until, until_all_owned, until_shared};
use super::shop::Shop;

/// With messages in a transaction of the broker's that nobody has committed.
const IN_A_TRANSACTION: &str = "lane::committing";

/// How many records the topic has, for who reads what is committed.
async fn stored(shop: &AnyShop) -> usize {
    let (bootstrap, topic) = (shop.at.bootstrap.clone(), shop.at.topic.clone());
    tokio::task::spawn_blocking(move || read_records(&bootstrap, &topic).len()).await.unwrap()
}

/// How many it has beside those.
async fn never_committed(shop: &AnyShop) -> usize {
    let (bootstrap, topic) = (shop.at.bootstrap.clone(), shop.at.topic.clone());
    let written = tokio::task::spawn_blocking(move || count_written(&bootstrap, &topic)).await.unwrap();
    written - stored(shop).await
}

async fn owner_is_killed(on: Database, sends: Sends) {
    let Some(ordered) = Ordered::open(on, sends).await else { return };
    let (outbox, mut connection) = (ordered.outbox(), ordered.shop.connect().await);
    let relay = ordered.relay().await;
    let mut other = ordered.spawn_that_dies(IN_A_TRANSACTION, 1);
    until_shared(&relay).await;
    let placing = ordered.place(&mut connection, &outbox, 0..100);
    let ((), killed) = tokio::join!(placing, other.wait_until_killed());
    ordered.place(&mut connection, &outbox, 100..150).await;
    ordered.shop.wait_until_drained().await;
    let waited = killed.elapsed();
    // Lane lease and poll, and what a busy machine takes to fence; the delivery time-out would be 4 s more.
    let bound = LANE_LEASE + Duration::from_secs(1);
    tracing::info!(?waited, ?bound, "the last message of a killed owner's lanes was settled");
    assert!(waited < bound + Duration::from_secs(3), "{waited:?}");
    assert!(never_committed(&ordered.shop).await > 0, "nothing was in flight, so the test shows nothing");
    let audit = ordered.audit().await;
    assert!(audit.duplicates == 0 || sends != Sends::Once, "{audit:?}");
    assert!(relay.shutdown(Duration::from_secs(20)).await.is_clean());
}

/// Stopped with messages under way, it goes on when others have sent them and more.
async fn owner_is_stopped(on: Database, sends: Sends) {
    let Some(ordered) = Ordered::open(on, sends).await else { return };
    let (outbox, mut connection) = (ordered.outbox(), ordered.shop.connect().await);
    let relay = ordered.relay().await;
    let mut other = ordered.spawn_that_stops(IN_A_TRANSACTION, 1);
    until_shared(&relay).await;
    let placing = ordered.place(&mut connection, &outbox, 0..60);
    tokio::join!(placing, other.wait_until_stopped());
    ordered.place(&mut connection, &outbox, 60..100).await;
    ordered.shop.wait_until_drained().await;
    until_all_owned(&relay).await;
    assert!(never_committed(&ordered.shop).await > 0, "nothing was in flight, so the test shows nothing");
    let before = stored(&ordered.shop).await;
    other.resume();
    until_shared(&relay).await;
    assert_eq!(stored(&ordered.shop).await, before, "a message in flight arrived after the fence");
    ordered.place(&mut connection, &outbox, 100..150).await;
    other.end_and_wait().await;
    ordered.shop.wait_until_drained().await;
    let audit = ordered.audit().await;
    assert!(audit.duplicates == 0 || sends != Sends::Once, "{audit:?}");
    assert!(relay.shutdown(Duration::from_secs(20)).await.is_clean());
}

async fn broker_is_killed(sends: Sends) {
    let Some(database) = test_servers::shared_or_skip(ServerKind::Postgres) else { return };
    let Some(mut broker) = test_servers::own_or_skip(Kafka::start(&kafka::Options::default())) else { return };
    let shop = AnyShop::on_postgres(Shop::open_on(&database, &broker.bootstrap()).await).await;
    let ordered = Ordered::of(shop, sends);
    let (outbox, mut connection) = (ordered.outbox(), ordered.shop.connect().await);
    let relay = ordered.relay().await;
    until_all_owned(&relay).await;
    for round in 0..2 {
        let first = round * 400;
        ordered.place(&mut connection, &outbox, first..first + 150).await;
        broker.kill9().unwrap();
        ordered.place(&mut connection, &outbox, first + 150..first + 300).await;
        if round == 1 {
            until("the outage is noticed", || relay.status().transport != TransportStatus::Up).await;
        }
        broker.start_again().unwrap();
        ordered.place(&mut connection, &outbox, first + 300..first + 400).await;
        ordered.shop.wait_until_drained().await;
    }
    let audit = ordered.audit().await;
    assert!(audit.duplicates == 0 || sends != Sends::Once, "{audit:?}");
    assert!(relay.shutdown(Duration::from_secs(20)).await.is_clean());
}

async fn join_and_leave(on: Database, sends: Sends) {
    let Some(ordered) = Ordered::open(on, sends).await else { return };
    let (outbox, mut connection) = (ordered.outbox(), ordered.shop.connect().await);
    let relay = ordered.relay().await;
    until_all_owned(&relay).await;
    let mut other = ordered.spawn();
    let placing = ordered.place(&mut connection, &outbox, 0..300);
    tokio::join!(placing, until_shared(&relay));
    let placing = ordered.place(&mut connection, &outbox, 300..500);
    tokio::join!(placing, other.end_and_wait());
    until_all_owned(&relay).await;
    // Shut down under load: what is left is its successor's.
    let placing = ordered.place(&mut connection, &outbox, 500..800);
    let ending = async { relay.shutdown(Duration::from_secs(20)).await };
    let ((), report) = tokio::join!(placing, ending);
    assert!(report.is_clean(), "{report:?}");
    let successor = ordered.relay().await;
    ordered.shop.wait_until_drained().await;
    assert!(successor.shutdown(Duration::from_secs(20)).await.is_clean());
    assert_eq!(ordered.audit().await.duplicates, 0, "healthy hand-overs");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broker_killed_in_transactions_loses_nothing_and_no_order() {
    broker_is_killed(Sends::Fenced).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broker_killed_in_exactly_once_transactions_makes_no_duplicate() {
    broker_is_killed(Sends::Once).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_owner_is_replaced_without_waiting_for_its_messages() {
    owner_is_killed(Database::Postgres, Sends::Fenced).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_owner_is_replaced_without_waiting_for_its_messages_on_mariadb() {
    owner_is_killed(Database::Mariadb, Sends::Fenced).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_owner_is_replaced_without_waiting_for_its_messages_on_sqlite() {
    owner_is_killed(Database::Sqlite, Sends::Fenced).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_from_an_owner_stopped_past_its_lease_arrives() {
    owner_is_stopped(Database::Postgres, Sends::Fenced).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_from_an_owner_stopped_past_its_lease_arrives_on_mariadb() {
    owner_is_stopped(Database::Mariadb, Sends::Fenced).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn joining_and_leaving_owners_of_a_fenced_topic_duplicate_nothing() {
    join_and_leave(Database::Postgres, Sends::Fenced).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn joining_and_leaving_owners_of_a_fenced_topic_duplicate_nothing_on_mariadb() {
    join_and_leave(Database::Mariadb, Sends::Fenced).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn joining_and_leaving_owners_of_a_fenced_topic_duplicate_nothing_on_sqlite() {
    join_and_leave(Database::Sqlite, Sends::Fenced).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_owner_of_an_exactly_once_topic_is_replaced_without_a_duplicate() {
    owner_is_killed(Database::Postgres, Sends::Once).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_owner_of_an_exactly_once_topic_stopped_past_its_lease_duplicates_nothing() {
    owner_is_stopped(Database::Postgres, Sends::Once).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_owner_of_an_exactly_once_topic_is_replaced_without_a_duplicate_on_mariadb() {
    owner_is_killed(Database::Mariadb, Sends::Once).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_owner_of_an_exactly_once_topic_stopped_past_its_lease_duplicates_nothing_on_mariadb() {
    owner_is_stopped(Database::Mariadb, Sends::Once).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_owner_of_an_exactly_once_topic_is_replaced_without_a_duplicate_on_sqlite() {
    owner_is_killed(Database::Sqlite, Sends::Once).await;
}
