//! Against what consumers have reported.

use super::shop::{SECOND, Shop, only, only_doubt};
use crate::{Doubt, Finding};

#[tokio::test]
async fn what_every_consumer_has_reported_is_clean() {
    let mut shop = Shop::open();
    for key in ["1", "2"] {
        let message = shop.send(key).await;
        shop.admin.report_processed(message).await.expect("reported");
    }
    shop.store.advance(60 * SECOND);
    let report = shop.verification("orders").run_with_reports(10 * SECOND, |_| {}).await.expect("verified");
    assert!(report.is_clean(), "{report:?}");
    assert_eq!((report.compared.sent, report.compared.matched), (2, 2));
}

#[tokio::test]
async fn what_was_not_reported_in_time_is_found() {
    let mut shop = Shop::open();
    let late = shop.send("1").await;
    shop.store.advance(60 * SECOND);
    let reported = shop.send("2").await;
    shop.admin.report_processed(reported).await.expect("reported");
    shop.send("3").await;
    let report = shop.verification("orders").run_with_reports(10 * SECOND, |_| {}).await.expect("verified");
    let Finding::Unprocessed { row } = only(&report) else { panic!("{report:?}") };
    assert_eq!(row.message_id, late, "the last one has time left");
    assert_eq!((report.counts.unprocessed.count, report.compared.sent), (1, 3));
    assert!(report.has_found());
}

#[tokio::test]
async fn without_reports_or_a_history_nothing_can_be_told() {
    let shop = Shop::open();
    let report = shop.verification("invoices").run_with_reports(SECOND, |_| {}).await.expect("verified");
    assert_eq!(only_doubt(&report), &Doubt::HistoryNotKept { records: 0 });
    let mut shop = Shop::open();
    shop.send("1").await;
    let report = shop.verification("orders").run_with_reports(60 * SECOND, |_| {}).await.expect("verified");
    assert_eq!(only_doubt(&report), &Doubt::NothingToCompare, "it has time left");
}
