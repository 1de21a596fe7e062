//! Ordered topics: owners that die, stop, join and leave, and the order in which each key's messages appear.

use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::time::Duration;

use diesel_outbox::Outbox;
use diesel_outbox::relay::Relay;

use super::any_shop::{AnyConnection, AnyShop, Database};
use super::audit::{Audit, read_records};
use super::owner::{LANE_LEASE, Owner, Script, Sends, start, topic_of, until_all_owned, until_shared};

/// A shop whose topic is ordered.
pub(super) struct Ordered {
    pub(super) shop: AnyShop,
    sends: Sends,
}

impl Ordered {
    pub(super) async fn open(on: Database, sends: Sends) -> Option<Self> {
        Some(Self::of(AnyShop::open(on).await?, sends))
    }

    pub(super) fn of(shop: AnyShop, sends: Sends) -> Self {
        Self { shop, sends }
    }

    pub(super) fn outbox(&self) -> Outbox {
        Outbox::builder().topic(topic_of(&self.shop.at, self.sends)).build().unwrap()
    }

    pub(super) async fn relay(&self) -> Relay {
        start(self.shop.on, &self.shop.at, &self.outbox(), self.shop.at.kafka()).await
    }

    pub(super) fn script(&self) -> Script {
        Script::new(self.shop.on, &self.shop.at, self.sends)
    }

    /// Another owner, in a process of its own.
    pub(super) fn spawn(&self) -> Owner {
        self.script().spawn()
    }

    /// One that kills itself at a hit of a failpoint.
    pub(super) fn spawn_that_dies(&self, step: &str, nth_hit: usize) -> Owner {
        Script { crash_at: Some(step.to_owned()), nth_hit, ..self.script() }.spawn()
    }

    /// One that stops itself there, until it goes on.
    pub(super) fn spawn_that_stops(&self, step: &str, nth_hit: usize) -> Owner {
        Script { crash_at: Some(step.to_owned()), nth_hit, stops: true, ..self.script() }.spawn()
    }

    /// Waits until an owner that stops has. On SQLite it is stopped while nobody writes: whoever is stopped in the middle of that
    /// keeps the file locked for all.
    async fn wait_until_stopped(&self, owner: &Owner) {
        if self.shop.on == Database::Sqlite {
            owner.reached_step().await;
            self.shop.while_unwritten(|| owner.stop());
        } else {
            owner.wait_until_stopped().await;
        }
    }

    /// Places orders one after the other: each is committed before the next is enqueued.
    pub(super) async fn place(&self, connection: &mut AnyConnection, outbox: &Outbox, numbers: Range<i32>) {
        for number in numbers {
            connection.place(outbox, &self.shop.at.topic, number).await;
        }
    }

    /// Compares the topic with what was committed, and each key's first appearances with their order.
    pub(super) async fn audit(&self) -> Audit {
        let audit = self.shop.audit().await;
        let (bootstrap, topic) = (self.shop.at.bootstrap.clone(), self.shop.at.topic.clone());
        let records = tokio::task::spawn_blocking(move || read_records(&bootstrap, &topic)).await.unwrap();
        let (mut seen, mut last) = (HashSet::new(), HashMap::<String, i32>::new());
        for record in records {
            if !seen.insert(record.id) {
                continue;
            }
            let number: i32 = std::str::from_utf8(&record.payload).unwrap().parse().unwrap();
            let before = last.insert(record.key.clone(), number);
            assert!(before.is_none_or(|before| before < number), "{}: {number} behind {before:?}", record.key);
        }
        assert_eq!(last.len(), 20, "every key has messages");
        assert_eq!((audit.delivered, audit.dead_letters), (audit.committed, 0), "{audit:?}");
        audit
    }
}

async fn join_and_leave(on: Database) {
    let Some(ordered) = Ordered::open(on, Sends::Plain).await else { return };
    let (outbox, mut connection) = (ordered.outbox(), ordered.shop.connect().await);
    let relay = ordered.relay().await;
    until_all_owned(&relay).await;
    ordered.place(&mut connection, &outbox, 0..100).await;
    let mut other = ordered.spawn();
    let placing = ordered.place(&mut connection, &outbox, 100..400);
    tokio::join!(placing, until_shared(&relay));
    let placing = ordered.place(&mut connection, &outbox, 400..600);
    tokio::join!(placing, other.end_and_wait());
    until_all_owned(&relay).await;
    ordered.place(&mut connection, &outbox, 600..700).await;
    ordered.shop.wait_until_drained().await;
    assert!(relay.shutdown(Duration::from_secs(20)).await.is_clean());
    assert_eq!(ordered.audit().await.duplicates, 0, "a healthy hand-over");
}

/// It dies of an acknowledgement, so that its next owner has a message to send that the broker has.
async fn owner_is_killed(on: Database) {
    let Some(ordered) = Ordered::open(on, Sends::Plain).await else { return };
    let (outbox, mut connection) = (ordered.outbox(), ordered.shop.connect().await);
    let relay = ordered.relay().await;
    let mut other = ordered.spawn_that_dies("relay::acknowledged", 10);
    until_shared(&relay).await;
    let placing = ordered.place(&mut connection, &outbox, 0..300);
    let ((), killed) = tokio::join!(placing, other.wait_until_killed());
    ordered.place(&mut connection, &outbox, 300..500).await;
    ordered.shop.wait_until_drained().await;
    // Lane lease, poll, delivery time-out with what the client takes beyond it, and the margin; and some for the machine.
    let bound = LANE_LEASE + Duration::from_secs(1 + 2 + 2) + Duration::from_millis(500);
    assert!(killed.elapsed() < bound + Duration::from_secs(5), "{:?}", killed.elapsed());
    assert!(ordered.audit().await.duplicates > 0, "nothing was in flight, so the test shows nothing");
}

/// Stopped at an acknowledgement, it goes on when others have sent that message and more.
async fn owner_is_stopped(on: Database) {
    let Some(ordered) = Ordered::open(on, Sends::Plain).await else { return };
    let (outbox, mut connection) = (ordered.outbox(), ordered.shop.connect().await);
    let relay = ordered.relay().await;
    for round in 0..2 {
        let first = round * 400;
        until_all_owned(&relay).await;
        let mut other = ordered.spawn_that_stops("relay::acknowledged", 3);
        until_shared(&relay).await;
        let placing = ordered.place(&mut connection, &outbox, first..first + 100);
        tokio::join!(placing, ordered.wait_until_stopped(&other));
        ordered.place(&mut connection, &outbox, first + 100..first + 200).await;
        ordered.shop.wait_until_drained().await;
        until_all_owned(&relay).await;
        other.resume();
        ordered.place(&mut connection, &outbox, first + 200..first + 400).await;
        until_shared(&relay).await;
        other.end_and_wait().await;
    }
    ordered.shop.wait_until_drained().await;
    assert!(ordered.audit().await.duplicates > 0, "nothing was in flight, so the test shows nothing");
}

#[tokio::test(flavor = "multi_thread")]
async fn joining_and_leaving_owners_duplicate_nothing() {
    join_and_leave(Database::Postgres).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn joining_and_leaving_owners_duplicate_nothing_on_mariadb() {
    join_and_leave(Database::Mariadb).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn joining_and_leaving_owners_duplicate_nothing_on_sqlite() {
    join_and_leave(Database::Sqlite).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_owner_is_replaced_in_order_and_in_time() {
    owner_is_killed(Database::Postgres).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_owner_is_replaced_in_order_and_in_time_on_mariadb() {
    owner_is_killed(Database::Mariadb).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_owner_is_replaced_in_order_and_in_time_on_sqlite() {
    owner_is_killed(Database::Sqlite).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_owner_stopped_past_its_lease_reorders_nothing() {
    owner_is_stopped(Database::Postgres).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_owner_stopped_past_its_lease_reorders_nothing_on_mariadb() {
    owner_is_stopped(Database::Mariadb).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_owner_stopped_past_its_lease_reorders_nothing_on_sqlite() {
    owner_is_stopped(Database::Sqlite).await;
}
