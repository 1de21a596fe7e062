//! Receipts on each database: what a committed message comes to, and what one that was not committed does not.

use std::time::Duration;

use diesel::connection::Connection;
use diesel::mysql::MysqlConnection;
use diesel::pg::PgConnection;
use diesel::result::Error;
use diesel::sqlite::SqliteConnection;
use diesel_outbox::internals::store::Store;
use diesel_outbox::receipts::{DeliveryReceipt, DeliveryStatus};
use diesel_outbox::relay::Relay;
use diesel_outbox::store::{MysqlStore, PostgresStore, SqliteStore};
use diesel_outbox::transport::{FailureClass, MemoryTransport, ScriptedResponse};
use diesel_outbox::{Outbox, OutboxBackend, Topic};

use super::databases::{SqliteFile, fresh_mariadb, fresh_postgres, pool};
use super::order;
use super::ordered_relay::{owned, until};

const DEADLINE: Duration = Duration::from_secs(60);

const ACKNOWLEDGED: DeliveryStatus = DeliveryStatus::Acknowledged { partition: None, offset: None };

fn outbox() -> Outbox {
    let orders = Topic::new("orders").attempts_max(1);
    let ordered = Topic::new("payments").ordered_by_key();
    Outbox::builder().topic(orders).topic(ordered).build().expect("an outbox")
}

async fn start(outbox: &Outbox, store: impl Store, broker: &MemoryTransport) -> Relay {
    outbox.relay().store(store).transport(broker.clone()).start().await.expect("start")
}

fn commit<C>(outbox: &Outbox, conn: &mut C, key: i64) -> DeliveryReceipt
where
    C: Connection,
    C::Backend: OutboxBackend<C>,
{
    let pending = conn.transaction(|conn| outbox.enqueue_with_receipt(conn, &order(key))).expect("commit");
    pending.into_receipt().expect("it was committed")
}

async fn tell_what_becomes_of_a_message<C, S: Store>(mut conn: C, store: impl Fn() -> S)
where
    C: Connection,
    C::Backend: OutboxBackend<C>,
{
    let (outbox, broker) = (outbox(), MemoryTransport::new());
    let unsent = commit(&outbox, &mut conn, 1);
    assert_eq!(unsent.within(DEADLINE).await, DeliveryStatus::Elsewhere, "no relay runs in this process");

    let relay = start(&outbox, store(), &broker).await;
    let in_transaction = conn.transaction(|conn| {
        let pending = outbox.enqueue_with_receipt(conn, &order(2))?;
        let open = pending.into_receipt().expect_err("the transaction is open");
        assert!(!open.is_rolled_back, "{open}");
        Ok::<_, Error>(open.receipt)
    });
    let receipt = in_transaction.expect("commit").into_receipt().expect("it was committed");
    assert_eq!(receipt.within(DEADLINE).await, ACKNOWLEDGED);
    assert_eq!(receipt.within(Duration::ZERO).await, ACKNOWLEDGED, "as often as you ask");

    let with_outbox = outbox.transaction(&mut conn, |tx| tx.enqueue_with_receipt(&order(3)));
    let receipt = with_outbox.expect("commit").into_receipt().expect("it was committed");
    assert_eq!(receipt.within(DEADLINE).await, ACKNOWLEDGED);

    let mut rolled_back = None;
    let result = outbox.transaction(&mut conn, |tx| {
        rolled_back = Some(tx.enqueue_with_receipt(&order(4))?);
        Err::<(), _>(Error::RollbackTransaction)
    });
    result.expect_err("rolled back");
    let error = rolled_back.expect("a receipt").into_receipt().expect_err("rolled back");
    assert!(error.is_rolled_back && error.to_string().contains("rolled back"), "{error}");

    // Not the next response: the first message may be swept meanwhile.
    broker.respond_when(ScriptedResponse::Fail(FailureClass::Record), |sent| sent.key.as_deref() == Some("5"));
    let refused = commit(&outbox, &mut conn, 5);
    let DeliveryStatus::Dead { reason } = refused.within(DEADLINE).await else { panic!("it is refused for good") };
    assert!(reason.starts_with("attempts"), "{reason}");
    broker.clear_responses();

    broker.go_down();
    let waiting = commit(&outbox, &mut conn, 6);
    assert_eq!(waiting.within(Duration::from_millis(50)).await, DeliveryStatus::Later);
    broker.go_up();
    assert_eq!(waiting.within(DEADLINE).await, ACKNOWLEDGED);
    until("the first message is swept", || broker.delivered().len() == 4).await;
    assert!(relay.shutdown(DEADLINE).await.is_clean());
}

/// The node that owns no lane cannot tell.
async fn tell_that_another_node_has_the_lane<C, S: Store>(mut conn: C, store: impl Fn() -> S)
where
    C: Connection,
    C::Backend: OutboxBackend<C>,
{
    let (outbox, owner, broker) = (outbox(), self::outbox(), MemoryTransport::new());
    let first = start(&owner, store(), &broker).await;
    until("one owns all", || owned(&first) == 16).await;
    let second = start(&outbox, store(), &broker).await;
    let payment = diesel_outbox::Message::to("payments").key("7");
    let pending = conn.transaction(|conn| outbox.enqueue_with_receipt(conn, &payment)).expect("commit");
    // Lanes are handed over in time, so this one may be its own by now.
    let is_own = owned(&second) > 0;
    let status = pending.into_receipt().expect("it was committed").within(DEADLINE).await;
    assert!(status == DeliveryStatus::Elsewhere || (is_own && status == ACKNOWLEDGED), "{status:?}");
    until("it is sent", || !broker.delivered().is_empty()).await;
    for relay in [second, first] {
        assert!(relay.shutdown(DEADLINE).await.is_clean());
    }
}

macro_rules! on_each_database {
    ($($test:ident)+) => {
        mod postgres {
            use super::*;

            $(#[tokio::test(flavor = "multi_thread")]
            async fn $test() {
                let Some(url) = fresh_postgres() else { return };
                let conn = PgConnection::establish(&url).expect("connect");
                super::$test(conn, || PostgresStore::new(pool::<PgConnection>(&url))).await;
            })+
        }

        mod mariadb {
            use super::*;

            $(#[tokio::test(flavor = "multi_thread")]
            async fn $test() {
                let Some(url) = fresh_mariadb() else { return };
                let conn = MysqlConnection::establish(&url).expect("connect");
                super::$test(conn, || MysqlStore::new(pool::<MysqlConnection>(&url))).await;
            })+
        }

        mod sqlite {
            use super::*;

            $(#[tokio::test(flavor = "multi_thread")]
            async fn $test() {
                let file = SqliteFile::fresh();
                super::$test(file.connect(), || SqliteStore::new(pool::<SqliteConnection>(&file.url()))).await;
            })+
        }
    };
}

on_each_database! { tell_what_becomes_of_a_message tell_that_another_node_has_the_lane }
