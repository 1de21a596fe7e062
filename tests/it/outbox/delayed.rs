//! What an enqueue of a delayed message writes, refuses and hands over, and that a relay sends it in time.

use std::time::{Duration, SystemTime};

use diesel::connection::LoadConnection;
use diesel::prelude::*;
use diesel::query_builder::SqlQuery;
use diesel::query_dsl::methods::LoadQuery;
use diesel::sql_types::{BigInt, Nullable};
use diesel_async::{AsyncMysqlConnection, AsyncPgConnection};
use diesel_outbox::internals::limits::DELAY_MAX;
use diesel_outbox::{AsyncOutboxBackend, EnqueueError, Message, Outbox, OutboxBackend, Topic};

use super::databases::{AsyncDatabase, AsyncSqlite, Database};
use super::{handed_over, order};

const MINUTE: Duration = Duration::from_secs(60);
const YEARS: Duration = Duration::from_secs(3 * 365 * 24 * 3_600);

#[expect(clippy::disallowed_methods, reason = "what an application that wants a date would say")]
fn now() -> SystemTime {
    SystemTime::now()
}

fn outbox() -> Outbox {
    let ordered = Topic::new("accounts").ordered_by_key().lanes(8);
    let builder = Outbox::builder().topic(ordered).topic(Topic::new("orders")).topic(Topic::new("payments"));
    builder.allow_outside_transaction().build().expect("build")
}

/// In milliseconds from now; in the rows' order.
#[derive(QueryableByName, Debug)]
struct Times {
    #[diesel(sql_type = BigInt)]
    due_in: i64,
    #[diesel(sql_type = Nullable<BigInt>)]
    deliver_in: Option<i64>,
}

/// Both times of each row, as SQL.
fn times_sql<C: Connection>() -> String {
    let from_now: fn(&str) -> String = match std::any::type_name::<C>() {
        name if name.contains("Mysql") => {
            |column| format!("TIMESTAMPDIFF(MICROSECOND, UTC_TIMESTAMP(6), {column}) DIV 1000")
        }
        name if name.contains("Sqlite") => {
            |column| format!("{column} - CAST((julianday('now') - 2440587.5) * 86400000 AS integer)")
        }
        _ => |column| format!("(extract(epoch FROM {column} - clock_timestamp()) * 1000)::bigint"),
    };
    format!(
        "SELECT {} AS due_in, {} AS deliver_in FROM outbox_messages ORDER BY id",
        from_now("due_at"),
        from_now("deliver_at")
    )
}

fn times<C>(conn: &mut C) -> Vec<Times>
where
    C: LoadConnection,
    for<'a> SqlQuery: LoadQuery<'a, C, Times>,
{
    diesel::sql_query(times_sql::<C>()).load(conn).expect("times")
}

fn about(ms: i64, wanted: Duration) -> bool {
    let wanted = i64::try_from(wanted.as_millis()).expect("a time of a test");
    (wanted - 30_000..=wanted + 5).contains(&ms)
}

/// Rows of every kind, alone and in one statement with others.
fn rows_have_their_times<C>()
where
    C: Database + LoadConnection,
    C::Backend: OutboxBackend<C>,
    for<'a> SqlQuery: LoadQuery<'a, C, Times>,
{
    let Some(mut conn) = C::fresh() else { return };
    let outbox = outbox();
    let _relay = outbox.test_hook();
    let in_years = now() + YEARS;
    outbox.enqueue(&mut conn, &order(1).delay(MINUTE)).expect("one");
    outbox.enqueue(&mut conn, &order(2).deliver_at(in_years)).expect("one");
    let mixed = [
        order(3),
        order(4).delay(MINUTE),
        Message::to("accounts").key("a"),
        order(5).deliver_at(in_years),
        order(6).deliver_at(SystemTime::UNIX_EPOCH),
    ];
    outbox.enqueue_all(&mut conn, mixed).expect("many");
    let times = times(&mut conn);
    let [one, two, plain, four, ordered, five, over] = &times[..] else { panic!("seven rows: {times:?}") };
    for (row, wanted) in [(one, MINUTE), (two, YEARS), (four, MINUTE), (five, YEARS)] {
        assert!(about(row.due_in, wanted), "{row:?}, not in {wanted:?}");
        assert!(row.deliver_in.is_some_and(|ms| about(ms, wanted)), "{row:?}, not in {wanted:?}");
    }
    assert!(plain.deliver_in.is_none() && about(plain.due_in, Duration::from_secs(3)), "{plain:?}");
    assert!(ordered.deliver_in.is_none() && ordered.due_in < -1_000_000_000_000, "{ordered:?}");
    assert!(about(over.due_in, Duration::ZERO), "due at once, and not in 1970: {over:?}");
}

#[test]
fn rows_have_their_times_on_postgres() {
    rows_have_their_times::<PgConnection>();
}

#[test]
fn rows_have_their_times_on_mariadb() {
    rows_have_their_times::<MysqlConnection>();
}

#[test]
fn rows_have_their_times_on_sqlite() {
    rows_have_their_times::<SqliteConnection>();
}

async fn async_rows_are_written<C>()
where
    C: AsyncDatabase,
    C::Backend: AsyncOutboxBackend<C>,
{
    let Some(mut conn) = C::fresh().await else { return };
    let outbox = outbox();
    outbox.enqueue_async(&mut conn, &order(1).delay(MINUTE)).await.expect("one");
    let mixed = [order(2), order(3).delay(YEARS), Message::to("accounts").key("a")];
    outbox.enqueue_all_async(&mut conn, mixed).await.expect("many");
    assert_eq!(conn.messages().await.len(), 4);
}

#[tokio::test]
async fn async_rows_are_written_on_postgres() {
    async_rows_are_written::<AsyncPgConnection>().await;
}

#[tokio::test]
async fn async_rows_are_written_on_mariadb() {
    async_rows_are_written::<AsyncMysqlConnection>().await;
}

#[tokio::test]
async fn async_rows_are_written_on_sqlite() {
    async_rows_are_written::<AsyncSqlite>().await;
}

/// T14: neither the ref nor the row of a delayed message reaches what sends at once, whatever wrote it.
#[test]
fn a_delayed_message_is_not_handed_over_to_be_sent() {
    let Some(mut conn) = PgConnection::fresh() else { return };
    let outbox = outbox();
    let test_hook = outbox.test_hook();
    outbox.enqueue(&mut conn, &order(1).delay(MINUTE)).expect("outside a transaction");
    conn.transaction(|conn| outbox.enqueue(conn, &order(2).delay(MINUTE))).expect("in one");
    outbox
        .transaction(&mut conn, |tx| {
            tx.enqueue(&order(3).delay(Duration::from_nanos(1)))?;
            tx.enqueue(&order(4).deliver_at(SystemTime::UNIX_EPOCH))
        })
        .expect("in one of the outbox's");
    assert_eq!(handed_over(&test_hook), []);
    let plain = outbox.enqueue(&mut conn, &order(5).delay(Duration::ZERO)).expect("no delay at all");
    assert_eq!(handed_over(&test_hook), [plain]);
}

#[test]
fn an_ordered_topic_and_a_delay_of_ages_are_refused() {
    let Some(mut conn) = SqliteConnection::fresh() else { return };
    let outbox = outbox();
    let account = || Message::to("accounts").key("a");
    for message in [account().delay(MINUTE), account().deliver_at(now() + MINUTE)] {
        let error = outbox.enqueue(&mut conn, &message).expect_err("later ones would overtake it");
        assert!(matches!(EnqueueError::of(&error), Some(EnqueueError::DelayedOnOrderedTopic { .. })), "{error}");
        assert!(error.to_string().contains("without `ordered_by_key()`"), "{error}");
    }
    let ages = [order(1).delay(DELAY_MAX + MINUTE), order(1).deliver_at(now() + DELAY_MAX + MINUTE)];
    for message in ages {
        let error = outbox.enqueue(&mut conn, &message).expect_err("too long");
        assert!(matches!(EnqueueError::of(&error), Some(EnqueueError::DelayTooLong { .. })), "{error}");
    }
    assert!(conn.messages().is_empty());
    outbox.enqueue(&mut conn, &order(1).delay(DELAY_MAX)).expect("a century");
    outbox.enqueue(&mut conn, &account().delay(Duration::ZERO)).expect("no delay at all");
}
