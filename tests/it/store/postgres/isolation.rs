//! A database or role whose transactions are serializable by default.

use std::time::Duration;

use diesel_outbox::internals::store::{Failed, Held, Locking, NewDeadLetter, PollSpec, RowRef, Store};

use super::connections::deadpool;
use super::under_test::PostgresUnderTest;
use crate::store::{insert, spec};

/// A predicate lock left by a statement makes an application's concurrent serializable transaction fail with 40001. So each single
/// statement sets its own isolation level, whatever the default.
#[tokio::test]
async fn statements_take_no_predicate_locks_where_serializable_is_the_default() {
    let serializable = "options=-c%20default_transaction_isolation%3Dserializable";
    let Some(test) = PostgresUnderTest::open(|url| deadpool(&format!("{url}?{serializable}"))) else { return };
    let mut held = Vec::new();
    for _ in 0..4 {
        held.push(Held { key: insert(&test).await, epoch: 0 });
    }
    // Keeps the predicate locks of transactions that ended meanwhile.
    let application = test.begin("SET TRANSACTION ISOLATION LEVEL SERIALIZABLE; SELECT 1");
    let (store, keys) = (&test.store, [held[0].key, held[1].key]);
    let refs = keys.map(RowRef::from);
    assert_eq!(store.confirm(&refs).await.expect("confirm").len(), 2);
    assert_eq!(store.remaining(&refs).await.expect("remaining").len(), 2);
    assert_eq!(store.poll(&PollSpec::everything(["orders".into()])).await.expect("poll").due.len(), 1);
    assert_eq!(store.settle(&keys[..1], Locking::Skip).await.expect("settle").len(), 1);
    assert_eq!(store.settle(&keys[1..], Locking::Wait).await.expect("settle").len(), 1);
    assert_eq!(store.settle_dead_letters(&keys).await.expect("settle_dead_letters"), 0);
    assert_eq!(store.extend(&held[2..], Duration::from_secs(30)).await.expect("extend").len(), 2);
    let failure =
        |held| Failed { held, wait: Duration::ZERO, spends_attempt: false, class: "temporary", error: String::new() };
    assert_eq!(store.fail(&[failure(held[2])]).await.expect("fail").len(), 1);
    assert_eq!(
        store
            .dead_letter(&[NewDeadLetter { held: held[3], reason: "attempts".into() }])
            .await
            .expect("dead_letter")
            .len(),
        1
    );
    store.backlog(10).await.expect("backlog");
    let claim = store.claim(&spec()).await.expect("claim");
    claim.handle.close(&[], &[]).await.expect("close");
    let lanes = store.lanes();
    lanes.lane_entries(&"orders".into(), &[]).await.expect("entries");
    lanes.read_lanes(&"orders".into()).await.expect("lanes");

    let schema = test.names.schema_name().expect("a schema");
    let locks = format!(
        "SELECT count(*)::int AS number FROM pg_locks l JOIN pg_class c ON c.oid = l.relation \
         WHERE l.mode = 'SIReadLock' AND c.relnamespace = '{schema}'::regnamespace"
    );
    let own = test.numbers(&locks);
    drop(application);
    assert_eq!(own, [0], "predicate locks on the outbox");
}
