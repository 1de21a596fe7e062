//! Every way in which a transaction of the outbox's own can fail at its end: afterwards the session is clean (the next
//! transaction and the one behind it work), or the connection is broken and a pool discards it.

use std::time::Duration;

use diesel::connection::SimpleConnection;
use diesel::prelude::*;
use diesel::result::Error;
use diesel_async::pooled_connection::AsyncDieselConnectionManager;
use diesel_async::pooled_connection::deadpool::{Object, Pool};
use diesel_async::{AsyncConnection, AsyncPgConnection, SimpleAsyncConnection};
use diesel_outbox::{Message, MessageId};

use super::databases::{AsyncDatabase, AsyncSqlite, Database, fresh_postgres, fresh_sqlite_file};
use super::{handed_over, order, outbox};

/// A transaction that fails at its end.
struct Failure {
    what: &'static str,
    /// Before it, on another connection.
    set_up: &'static str,
    /// Inside it, before its messages.
    inside: &'static str,
    /// On another connection behind it, so that the next can succeed.
    repair: &'static str,
    messages: i64,
}

impl Failure {
    const fn new(what: &'static str, set_up: &'static str, inside: &'static str) -> Self {
        Self { what, set_up, inside, repair: NOTHING, messages: 1 }
    }

    const fn repaired(mut self, repair: &'static str) -> Self {
        self.repair = repair;
        self
    }

    const fn many(mut self) -> Self {
        self.messages = 3;
        self
    }
}

/// No server takes an empty text.
const NOTHING: &str = "SELECT 1";

/// A trigger on orders that runs at COMMIT.
macro_rules! at_commit {
    ($statement:literal) => {
        concat!(
            "CREATE FUNCTION late() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN ",
            $statement,
            "; RETURN NULL; END$$; CREATE CONSTRAINT TRIGGER late AFTER INSERT ON shop_orders ",
            "DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION late()"
        )
    };
}

const DROP_LATE_TRIGGER: &str = "DROP TRIGGER late ON shop_orders";
const PLACE: &str = "INSERT INTO shop_orders VALUES (1)";

const FAILURES: [Failure; 16] = [
    Failure::new("INSERT cannot be prepared", "ALTER TABLE outbox_messages RENAME TO away", PLACE)
        .many()
        .repaired("ALTER TABLE away RENAME TO outbox_messages"),
    Failure::new("INSERT, prepared, finds no table", "ALTER TABLE outbox_messages RENAME TO away", PLACE)
        .repaired("ALTER TABLE away RENAME TO outbox_messages"),
    Failure::new(
        "INSERT runs into a constraint",
        "ALTER TABLE outbox_messages ADD CONSTRAINT never CHECK (topic <> 'orders')",
        PLACE,
    )
    .repaired("ALTER TABLE outbox_messages DROP CONSTRAINT never"),
    Failure::new(
        "INSERT's result has changed",
        "ALTER TABLE outbox_messages ALTER created_at TYPE timestamptz(3)",
        PLACE,
    )
    .repaired("ALTER TABLE outbox_messages ALTER created_at TYPE timestamptz"),
    Failure::new("the transaction is aborted", NOTHING, "INSERT INTO nowhere VALUES (1)"),
    Failure::new("the transaction is aborted, and many", NOTHING, "INSERT INTO nowhere VALUES (1)").many(),
    Failure::new(
        "COMMIT runs into a deferred key",
        "CREATE TABLE child (id int REFERENCES shop_orders DEFERRABLE INITIALLY DEFERRED)",
        "INSERT INTO child VALUES (9)",
    ),
    Failure::new("COMMIT runs into a deferred trigger", at_commit!("RAISE EXCEPTION 'late'"), PLACE)
        .repaired(DROP_LATE_TRIGGER),
    // `statement_timeout` does not end a COMMIT: PostgreSQL disarms it before deferred triggers run.
    Failure::new(
        "COMMIT waits for a lock for too long",
        concat!(at_commit!("PERFORM pg_advisory_xact_lock(7)"), "; SELECT pg_advisory_lock(7)"),
        "SET LOCAL lock_timeout = '50ms'; INSERT INTO shop_orders VALUES (1)",
    )
    .repaired("DROP TRIGGER late ON shop_orders; SELECT pg_advisory_unlock(7)"),
    Failure::new("COMMIT is cancelled", at_commit!("PERFORM pg_cancel_backend(pg_backend_pid())"), PLACE)
        .repaired(DROP_LATE_TRIGGER),
    Failure::new("the server ends in COMMIT", at_commit!("PERFORM pg_terminate_backend(pg_backend_pid())"), PLACE)
        .repaired(DROP_LATE_TRIGGER),
    Failure::new("the server forgets its statements", NOTHING, "DEALLOCATE ALL"),
    Failure::new("the server forgets its statements, INSERT is new", NOTHING, "DEALLOCATE ALL").many(),
    Failure::new("the server ended before", NOTHING, "SELECT pg_terminate_backend(pg_backend_pid())"),
    Failure::new("it is read only", NOTHING, "SET TRANSACTION READ ONLY"),
    Failure::new("the transaction is over", NOTHING, "ROLLBACK"),
];

/// One that fails, and two behind it.
async fn ends_well(failure: &Failure) {
    let Some(url) = fresh_postgres() else { return };
    let manager = AsyncDieselConnectionManager::<AsyncPgConnection>::new(&url);
    let pool = Pool::<AsyncPgConnection>::builder(manager).max_size(1).build().expect("deadpool");
    let mut other = AsyncPgConnection::establish(&url).await.expect("connect");
    let outbox = outbox();
    let test_hook = outbox.test_hook();
    let own = async |conn: &mut Object<AsyncPgConnection>, inside: &str, messages: i64| {
        let inside = inside.to_owned();
        let ended = outbox.transaction_async(conn, async move |tx| {
            let _swallowed = tx.batch_execute(&inside).await;
            tx.enqueue_all((0..messages).map(order))
        });
        ended.await
    };
    let mut conn = pool.get().await.expect("get");
    own(&mut conn, NOTHING, 1).await.expect("the statements are cached");
    other.batch_execute("DELETE FROM outbox_messages").await.expect("empty");
    handed_over(&test_hook);
    other.batch_execute(failure.set_up).await.expect("set up");
    own(&mut conn, failure.inside, failure.messages).await.expect_err(failure.what);
    other.batch_execute(failure.repair).await.expect("repair");
    assert!(test_hook.take().iter().all(|captured| captured.inline.is_none()), "{}", failure.what);
    assert_eq!(other.messages().await, [], "{}", failure.what);

    // On the same connection where it is good, on another where the pool discards it.
    let is_broken = |conn: &mut AsyncPgConnection| {
        <<AsyncPgConnection as AsyncConnection>::TransactionManager as diesel_async::TransactionManager<_>>::
            is_broken_transaction_manager(conn)
    };
    if is_broken(&mut conn) {
        drop(conn);
        conn = pool.get().await.expect("get");
    }
    for behind in ["the next", "the one behind it"] {
        let sent = own(&mut conn, NOTHING, 1).await;
        let sent = sent.unwrap_or_else(|error| panic!("{}: {behind}: {error}", failure.what));
        assert_eq!(handed_over(&test_hook), sent, "{}", failure.what);
    }
    assert_eq!(other.messages().await.len(), 2, "{}", failure.what);
}

#[tokio::test]
async fn every_failure_leaves_a_clean_session_or_a_broken_connection() {
    for failure in &FAILURES {
        let ended = tokio::time::timeout(Duration::from_secs(30), ends_well(failure)).await;
        ended.unwrap_or_else(|_| panic!("{}: it hangs", failure.what));
    }
}

/// The same without a pipeline.
#[test]
fn every_failure_of_a_sync_transaction_leaves_a_clean_session_or_a_broken_connection() {
    for failure in &FAILURES {
        let Some(url) = fresh_postgres() else { return };
        let connect = || PgConnection::establish(&url).expect("connect");
        let (mut conn, mut other) = (connect(), connect());
        let outbox = outbox();
        let test_hook = outbox.test_hook();
        let own = |conn: &mut PgConnection, inside: &str, messages: i64| {
            outbox.transaction(conn, |tx| {
                let _swallowed = tx.batch_execute(inside);
                tx.enqueue_all((0..messages).map(order))
            })
        };
        own(&mut conn, NOTHING, 1).expect("the statements are cached");
        other.batch_execute("DELETE FROM outbox_messages").expect("empty");
        handed_over(&test_hook);
        other.batch_execute(failure.set_up).expect("set up");
        let forgets = failure.inside.contains("DEALLOCATE");
        match own(&mut conn, failure.inside, failure.messages) {
            // COMMIT is no prepared statement there, and an INSERT that is new is prepared.
            Ok(_) if forgets && failure.messages > 1 => continue,
            ended => ended.expect_err(failure.what),
        };
        other.batch_execute(failure.repair).expect("repair");
        assert!(test_hook.take().iter().all(|captured| captured.inline.is_none()), "{}", failure.what);
        assert_eq!(other.messages(), [], "{}", failure.what);
        let broken = diesel::r2d2::R2D2Connection::is_broken(&mut conn);
        if broken || forgets {
            conn = connect();
        }
        for behind in ["the next", "the one behind it"] {
            let sent = own(&mut conn, NOTHING, 1).unwrap_or_else(|error| panic!("{}: {behind}: {error}", failure.what));
            assert_eq!(handed_over(&test_hook), sent, "{}", failure.what);
        }
    }
}

/// Somebody reads, so that COMMIT is "busy" and leaves the transaction open.
#[tokio::test(flavor = "multi_thread")]
async fn a_busy_commit_on_sqlite_async() {
    let (file, url) = fresh_sqlite_file();
    let mut conn = <AsyncSqlite as AsyncConnection>::establish(&url).await.expect("open");
    let mut reader = SqliteConnection::establish(&url).expect("open");
    let outbox = outbox();
    reader.batch_execute("BEGIN; SELECT * FROM shop_orders").expect("a read lock");
    let busy = outbox.transaction_async(&mut conn, async |tx| tx.enqueue(&order(1))).await;
    assert!(busy.expect_err("busy").to_string().contains("locked"));
    reader.batch_execute("COMMIT").expect("it ends");
    let mut sent: Vec<MessageId> = Vec::new();
    for key in 2..4 {
        let next = outbox.transaction_async(&mut conn, async |tx| tx.enqueue(&order(key))).await;
        sent.push(next.expect("the session is clean"));
    }
    assert_eq!(reader.messages(), sent);
    drop(file);
}

/// Too large for the pipeline, so that COMMIT goes by itself.
#[tokio::test]
async fn a_cancelled_commit_behind_a_large_insert() {
    let Some(mut conn) = <AsyncPgConnection as AsyncDatabase>::fresh().await else { return };
    let set_up = at_commit!("PERFORM pg_cancel_backend(pg_backend_pid())");
    conn.batch_execute(set_up).await.expect("set up");
    let outbox = outbox();
    let large = || Message::to("orders").payload_bytes(vec![b'x'; 900_000]);
    let cancelled = outbox.transaction_async(&mut conn, async |tx| {
        tx.batch_execute(PLACE).await?;
        tx.enqueue_all((0..20).map(|_| large()))
    });
    cancelled.await.expect_err("cancelled");
    conn.batch_execute(DROP_LATE_TRIGGER).await.expect("repair");
    for _ in 0..2 {
        outbox.transaction_async(&mut conn, async |tx| Ok::<_, Error>(tx.enqueue(&large())?)).await.expect("commit");
    }
    assert_eq!(conn.messages().await.len(), 2);
}
