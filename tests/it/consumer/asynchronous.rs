//! Handlers over diesel-async.

use diesel_async::pooled_connection::{AsyncDieselConnectionManager, bb8, deadpool, mobc};
use diesel_async::{AsyncPgConnection, SimpleAsyncConnection as _};
use diesel_outbox::consumer::{HandlerError, OnFailure, Progress, Record, RunningConsumer};

use super::bed::{Bed, DEADLINE, Place, insert, number, numbers};

async fn handle(conn: &mut AsyncPgConnection, record: &Record) -> Result<(), HandlerError> {
    if number(record) == 7 {
        return Err(HandlerError::permanent("of this test"));
    }
    Ok(conn.batch_execute(&insert(record)).await?)
}

fn manager(place: &Place) -> AsyncDieselConnectionManager<AsyncPgConnection> {
    AsyncDieselConnectionManager::new(&place.database_url)
}

/// Copies have one effect, and a failed record is parked alone.
async fn processes(start: impl AsyncFn(&Place) -> RunningConsumer) {
    let Some(bed) = Bed::on_postgres(2).await else { return };
    let place = &bed.place;
    let ids = place.send(numbers(0..30));
    place.send_copies(ids.into_iter().zip(numbers(0..30)).map(|(id, (number, key))| (id, number, key)));
    let consumer = start(place).await;
    let waiting = place.clone();
    tokio::task::spawn_blocking(move || waiting.wait_until_consumed()).await.expect("consumed");
    let mut seen: Vec<i32> = place.effects().iter().map(|effect| effect.number).collect();
    seen.sort_unstable();
    assert_eq!(seen, (0..30).filter(|number| *number != 7).collect::<Vec<_>>());
    assert_eq!(place.parked().len(), 1, "{:?}", place.parked());
    let report = consumer.shutdown(DEADLINE).await;
    assert!(report.is_clean(), "{report:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn with_deadpool() {
    processes(async |place| {
        let pool = deadpool::Pool::builder(manager(place)).max_size(9).build().expect("a pool");
        let consumer = place.consumer().on_failure(OnFailure::ParkAlone);
        consumer.start_async(pool, handle).expect("it starts")
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn with_bb8() {
    processes(async |place| {
        let pool = bb8::Pool::builder().max_size(9).build(manager(place)).await.expect("a pool");
        let consumer = place.consumer().on_failure(OnFailure::ParkAlone).progress(Progress::InboxAndOffsets);
        consumer.start_async(pool, handle).expect("it starts")
    })
    .await;
}

/// mobc starts a task when a connection comes back, which a worker does outside of its futures.
#[tokio::test(flavor = "multi_thread")]
async fn a_connection_that_rests_in_mobc_is_used_again() {
    let Some(bed) = Bed::on_postgres(2).await else { return };
    let place = &bed.place;
    let pool = mobc::Pool::builder().max_open(9).build(manager(place));
    let consumer = place.consumer().on_failure(OnFailure::ParkAlone).start_async(pool.clone(), handle);
    let consumer = consumer.expect("it starts");
    for numbers in [numbers(0..20), numbers(20..40)] {
        place.send(numbers);
        let waiting = place.clone();
        tokio::task::spawn_blocking(move || waiting.wait_until_consumed()).await.expect("consumed");
        let end = tokio::time::Instant::now() + DEADLINE;
        while pool.state().await.in_use > 0 {
            assert!(tokio::time::Instant::now() < end, "its connections do not come back");
            tokio::task::yield_now().await;
        }
    }
    assert_eq!(place.effects().len(), 39);
    let report = consumer.shutdown(DEADLINE).await;
    assert!(report.is_clean(), "{report:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_error_that_the_handler_ignores_is_found() {
    let Some(bed) = Bed::on_postgres(1).await else { return };
    let place = &bed.place;
    place.send(numbers(0..10));
    let pool = deadpool::Pool::builder(manager(place)).max_size(9).build().expect("a pool");
    let consumer = place.consumer().on_failure(OnFailure::ParkAlone);
    let consumer = consumer.start_async(pool, async |conn: &mut AsyncPgConnection, record: &Record| {
        conn.batch_execute(&insert(record)).await?;
        if number(record) == 3 {
            drop(conn.batch_execute("SELECT 1 / 0").await);
        }
        Ok::<_, HandlerError>(())
    });
    let consumer = consumer.expect("it starts");
    let waiting = place.clone();
    tokio::task::spawn_blocking(move || waiting.wait_until_consumed()).await.expect("consumed");
    let parked = place.parked();
    assert!(parked.len() == 1 && parked[0].error.contains("one of its statements had failed"), "{parked:?}");
    assert_eq!(place.effects().len(), 9);
    let report = consumer.shutdown(DEADLINE).await;
    assert!(report.is_clean(), "{report:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn with_mobc() {
    processes(async |place| {
        let pool = mobc::Pool::builder().max_open(9).build(manager(place));
        let consumer = place.consumer().on_failure(OnFailure::ParkAlone);
        consumer.start_async(pool, handle).expect("it starts")
    })
    .await;
}
