//! What is particular to PostgreSQL: isolation levels, and partitions.

use std::thread;

use diesel::PgConnection;
use diesel_outbox::MessageId;
use diesel_outbox::inbox::{Claim, InboxError, InboxKey, Once};

use super::inbox;
use super::node::{Failed, NEVER, Node, Place, SyncNode, key_of};

type Pg = SyncNode<PgConnection>;

const LEVELS: [&str; 2] = ["repeatable read", "serializable"];

/// A claim that waits for another one's end; returns what it found.
fn behind(level: &str, end: impl FnOnce(&mut Pg)) -> Option<Result<Claim, InboxError>> {
    let inbox = inbox("billing");
    let place = Place::<Pg>::fresh(&inbox)?;
    let (mut first, key) = (place.node(), InboxKey::from(MessageId::new()));
    first.begin();
    assert_eq!(first.claim(&inbox, key).expect("claim"), Claim::New);
    Some(thread::scope(|scope| {
        let second = scope.spawn(|| {
            let mut node = place.node();
            node.begin();
            node.run(&format!("SET TRANSACTION ISOLATION LEVEL {level}")).expect("set the level");
            let claim = node.claim(&inbox, key);
            node.roll_back();
            claim
        });
        place.until_waiting(1);
        end(&mut first);
        second.join().expect("no panic")
    }))
}

/// Its snapshot is older than the other one's entry (40001).
#[test]
fn a_claim_with_a_snapshot_fails_behind_another_one() {
    for level in LEVELS {
        let Some(claim) = behind(level, |first| first.commit().expect("commit")) else { return };
        let error = claim.expect_err("it cannot see the entry");
        assert!(error.is_retriable(), "{level}: {error}");
        assert_eq!(behind(level, Pg::roll_back).expect("a server").expect("claim"), Claim::New);
    }
    let claim = behind("read committed", |first| first.commit().expect("commit")).expect("a server");
    assert_eq!(claim.expect("claim"), Claim::Duplicate);
}

#[test]
fn once_tries_a_claim_again_that_failed_by_its_snapshot() {
    for level in LEVELS {
        let inbox = inbox("billing");
        let Some(place) = Place::<Pg>::fresh(&inbox) else { return };
        let (mut first, key) = (place.node(), InboxKey::from(MessageId::new()));
        first.begin();
        assert_eq!(first.claim(&inbox, key).expect("claim"), Claim::New);
        let once = thread::scope(|scope| {
            let second = scope.spawn(|| {
                let mut node = place.node();
                node.run(&format!("SET default_transaction_isolation = '{level}'")).expect("set the level");
                node.once(&inbox, key, NEVER)
            });
            place.until_waiting(1);
            first.commit().expect("commit");
            second.join().expect("no panic")
        });
        assert_eq!(once.expect("once"), Once::Duplicate, "{level}");
    }
}

fn partitions(place: &Place<Pg>) -> Vec<String> {
    place.node().texts(
        "SELECT inhrelid::regclass::text FROM pg_inherits WHERE inhparent = 'outbox_inbox'::regclass \
         AND inhrelid::regclass::text ~ '[0-9]{8}$' ORDER BY 1",
    )
}

/// The partition that has a message's entry.
fn partition_of(place: &Place<Pg>, key: InboxKey) -> String {
    let texts =
        place.node().texts(&format!("SELECT tableoid::regclass::text FROM outbox_inbox WHERE message_id = '{key}'"));
    texts.join(", ")
}

/// A partition for the first of January 2020, as an earlier prune made it.
const JANUARY: &str = "outbox_inbox_20200101";
const MADE_THEN_MS: i64 = 1_577_836_800_000;

fn with_january(inbox: &diesel_outbox::inbox::Inbox) -> Option<Place<Pg>> {
    let place = Place::<Pg>::fresh(inbox)?;
    place
        .node()
        .run(&format!(
            "CREATE TABLE {JANUARY} PARTITION OF outbox_inbox \
             FOR VALUES FROM ('016f5e66-e800-0000-0000-000000000000') TO ('016f638d-4400-0000-0000-000000000000')"
        ))
        .expect("create");
    Some(place)
}

#[test]
fn each_day_has_a_partition_that_is_created_ahead() {
    let inbox = inbox("billing");
    let Some(place) = Place::<Pg>::fresh(&inbox) else { return };
    let (mut node, key) = (place.node(), InboxKey::from(MessageId::new()));
    node.prune(&inbox).expect("prune");
    // 14 days, today, and three ahead; the first call makes some of them.
    node.prune(&inbox).expect("prune");
    assert_eq!(partitions(&place).len(), 18);
    let today = node.texts("SELECT 'outbox_inbox_' || to_char(now() AT TIME ZONE 'UTC', 'YYYYMMDD')");
    node.once(&inbox, key, NEVER).expect("once");
    assert_eq!(partition_of(&place, key), today[0], "unless midnight passed just now: run it again");
    let undated = InboxKey::of_text("order-17");
    node.once(&inbox, undated, NEVER).expect("once");
    assert_eq!(partition_of(&place, undated), "outbox_inbox_undated");
    node.prune(&inbox).expect("prune");
    assert_eq!(partitions(&place).len(), 18);
}

/// Members of a group that start together prune together.
#[test]
fn a_partition_that_another_prune_creates_is_no_error() {
    let inbox = inbox("billing");
    let Some(place) = Place::<Pg>::fresh(&inbox) else { return };
    let mut other = place.node();
    let today = other.texts("SELECT 'outbox_inbox_' || to_char(now() AT TIME ZONE 'UTC', 'YYYYMMDD')").remove(0);
    other.begin();
    other.run(&format!("CREATE TABLE {today} ()")).expect("create");
    let pruned = thread::scope(|scope| {
        let prune = scope.spawn(|| place.node().prune(&inbox));
        place.until_waiting(1);
        other.commit().expect("commit");
        prune.join().expect("no panic")
    });
    pruned.expect("the other one has created it");
}

#[test]
fn a_day_is_removed_with_its_partition() {
    let inbox = inbox("billing");
    let Some(place) = with_january(&inbox) else { return };
    let (mut node, key) = (place.node(), key_of(MADE_THEN_MS, "a"));
    node.once(&inbox, key, NEVER).expect("once");
    assert_eq!(partition_of(&place, key), JANUARY);
    let pruned = node.prune(&inbox).expect("prune");
    assert_eq!(pruned.entries, 0, "nothing is deleted row by row");
    assert!(!partitions(&place).contains(&JANUARY.to_owned()) && place.entries() == 0);
    assert!(matches!(node.once(&inbox, key, NEVER), Err(Failed::Inbox(InboxError::TooOld { .. }))));
}

/// Somebody's handler always runs, and dropping a partition needs a lock on all of them.
#[test]
fn a_day_is_emptied_while_claims_are_open() {
    let inbox = inbox("billing");
    let Some(place) = with_january(&inbox) else { return };
    let (mut node, mut open) = (place.node(), place.node());
    node.once(&inbox, key_of(MADE_THEN_MS, "a"), NEVER).expect("once");
    open.begin();
    assert_eq!(open.claim(&inbox, MessageId::new().into()).expect("claim"), Claim::New);
    node.prune(&inbox).expect("prune");
    assert_eq!(place.number("pg_relation_size(oid)", &format!("pg_class WHERE relname = '{JANUARY}'")), 0);
    open.commit().expect("commit");
    node.prune(&inbox).expect("prune");
    assert!(!partitions(&place).contains(&JANUARY.to_owned()));
}

/// A claim that began before the start moved keeps its day until its end.
#[test]
fn an_open_claim_of_an_old_day_delays_its_removal() {
    let inbox = inbox("billing");
    let Some(place) = with_january(&inbox) else { return };
    let (mut node, mut open, key) = (place.node(), place.node(), key_of(MADE_THEN_MS, "a"));
    open.begin();
    assert_eq!(open.claim(&inbox, key).expect("claim"), Claim::New);
    node.prune(&inbox).expect("prune");
    open.commit().expect("commit");
    assert_eq!(partition_of(&place, key), JANUARY);
    assert_eq!(node.once(&inbox, key, NEVER).expect("once"), Once::Duplicate, "its entry is there");
    node.prune(&inbox).expect("prune");
    assert!(matches!(node.once(&inbox, key, NEVER), Err(Failed::Inbox(InboxError::TooOld { .. }))));
    assert_eq!((place.entries(), place.effects(key)), (0, 0));
}

/// No prune ran ahead, so its entries are in the default partition, and ATTACH would fail for good.
#[test]
fn a_day_that_began_without_a_partition_goes_on_without() {
    let inbox = inbox("billing");
    let Some(place) = Place::<Pg>::fresh(&inbox) else { return };
    let (mut node, keys) = (place.node(), [(); 2].map(|()| InboxKey::from(MessageId::new())));
    node.once(&inbox, keys[0], NEVER).expect("once");
    for _ in 0..2 {
        node.prune(&inbox).expect("prune");
    }
    assert_eq!(partitions(&place).len(), 17, "all but today's");
    node.once(&inbox, keys[1], NEVER).expect("once");
    assert_eq!(keys.map(|key| partition_of(&place, key)), ["outbox_inbox_default"; 2]);
    assert_eq!(node.once(&inbox, keys[0], NEVER).expect("once"), Once::Duplicate);
}

/// The application runs as a role that may not create tables, and its claims go on.
#[test]
fn a_role_that_owns_no_table_is_told_so_and_removes_what_it_can() {
    let inbox = inbox("billing");
    let Some(place) = Place::<Pg>::fresh(&inbox) else { return };
    let (mut node, role) = (place.node(), format!("app_{}", MessageId::new().as_uuid().simple()));
    node.once(&inbox, key_of(1, "old"), NEVER).expect("once");
    node.run(&format!(
        "CREATE ROLE {role}; GRANT INSERT ON effects TO {role}; GRANT SELECT, INSERT ON outbox_inbox TO {role}; \
         GRANT SELECT ON outbox_inbox_start TO {role}; SET ROLE {role}"
    ))
    .expect("a role");
    let key = MessageId::new().into();
    for expected in [Once::Done(()), Once::Duplicate] {
        assert_eq!(node.once(&inbox, key, NEVER).expect("the rights of docs/inbox.md"), expected);
    }
    assert_eq!(node.once_many(&inbox, &[key, MessageId::new().into()], NEVER).expect("a batch").len(), 2);
    node.run(&format!("RESET ROLE; GRANT ALL ON ALL TABLES IN SCHEMA public TO {role}")).expect("more rights");
    node.run(&format!("GRANT ALL ON ALL SEQUENCES IN SCHEMA public TO {role}; SET ROLE {role}")).expect("more rights");
    let refused = node.prune(&inbox).expect_err("it may not create partitions");
    assert!(matches!(refused, InboxError::Database(_)), "{refused}");
    assert_eq!(place.effects(key_of(1, "old")), 1);
    assert_eq!(place.number("count(*)", "outbox_inbox WHERE message_id < '01000000-0000-0000-0000-000000000000'"), 0);
    node.run(&format!("RESET ROLE; DROP OWNED BY {role}; DROP ROLE {role}")).expect("remove the role");
}
