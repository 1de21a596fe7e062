//! What is particular to MySQL and MariaDB: InnoDB's locks, and errors that a laxer statement would swallow.

use std::thread;

use diesel::connection::SimpleConnection as _;
use diesel::sql_types::BigInt;
use diesel::{Connection as _, MysqlConnection, RunQueryDsl as _};
use diesel_async::{AsyncConnection as _, AsyncMysqlConnection, SimpleAsyncConnection as _};
use diesel_outbox::MessageId;
use diesel_outbox::inbox::{Claim, InboxError, InboxKey, Once};

use super::inbox;
use super::node::{Failed, NEVER, Node, Place, SyncNode};
use crate::outbox::databases::fresh_mariadb;
use crate::outbox::transaction_lost::Deadlock;

type Mariadb = SyncNode<MysqlConnection>;

/// InnoDB gives both that wait a lock on the gap where the entry was, and each then waits for the other: one is rolled back, and claims
/// again.
#[test]
fn of_several_that_wait_for_a_rollback_each_gets_its_answer() {
    let inbox = inbox("billing");
    let Some(place) = Place::<Mariadb>::fresh(&inbox) else { return };
    for _ in 0..5 {
        let (mut first, key) = (place.node(), InboxKey::from(MessageId::new()));
        first.begin();
        assert_eq!(first.claim(&inbox, key).expect("claim"), Claim::New);
        let outcomes = thread::scope(|scope| {
            let waiting = [(); 4].map(|()| scope.spawn(|| place.node().once(&inbox, key, NEVER)));
            place.until_waiting(4);
            first.roll_back();
            waiting.map(|one| one.join().expect("no panic").expect("once"))
        });
        let done = outcomes.iter().filter(|once| **once == Once::Done(())).count();
        assert_eq!((done, place.effects(key)), (1, 1), "{outcomes:?}");
    }
}

/// `INSERT IGNORE` makes a warning of it, and a message that was never handled would count as a duplicate.
#[test]
fn an_entry_that_is_refused_is_no_duplicate() {
    let inbox = inbox("billing");
    let Some(place) = Place::<Mariadb>::fresh(&inbox) else { return };
    let mut node = place.node();
    node.run("ALTER TABLE outbox_inbox ADD CONSTRAINT refuse CHECK (consumer = 0)").expect("alter");
    let failed = node.once(&inbox, MessageId::new().into(), NEVER).expect_err("it cannot be written");
    assert!(matches!(failed, Failed::Inbox(InboxError::Database(_))), "{failed}");
    let trigger = "CREATE TRIGGER refuse BEFORE INSERT ON outbox_inbox FOR EACH ROW SIGNAL SQLSTATE '45000'";
    node.run(&format!("ALTER TABLE outbox_inbox DROP CONSTRAINT refuse; {trigger}")).expect("alter");
    let failed = node.once(&inbox, MessageId::new().into(), NEVER).expect_err("it cannot be written");
    assert!(matches!(failed, Failed::Inbox(InboxError::Database(_))), "{failed}");
}

#[test]
fn a_duplicate_is_found_at_every_isolation_level() {
    let inbox = inbox("billing");
    let Some(place) = Place::<Mariadb>::fresh(&inbox) else { return };
    for level in ["READ UNCOMMITTED", "READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"] {
        let (mut first, key) = (place.node(), InboxKey::from(MessageId::new()));
        first.begin();
        assert_eq!(first.claim(&inbox, key).expect("claim"), Claim::New);
        let claim = thread::scope(|scope| {
            let second = scope.spawn(|| {
                let mut node = place.node();
                node.run(&format!("SET SESSION TRANSACTION ISOLATION LEVEL {level}")).expect("set the level");
                node.begin();
                // A read first: its snapshot is older than the other one's entry.
                node.run("SELECT * FROM effects").expect("read");
                let claim = node.claim(&inbox, key);
                node.commit().expect("commit");
                claim
            });
            place.until_waiting(1);
            first.commit().expect("commit");
            second.join().expect("no panic")
        });
        assert_eq!(claim.expect("claim"), Claim::Duplicate, "{level}");
    }
}

/// After a deadlock the server has rolled back, and Diesel still counts a transaction: the entry would commit by itself.
#[test]
fn a_claim_in_a_lost_transaction_is_refused() {
    let inbox = inbox("billing");
    let Some(place) = Place::<Mariadb>::fresh(&inbox) else { return };
    let (mut node, key) = (place.node(), InboxKey::from(MessageId::new()));
    node.begin();
    node.run("ROLLBACK").expect("as a deadlock does");
    let keys = [key, MessageId::new().into()];
    for refused in [node.claim(&inbox, key).map(drop), node.claim_many(&inbox, &keys).map(drop)] {
        let error = refused.expect_err("no transaction is open");
        assert!(matches!(error, InboxError::TransactionLost { .. }), "{error}");
    }
    assert_eq!(place.entries(), 0);
}

const WRITE: &str = "INSERT INTO shop_orders VALUES (10)";
const LOCK_ONE: &str = "SELECT id FROM shop_orders WHERE id = 1 FOR UPDATE";
const LOCK_TWO: &str = "SELECT id FROM shop_orders WHERE id = 2 FOR UPDATE";

/// Checks that the deadlock was found, and that nothing was kept: the message is new.
#[track_caller]
fn assert_lost(url: &str, handled: Result<Once<()>, InboxError>, id: MessageId) {
    let lost = matches!(&handled, Err(InboxError::TransactionLost { consumer }) if consumer == "billing");
    assert!(lost, "{handled:?}");
    let mut conn = MysqlConnection::establish(url).expect("connect");
    let written = diesel::dsl::sql::<BigInt>("SELECT count(*) FROM shop_orders WHERE id = 10");
    assert_eq!(written.get_result::<i64>(&mut conn).expect("a count"), 0);
    let again = inbox("billing").once(&mut conn, id, |conn| Ok::<_, InboxError>(conn.batch_execute(WRITE)?));
    assert_eq!(again.expect("once"), Once::Done(()));
}

/// Two connections wait for each other, the server rolls back the lighter one, and its handler ignores that.
#[test]
fn an_ignored_deadlock_is_no_success() {
    let Some(url) = fresh_mariadb() else { return };
    let (inbox, id) = (inbox("billing"), MessageId::new());
    let mut conn = MysqlConnection::establish(&url).expect("connect");
    inbox.migrate(&mut conn).expect("migrate");
    let deadlock = Deadlock::arrange(&url);
    let handled = inbox.once(&mut conn, id, |conn| {
        conn.batch_execute(WRITE)?;
        conn.batch_execute(LOCK_ONE)?;
        let ignored = conn.batch_execute(LOCK_TWO).expect_err("a deadlock");
        assert!(ignored.to_string().contains("Deadlock"), "{ignored}");
        Ok::<_, InboxError>(())
    });
    drop(deadlock);
    assert_lost(&url, handled, id);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_ignored_deadlock_is_no_success_async() {
    let Some(url) = fresh_mariadb() else { return };
    let (inbox, id) = (inbox("billing"), MessageId::new());
    let mut conn = AsyncMysqlConnection::establish(&url).await.expect("connect");
    inbox.migrate_async(&mut conn).await.expect("migrate");
    let deadlock = Deadlock::arrange(&url);
    let handled = inbox.once_async(&mut conn, id, async |conn: &mut AsyncMysqlConnection| {
        conn.batch_execute(WRITE).await?;
        conn.batch_execute(LOCK_ONE).await?;
        let ignored = conn.batch_execute(LOCK_TWO).await.expect_err("a deadlock");
        assert!(ignored.to_string().contains("Deadlock"), "{ignored}");
        Ok::<_, InboxError>(())
    });
    let handled = handled.await;
    drop(deadlock);
    assert_lost(&url, handled, id);
}
