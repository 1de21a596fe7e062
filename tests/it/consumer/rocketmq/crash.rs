//! kill -9 at steps of a record and of the offsets, on each database.

use super::super::bed::On;
use super::super::crash::dies_and_goes_on;
use super::bed;

async fn dies_at(step: &str, on: On, has_offsets: bool) {
    let Some(bed) = bed(on) else { return };
    dies_and_goes_on(&bed.place, step, has_offsets).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn after_the_handler() {
    dies_at("consumer::handled", On::Postgres, false).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn after_commit() {
    dies_at("consumer::committed", On::Mariadb, false).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn after_commit_with_offsets() {
    dies_at("consumer::committed", On::Sqlite, true).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn after_parking() {
    dies_at("consumer::parked", On::Postgres, false).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn before_committing_offsets() {
    dies_at("consumer::committing_offsets", On::Postgres, true).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn after_committing_offsets() {
    dies_at("consumer::offsets_committed", On::Sqlite, false).await;
}
