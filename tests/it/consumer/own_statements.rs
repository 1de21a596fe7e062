//! Statements of the consumer's own that fail, or wait for others.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use diesel::connection::SimpleConnection as _;
use diesel::mysql::MysqlConnection;
use diesel::pg::PgConnection;
use diesel::prelude::*;
use diesel_outbox::consumer::{HandlerError, OnFailure, Progress};

use super::bed::{Bed, DEADLINE, On, Place, number, numbers, wait_until};

/// Makes the first INSERTs into a table fail. A sequence remembers them although they are rolled back.
fn refuse_first(place: &Place, table: &str, times: u32) {
    place.run(&format!("CREATE SEQUENCE tries_{table}"));
    let body = format!(
        "CREATE FUNCTION refuse_{table}() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN
         IF nextval(''tries_{table}'') <= {times} THEN RAISE EXCEPTION ''not yet''; END IF; RETURN NEW; END'"
    );
    let mut conn = PgConnection::establish(&place.database_url).expect("connect");
    conn.batch_execute(&body).expect("a function");
    let trigger = "BEFORE INSERT ON";
    place.run(&format!("CREATE TRIGGER refuse {trigger} {table} FOR EACH ROW EXECUTE FUNCTION refuse_{table}()"));
}

/// Claims fail, and then the parking of a record: neither spends an attempt of any record.
#[tokio::test(flavor = "multi_thread")]
async fn they_only_wait_if_they_fail() {
    let Some(bed) = Bed::on_postgres(1).await else { return };
    let place = &bed.place;
    refuse_first(place, "outbox_inbox", 12);
    refuse_first(place, "outbox_parked", 5);
    place.send(numbers(0..8));
    let errors = Arc::new(AtomicU32::new(0));
    let of_hook = Arc::clone(&errors);
    let consumer = place.consumer().attempts_max(1).on_failure(OnFailure::ParkAlone).on_error(move |record, error| {
        assert_eq!((number(record), error.to_string()), (2, "refused".to_owned()));
        of_hook.fetch_add(1, Ordering::SeqCst);
    });
    let consumer = place.start(consumer, |record| match number(record) {
        2 => Err(HandlerError::permanent("refused")),
        _ => Ok(()),
    });
    place.wait_until_consumed();
    assert_eq!((place.effects().len(), place.parked().len(), errors.load(Ordering::SeqCst)), (7, 1, 1));
    for (table, times) in [("outbox_inbox", 12), ("outbox_parked", 5)] {
        let tried = place.count(&format!("SELECT last_value FROM tries_{table}"));
        assert!(tried > times, "{table} was tried {tried} times");
    }
    assert!(consumer.shutdown_blocking(DEADLINE).is_clean());
}

/// A record of an earlier topic of the same name was parked at the same offset.
#[tokio::test(flavor = "multi_thread")]
async fn a_record_is_parked_beside_one_of_the_same_offset() {
    for on in [On::Postgres, On::Mariadb, On::Sqlite] {
        let Some(bed) = Bed::open(on, 1).await else { continue };
        let place = &bed.place;
        let (parked_at, now) = if on == On::Sqlite { ("parked_at, ", "0, ") } else { ("", "") };
        place.run(&format!(
            "INSERT INTO outbox_parked
                (consumer, topic, partition_name, record_offset, headers, sent_at_ms, {parked_at}holds_key, error)
             VALUES ('{}', '{}', '0', 2, '[]', 5, {now}0, 'of an earlier topic')",
            place.group(),
            place.topic
        ));
        place.send(numbers(0..5));
        let consumer = place.start(place.consumer(), |record| match number(record) {
            2 => Err(HandlerError::permanent("refused")),
            _ => Ok(()),
        });
        place.wait_until_consumed();
        let parked = place.parked();
        assert_eq!(parked.iter().map(|parked| parked.offset).collect::<Vec<_>>(), [2, 2], "{parked:?}");
        assert!(consumer.shutdown_blocking(DEADLINE).is_clean());
    }
}

/// As after a restore of the rows alone.
#[tokio::test(flavor = "multi_thread")]
async fn a_sequence_that_is_behind_loses_no_record() {
    let Some(bed) = Bed::on_postgres(1).await else { return };
    let place = &bed.place;
    let consumer = place.start(place.consumer(), |_| Err::<(), _>(HandlerError::permanent("refused")));
    place.send([(0, "a".to_owned()), (1, "b".to_owned())]);
    place.wait_until_consumed();
    place.run("ALTER TABLE outbox_parked ALTER id RESTART WITH 1");
    place.send([(2, "c".to_owned())]);
    place.wait_until_consumed();
    let mut offsets: Vec<i64> = place.parked().iter().map(|parked| parked.offset).collect();
    offsets.sort_unstable();
    assert_eq!(offsets, [0, 1, 2]);
    assert!(consumer.shutdown_blocking(DEADLINE).is_clean());
}

/// PostgreSQL refuses U+0000, which a payload may bring into an error's text.
#[tokio::test(flavor = "multi_thread")]
async fn an_error_of_any_text_is_kept() {
    for on in [On::Postgres, On::Mariadb, On::Sqlite] {
        let Some(bed) = Bed::open(on, 1).await else { continue };
        let place = &bed.place;
        place.send([(0, "a".to_owned()), (1, "b".to_owned())]);
        let calls = Arc::new(AtomicU32::new(0));
        let of_handler = Arc::clone(&calls);
        let consumer = place.start(place.consumer(), move |record| match number(record) {
            0 => {
                let call = of_handler.fetch_add(1, Ordering::SeqCst);
                Err(HandlerError::permanent(format!("unknown \0 name, {call}")))
            }
            _ => Ok(()),
        });
        place.wait_until_consumed();
        assert_eq!(place.parked()[0].error, "unknown  name, 0", "on {on:?}");
        place.release(0);
        wait_until("it is replayed", || place.parked()[0].error == "unknown  name, 1");
        assert!(consumer.shutdown_blocking(DEADLINE).is_clean());
        assert_eq!((place.parked()[0].is_released, calls.load(Ordering::SeqCst)), (false, 2), "on {on:?}");
    }
}

/// An operator lets the consumer read records again, and one of them is parked.
#[tokio::test(flavor = "multi_thread")]
async fn an_offset_that_is_moved_back_past_a_parked_record_stops_nothing() {
    for on in [On::Postgres, On::Mariadb, On::Sqlite] {
        let Some(bed) = Bed::open(on, 1).await else { continue };
        let place = &bed.place;
        let start = || {
            let consumer = place.consumer().progress(Progress::Offsets);
            place.start(consumer, |record| match number(record) {
                1 => Err(HandlerError::permanent("refused")),
                _ => Ok(()),
            })
        };
        place.send(numbers(0..3));
        let consumer = start();
        place.wait_until_consumed();
        assert!(consumer.shutdown_blocking(DEADLINE).is_clean());
        place.run("UPDATE outbox_consumer_offsets SET next_offset = 0");
        place.send(numbers(3..4));
        let consumer = start();
        place.wait_until_consumed();
        assert!(consumer.shutdown_blocking(DEADLINE).is_clean());
        let offsets: Vec<i64> = place.parked().iter().map(|parked| parked.offset).collect();
        assert_eq!((place.effects().len(), offsets), (5, vec![1]), "0 and 2 twice, 3 once, on {on:?}");
    }
}

/// The loop looks for released records, and waits for the table's lock; other keys go on.
#[tokio::test(flavor = "multi_thread")]
async fn a_locked_table_does_not_stop_the_loop() {
    let Some(bed) = Bed::on_postgres(1).await else { return };
    let place = &bed.place;
    place.send([(0, "a".to_owned()), (1, "b".to_owned())]);
    let consumer = place.start(place.consumer(), |record| match number(record) {
        0 => Err(HandlerError::permanent("refused")),
        _ => Ok(()),
    });
    place.wait_until_consumed();
    let mut locked = PgConnection::establish(&place.database_url).expect("connect");
    locked.batch_execute("BEGIN; LOCK TABLE outbox_parked IN ACCESS EXCLUSIVE MODE").expect("lock");
    let waits = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'";
    wait_until("it waits for the lock", || place.count(waits) > 0);
    place.send((2..30).map(|number| (number, "b".to_owned())));
    place.wait_for_effects(29);
    place.wait_until_consumed();
    locked.batch_execute("ROLLBACK").expect("unlock");
    assert!(consumer.shutdown_blocking(DEADLINE).is_clean());
}

/// A process that lost the partition still has its row locked. Whoever takes over reads it, and only the first record waits.
#[tokio::test(flavor = "multi_thread")]
async fn a_partition_is_opened_although_its_offset_is_locked() {
    for on in [On::Postgres, On::Mariadb] {
        let Some(bed) = Bed::open(on, 1).await else { continue };
        let place = &bed.place;
        let offsets = || place.consumer().progress(Progress::Offsets);
        place.send(numbers(0..5));
        let consumer = place.start(offsets(), |_| Ok(()));
        place.wait_until_consumed();
        assert!(consumer.shutdown_blocking(DEADLINE).is_clean());
        let lock = "UPDATE outbox_consumer_offsets SET next_offset = next_offset";
        let mut zombie: Box<dyn diesel::connection::SimpleConnection> = match on {
            On::Postgres => Box::new(PgConnection::establish(&place.database_url).expect("connect")),
            _ => Box::new(MysqlConnection::establish(&place.database_url).expect("connect")),
        };
        for sql in ["BEGIN", lock] {
            zombie.batch_execute(sql).expect("lock");
        }
        let consumer = place.start(offsets(), |_| Ok(()));
        wait_until("it reads the partition", || consumer.status().partitions == 1);
        place.send(numbers(5..10));
        zombie.batch_execute("ROLLBACK").expect("unlock");
        place.wait_until_consumed();
        place.assert_once_in_order(10);
        assert!(consumer.shutdown_blocking(DEADLINE).is_clean());
    }
}
