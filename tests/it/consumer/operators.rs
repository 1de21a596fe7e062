//! What operators do with parked records, through `Admin`.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use diesel_outbox::admin::{Admin, AdminError, AuditFilter, ParkedRecord};
use diesel_outbox::consumer::{HandlerError, RunningConsumer};
use diesel_outbox::store::{MysqlStore, PostgresStore, SqliteStore};
use diesel_outbox::{Outbox, Topic};

use super::bed::{Bed, DEADLINE, On, Place, number, wait_until};

fn admin(place: &Place) -> Admin {
    let (outbox, url) =
        (Outbox::builder().topic(Topic::new("orders")).build().expect("an outbox"), place.database_url.as_str());
    let admin = match place.on {
        On::Postgres => outbox.admin(PostgresStore::connect(url).expect("a store")),
        On::Mariadb => outbox.admin(MysqlStore::connect(url).expect("a store")),
        On::Sqlite => outbox.admin(SqliteStore::connect(url).expect("a store")),
    };
    admin.acting_as("alice").because("ticket 17")
}

/// Fails at the records 2 and 7 while the flag is set.
fn start(place: &Place, is_broken: &Arc<AtomicBool>) -> RunningConsumer {
    let is_broken = Arc::clone(is_broken);
    place.start(place.consumer(), move |record| {
        match is_broken.load(Ordering::SeqCst) && [2, 7].contains(&number(record)) {
            true => Err(HandlerError::permanent("the address is unknown")),
            false => Ok(()),
        }
    })
}

fn offsets(records: &[&ParkedRecord]) -> Vec<i64> {
    records.iter().map(|record| record.offset).collect()
}

/// Everything that a consumer has parked, three at a time.
async fn pages(admin: &Admin, consumer: &str) -> Vec<ParkedRecord> {
    let (mut records, mut after) = (Vec::new(), None);
    loop {
        let page = admin.parked(Some(consumer), after.as_ref(), 3).await.expect("a page");
        assert!(page.items.len() <= 3, "{page:?}");
        records.extend(page.items);
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    assert!(records.is_sorted_by_key(|record| record.id), "{records:?}");
    records
}

fn of_key(place: &Place, key: &str) -> Vec<i32> {
    place.effects().iter().filter(|effect| effect.record_key == key).map(|effect| effect.number).collect()
}

async fn operators_release_and_discard(on: On) {
    let Some(bed) = Bed::open(on, 1).await else { return };
    let (place, admin) = (&bed.place, admin(&bed.place));
    let known = vec![place.group()];
    let error = admin.parked(Some("billing"), None, 10).await.expect_err("there is no such consumer");
    assert!(matches!(&error, AdminError::NoSuchConsumer { known: found, .. } if *found == known), "{error}");
    assert!(admin.parked(Some(&known[0]), None, 10).await.expect("it has parked nothing").items.is_empty());
    assert!(matches!(admin.parked(None, None, 0).await, Err(AdminError::EmptyPage)));

    // Six records of the key `a`, and as many of `b`, in turns.
    place.send((0..12).map(|number| (number, ["a", "b"][usize::from(number % 2 == 1)].to_owned())));
    let is_broken = Arc::new(AtomicBool::new(true));
    let consumer = start(place, &is_broken);
    place.wait_until_consumed();
    let all = pages(&admin, &known[0]).await;
    let of = |key: &[u8]| all.iter().filter(|record| record.key.as_deref() == Some(key)).collect::<Vec<_>>();
    let (a, b) = (of(b"a"), of(b"b"));
    assert_eq!((offsets(&a), offsets(&b)), (vec![2, 4, 6, 8, 10], vec![7, 9, 11]), "each key in its order");
    let (head, of_b) = (a[0], b[0]);
    let found = admin.find_parked(head.id).await.expect("it is parked");
    assert_eq!((&found, found.key.as_deref(), found.payload.as_deref()), (head, Some(&b"a"[..]), Some(&b"2"[..])));
    assert!(found.error.contains("the address is unknown") && found.holds_key && !found.is_released, "{found:?}");

    is_broken.store(false, Ordering::SeqCst);
    // Whichever of the key is released: all of it is processed, from the first one on.
    admin.release_parked(a[2].id).await.expect("released");
    wait_until("the key is processed", || of_key(place, "a").len() == 6);
    assert_eq!(of_key(place, "a"), [0, 2, 4, 6, 8, 10]);
    admin.discard_parked(of_b.id).await.expect("discarded");
    for _ in 0..2 {
        // Also a second time: it is still there until the consumer begins.
        let released = admin.release_parked(b[1].id).await;
        assert!(matches!(released, Ok(()) | Err(AdminError::NotParked { .. })), "{released:?}");
    }
    wait_until("nothing is parked", || place.parked().is_empty());
    assert_eq!(of_key(place, "b"), [1, 3, 5, 9, 11], "without the one that was discarded");
    place.send([(12, "b".to_owned())]);
    place.wait_until_consumed();
    assert_eq!(of_key(place, "b"), [1, 3, 5, 9, 11, 12], "the key goes on");
    assert!(consumer.shutdown_blocking(DEADLINE).is_clean());

    assert_refused_and_recorded(&admin, of_b, &known[0]).await;
}

/// What is gone is refused by its row, and the audit says what it was.
async fn assert_refused_and_recorded(admin: &Admin, gone: &ParkedRecord, consumer: &str) {
    for error in [
        admin.find_parked(gone.id).await.map(drop),
        admin.release_parked(gone.id).await,
        admin.discard_parked(gone.id).await,
        admin.discard_parked(-1).await,
    ] {
        let error = error.expect_err("it is gone");
        assert!(
            matches!(error, AdminError::NotParked { .. }) && error.to_string().contains("no parked record"),
            "{error}"
        );
    }
    let filter = AuditFilter::new().actor("alice");
    let entries = admin.audit(&filter.clone().action("discard_parked"), None, 10).await.expect("the audit").items;
    let [entry] = &entries[..] else { panic!("what was refused is no entry: {entries:?}") };
    assert_eq!((entry.reason.as_deref(), entry.changed), (Some("ticket 17"), 1));
    let of: serde_json::Value = serde_json::from_str(entry.filter.as_deref().expect("which record")).expect("JSON");
    assert_eq!(
        (of["consumer"].as_str(), of["offset"].as_i64(), of["id"].as_i64()),
        (Some(consumer), Some(7), Some(gone.id))
    );
    let released = admin.audit(&filter.action("release_parked"), None, 10).await.expect("the audit").items;
    assert!((2..=3).contains(&released.len()), "{released:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn operators_release_and_discard_on_postgres() {
    operators_release_and_discard(On::Postgres).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn operators_release_and_discard_on_mariadb() {
    operators_release_and_discard(On::Mariadb).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn operators_release_and_discard_on_sqlite() {
    operators_release_and_discard(On::Sqlite).await;
}

/// Without an outbox, and so without `Admin`.
async fn a_consumer_discards_its_own_records(on: On) {
    let Some(bed) = Bed::open(on, 1).await else { return };
    let (place, is_broken) = (&bed.place, Arc::new(AtomicBool::new(true)));
    let consumer = start(place, &is_broken);
    place.send([(2, "a".to_owned()), (7, "b".to_owned())]);
    wait_until("both are parked", || place.parked().len() == 2);
    let ids: Vec<i64> = place.parked().iter().map(|record| record.id).collect();
    assert!(!place.discard("somebody else", ids[0]), "it is not theirs");
    assert!(place.discard(&place.group(), ids[0]) && !place.discard(&place.group(), ids[0]), "once");
    let left: Vec<i64> = place.parked().iter().map(|record| record.id).collect();
    assert_eq!(left, ids[1..]);
    assert!(consumer.shutdown_blocking(DEADLINE).is_clean());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_consumer_discards_its_own_records_on_postgres() {
    a_consumer_discards_its_own_records(On::Postgres).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_consumer_discards_its_own_records_on_mariadb() {
    a_consumer_discards_its_own_records(On::Mariadb).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_consumer_discards_its_own_records_on_sqlite() {
    a_consumer_discards_its_own_records(On::Sqlite).await;
}

#[tokio::test]
async fn without_the_table_the_error_says_which_migration_creates_it() {
    let file = crate::outbox::databases::SqliteFile::fresh();
    let outbox = Outbox::builder().topic(Topic::new("orders")).build().expect("an outbox");
    let admin = outbox.admin(SqliteStore::connect(file.url()).expect("a store"));
    let error = admin.parked(None, None, 10).await.expect_err("there is no table").to_string();
    assert!(error.contains("0000consumer01_progress") && error.contains("consumer.migrate"), "{error}");
}
