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

/// Copies have one effect, and a failed record is dead-lettered.
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
    let report = tokio::task::spawn_blocking(move || consumer.shutdown(DEADLINE)).await.expect("ended");
    assert!(report.is_clean(), "{report:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn with_deadpool() {
    processes(async |place| {
        let pool = deadpool::Pool::builder(manager(place)).max_size(9).build().expect("a pool");
        let consumer = place.consumer().on_failure(OnFailure::DeadLetter);
        consumer.start_async(pool, handle).expect("it starts")
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn with_bb8() {
    processes(async |place| {
        let pool = bb8::Pool::builder().max_size(9).build(manager(place)).await.expect("a pool");
        let consumer = place.consumer().on_failure(OnFailure::DeadLetter).progress(Progress::InboxAndOffsets);
        consumer.start_async(pool, handle).expect("it starts")
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn with_mobc() {
    processes(async |place| {
        let pool = mobc::Pool::builder().max_open(9).build(manager(place));
        let consumer = place.consumer().on_failure(OnFailure::DeadLetter);
        consumer.start_async(pool, handle).expect("it starts")
    })
    .await;
}
