//! Copies that follow one another, as after a rewind: one read finds many of them.

use diesel::connection::SimpleConnection as _;
use diesel::pg::PgConnection;
use diesel::{Connection as _, RunQueryDsl as _};
use diesel_async::pooled_connection::{AsyncDieselConnectionManager, deadpool};
use diesel_async::{AsyncPgConnection, SimpleAsyncConnection as _};
use diesel_outbox::MessageId;
use diesel_outbox::consumer::{HandlerError, OnFailure, Record, RunningConsumer};
use diesel_outbox::inbox::{Claim, Inbox, InboxError};

use super::bed::{Bed, DEADLINE, Gate, On, Place, insert, number, wait_until};

const COPIES: i32 = 300;

/// New messages among the copies are processed, in order, and nothing twice. The first new one waits until the copies behind it are in
/// memory.
async fn process(bed: &Bed, start: impl Fn(&Place, Gate) -> RunningConsumer) {
    let place = &bed.place;
    let key = || "k".to_owned();
    let ids = place.send((0..COPIES).map(|number| (number, key())));
    let gate = Gate::default();
    let consumer = start(place, gate.clone());
    let waiting = place.clone();
    let until_consumed = move || waiting.wait_until_consumed();
    tokio::task::spawn_blocking(until_consumed.clone()).await.expect("consumed");
    let mut copies: Vec<_> = ids.into_iter().zip(0..).map(|(id, number)| (id, number, key())).collect();
    for (at, number) in (COPIES..COPIES + 3).enumerate() {
        copies.insert(100 * at, (MessageId::new(), number, key()));
    }
    let all = copies.len();
    place.send_copies(copies);
    tokio::task::block_in_place(|| wait_until("all are in memory", || consumer.status().unprocessed == all));
    gate.open();
    let consumed = tokio::task::spawn_blocking(until_consumed);
    let report = consumer.run_until(async { consumed.await.expect("consumed") }).await;
    place.assert_once_in_order(COPIES + 3);
    assert!(report.is_clean(), "{report:?}");
}

fn start(place: &Place, gate: Gate) -> RunningConsumer {
    place.start(place.consumer(), move |record| {
        if number(record) == COPIES {
            gate.wait();
        }
        Ok(())
    })
}

fn start_async(place: &Place, gate: Gate) -> RunningConsumer {
    let manager = AsyncDieselConnectionManager::<AsyncPgConnection>::new(&place.database_url);
    let pool = deadpool::Pool::builder(manager).max_size(9).build().expect("a pool");
    let handle = async move |conn: &mut AsyncPgConnection, record: &Record| {
        if number(record) == COPIES {
            gate.wait();
        }
        Ok::<_, HandlerError>(conn.batch_execute(&insert(record)).await?)
    };
    place.consumer().start_async(pool, handle).expect("it starts")
}

/// A trigger sees each claim, also one that finds an entry.
async fn few_are_claimed_on_postgres(start: impl Fn(&Place, Gate) -> RunningConsumer) {
    let Some(bed) = Bed::on_postgres(1).await else { return };
    let mut conn = PgConnection::establish(&bed.place.database_url).expect("connect");
    conn.batch_execute(
        "CREATE SEQUENCE claims;
         CREATE FUNCTION count_claim() RETURNS trigger LANGUAGE plpgsql AS
             'BEGIN PERFORM nextval(''claims''); RETURN NEW; END';
         CREATE TRIGGER count_claim BEFORE INSERT ON outbox_inbox FOR EACH ROW EXECUTE FUNCTION count_claim()",
    )
    .expect("count claims");
    process(&bed, start).await;
    let claims = bed.place.count("SELECT last_value FROM claims") - i64::from(COPIES);
    assert!(claims < i64::from(COPIES) / 10, "{claims} messages were claimed after the first {COPIES}");
}

#[tokio::test(flavor = "multi_thread")]
async fn few_of_many_copies_are_claimed_on_postgres() {
    few_are_claimed_on_postgres(start).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn few_of_many_copies_are_claimed_over_diesel_async() {
    few_are_claimed_on_postgres(start_async).await;
}

/// There, each claim that finds an entry counts in it.
#[tokio::test(flavor = "multi_thread")]
async fn few_of_many_copies_are_claimed_on_mariadb() {
    let Some(bed) = Bed::open(On::Mariadb, 1).await else { return };
    process(&bed, start).await;
    let claims = bed.place.count("SELECT CAST(sum(copies) AS signed) FROM outbox_inbox");
    assert!(claims < i64::from(COPIES) / 10, "{claims} copies were claimed");
}

#[tokio::test(flavor = "multi_thread")]
async fn few_of_many_copies_are_claimed_on_sqlite() {
    let Some(bed) = Bed::open(On::Sqlite, 1).await else { return };
    let mut conn = diesel::SqliteConnection::establish(&bed.place.database_url).expect("open");
    conn.batch_execute(
        "CREATE TABLE claims (at integer);
         CREATE TRIGGER count_claim BEFORE INSERT ON outbox_inbox BEGIN INSERT INTO claims VALUES (1); END",
    )
    .expect("count claims");
    process(&bed, start).await;
    let claims = bed.place.count("SELECT count(*) FROM claims") - i64::from(COPIES);
    assert!(claims < i64::from(COPIES) / 10, "{claims} messages were claimed after the first {COPIES}");
}

/// An earlier owner that goes on may park a key. Its copies are passed over, and what follows has to stay behind what is parked.
#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_another_process_parked_is_known_behind_its_copies() {
    let Some(bed) = Bed::on_postgres(1).await else { return };
    let place = &bed.place;
    // The second copy's look-up passes over all of the third key, so no worker claims one of them.
    let key = |number: i32| ["first", "second", "parked"][number.min(2) as usize].to_owned();
    let gate = Gate::default();
    let of_handler = gate.clone();
    let consumer = place.consumer().on_failure(OnFailure::Park).workers(1);
    let consumer = place.start(consumer, move |_| {
        of_handler.wait();
        Ok(())
    });
    place.send([(100, "gate".to_owned())]);
    wait_until("it runs", || consumer.status().running == 1);
    let ids: Vec<MessageId> = (0..12).map(|_| MessageId::new()).collect();
    park(place, &ids);
    place.send_copies((0..12).map(|number| (ids[number as usize], number, key(number))));
    wait_until("all are in memory", || consumer.status().unprocessed == 13);
    gate.open();
    place.wait_until_consumed();
    place.send([(12, key(12))]);
    place.wait_until_consumed();
    assert_eq!((place.effects().len(), place.parked().len()), (1, 2), "{:?}", place.parked());
    assert!(consumer.shutdown(DEADLINE).await.is_clean());
}

/// Claims the messages, and parks a record of the key `parked`, as the consumer does.
fn park(place: &Place, ids: &[MessageId]) {
    let inbox = Inbox::builder(place.group()).build().expect("build");
    let mut conn = PgConnection::establish(&place.database_url).expect("connect");
    let parked = conn.transaction(|conn| {
        let claims = inbox.claim_many(conn, ids)?;
        assert!(claims.iter().all(|claim| *claim == Claim::New));
        let sql = format!(
            "INSERT INTO outbox_parked
                 (consumer, topic, partition_name, record_offset, record_key, headers, payload, sent_at_ms, holds_key, error)
             VALUES ('{}', '{}', '0', 12, 'parked', '[]', '11', 0, 1, 'of this test')",
            place.group(),
            place.topic
        );
        Ok::<_, InboxError>(diesel::sql_query(sql).execute(conn)?)
    });
    assert_eq!(parked.expect("parked"), 1);
}
