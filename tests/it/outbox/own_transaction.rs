//! `outbox.transaction`: the messages are written last, and handed over without instrumentation.

use diesel::connection::{InstrumentationEvent, SimpleConnection};
use diesel::prelude::*;
use diesel::result::Error;
use diesel_outbox::internals::limits::INLINE_BYTES_MAX;
use diesel_outbox::{EnqueueError, Message, MessageId, OutboxBackend};

use super::databases::Database;
use super::{handed_over, order, outbox};

const NONE: [MessageId; 0] = [];

fn commits_and_rolls_back<C: Database>()
where
    C::Backend: OutboxBackend<C>,
{
    let Some(mut conn) = C::fresh() else { return };
    let outbox = outbox();
    let test_hook = outbox.test_hook();
    // Somebody else's instrumentation, so that no hook can help.
    conn.set_instrumentation(|_: InstrumentationEvent<'_>| {});
    let sent = outbox.transaction(&mut conn, |tx| {
        let sent = vec![tx.enqueue(&order(1))?, tx.enqueue(&order(2))?];
        tx.batch_execute("INSERT INTO shop_orders VALUES (1)")?;
        assert_eq!(handed_over(&test_hook), NONE);
        Ok::<_, Error>(sent)
    });
    let sent = sent.expect("commit");
    assert_eq!(handed_over(&test_hook), sent);
    assert_eq!(conn.messages(), sent);

    let rolled_back = outbox.transaction(&mut conn, |tx| {
        tx.enqueue(&order(3))?;
        Err::<(), _>(Error::RollbackTransaction)
    });
    rolled_back.expect_err("rolled back");
    let without_messages = outbox.transaction(&mut conn, |tx| tx.batch_execute("INSERT INTO shop_orders VALUES (2)"));
    without_messages.expect("commit");
    assert_eq!(handed_over(&test_hook), NONE);
    assert_eq!(conn.messages(), sent);
}

/// A savepoint of `tx` takes its messages with it, although they are written only at the end.
fn savepoints<C: Database>()
where
    C::Backend: OutboxBackend<C>,
{
    let Some(mut conn) = C::fresh() else { return };
    let outbox = outbox();
    let test_hook = outbox.test_hook();
    let kept = outbox.transaction(&mut conn, |tx| {
        let first = tx.enqueue(&order(1))?;
        let dropped = tx.transaction(|tx| {
            tx.enqueue(&order(2))?;
            tx.transaction(|tx| tx.enqueue(&order(3)))?;
            Err::<(), _>(Error::RollbackTransaction)
        });
        dropped.expect_err("rolled back");
        let last = tx.transaction(|tx| tx.enqueue(&order(4)))?;
        Ok::<_, Error>([first, last])
    });
    let kept = kept.expect("commit");
    assert_eq!(handed_over(&test_hook), kept);
    assert_eq!(conn.messages(), kept);
}

/// Inside an open transaction it is a savepoint, and that transaction's COMMIT hands over.
fn nested<C: Database>()
where
    C::Backend: OutboxBackend<C>,
{
    let Some(mut conn) = C::fresh() else { return };
    let outbox = outbox();
    let test_hook = outbox.test_hook();
    let kept = conn.transaction(|conn| {
        let kept = outbox.transaction(conn, |tx| tx.enqueue(&order(1)))?;
        let dropped = outbox.transaction(conn, |tx| {
            tx.enqueue(&order(2))?;
            Err::<(), _>(Error::RollbackTransaction)
        });
        dropped.expect_err("rolled back");
        assert_eq!(handed_over(&test_hook), NONE);
        Ok::<_, Error>(kept)
    });
    let kept = kept.expect("commit");
    assert_eq!(handed_over(&test_hook), [kept]);
    assert_eq!(conn.messages(), [kept]);

    let rolled_back = conn.transaction(|conn| {
        outbox.transaction(conn, |tx| tx.enqueue(&order(3)))?;
        Err::<(), _>(Error::RollbackTransaction)
    });
    rolled_back.expect_err("rolled back");
    assert_eq!(handed_over(&test_hook), NONE);
}

/// Messages of both kinds in one transaction; a refusal writes nothing.
fn mixed_and_refused<C: Database>()
where
    C::Backend: OutboxBackend<C> + for<'t> OutboxBackend<diesel_outbox::Transaction<'t, C>>,
{
    let Some(mut conn) = C::fresh() else { return };
    let outbox = outbox();
    let test_hook = outbox.test_hook();
    let sent = outbox.transaction(&mut conn, |tx| {
        let last = tx.enqueue(&order(1))?;
        let now = outbox.enqueue(tx, &order(2))?;
        let refused = tx.enqueue(&Message::to("ordres")).expect_err("unknown");
        assert!(matches!(EnqueueError::of(&refused), Some(EnqueueError::UnknownTopic { .. })));
        Ok::<_, Error>([now, last])
    });
    let sent = sent.expect("commit");
    assert_eq!(handed_over(&test_hook), sent);
    assert_eq!(conn.messages(), sent);
}

fn many<C: Database>()
where
    C::Backend: OutboxBackend<C>,
{
    let Some(mut conn) = C::fresh() else { return };
    let outbox = outbox();
    let test_hook = outbox.test_hook();
    let sent = outbox.transaction(&mut conn, |tx| tx.enqueue_all((0..10_000).map(order))).expect("commit");
    assert_eq!(handed_over(&test_hook), sent);
    assert_eq!(conn.messages(), sent);
}

#[test]
fn postgres_hands_over_small_rows_inline_and_refs_of_large_ones() {
    let Some(mut conn) = PgConnection::fresh() else { return };
    let outbox = outbox();
    let test_hook = outbox.test_hook();
    let large = vec![b'x'; INLINE_BYTES_MAX];
    let transaction = outbox.transaction(&mut conn, |tx| {
        tx.enqueue(&order(1))?;
        tx.enqueue(&order(2).payload_bytes(large))?;
        tx.enqueue(&Message::to("orders"))
    });
    transaction.expect("commit");
    let inline: Vec<_> = test_hook.take().into_iter().map(|captured| captured.inline).collect();
    assert_eq!(inline, [Some(Some(b"{}".to_vec())), None, Some(None)]);
}

#[test]
fn only_postgres_hands_over_inline() {
    let mut conn = SqliteConnection::fresh().expect("in memory");
    let outbox = outbox();
    let test_hook = outbox.test_hook();
    outbox.transaction(&mut conn, |tx| tx.enqueue(&order(1))).expect("commit");
    assert!(test_hook.take()[0].inline.is_none());
}

/// What Diesel's own `transaction` answers `Ok` for.
#[test]
fn a_swallowed_error_surfaces_on_postgres() {
    let Some(mut conn) = PgConnection::fresh() else { return };
    let outbox = outbox();
    let test_hook = outbox.test_hook();
    let error = outbox.transaction(&mut conn, |tx| {
        let _swallowed = tx.batch_execute("INSERT INTO nowhere VALUES (1)");
        tx.enqueue(&order(1))
    });
    assert!(error.expect_err("aborted").to_string().contains("aborted"));
    assert_eq!(handed_over(&test_hook), NONE);
    outbox.transaction(&mut conn, |tx| tx.enqueue(&order(2))).expect("the connection is as good as before");
}

/// The COMMIT itself fails: nothing is handed over, and the connection goes on.
#[test]
fn a_deferred_constraint_fails_the_commit_on_postgres() {
    let Some(mut conn) = PgConnection::fresh() else { return };
    let outbox = outbox();
    let test_hook = outbox.test_hook();
    conn.batch_execute("CREATE TABLE child (id int REFERENCES shop_orders DEFERRABLE INITIALLY DEFERRED)")
        .expect("table");
    let error = outbox.transaction(&mut conn, |tx| {
        tx.batch_execute("INSERT INTO child VALUES (9)")?;
        tx.enqueue(&order(1))
    });
    error.expect_err("foreign key");
    assert_eq!(handed_over(&test_hook), NONE);
    assert_eq!(conn.messages(), NONE);
}

macro_rules! on {
    ($database:ident: $connection:ty) => {
        mod $database {
            use diesel::prelude::*;

            on!(@ $connection: commits_and_rolls_back, savepoints, nested, mixed_and_refused, many);
        }
    };
    (@ $connection:ty: $($test:ident),+) => {
        $(#[test]
        fn $test() {
            super::$test::<$connection>();
        })+
    };
}

on!(sqlite: SqliteConnection);
on!(postgres: PgConnection);
on!(mariadb: MysqlConnection);
