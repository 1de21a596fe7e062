//! Over HTTP, which has no topic to read: against what the consumer has reported.

use std::time::Duration;

use axum::Router;
use axum::http::StatusCode;
use diesel_outbox::transport::{HttpTarget, HttpTransport};
use diesel_outbox_verify::Verification;
use tokio::net::TcpListener;

use crate::shop::{DEADLINE, Kind, Shop, assert_found, kept};

async fn through_a_relay(kind: Kind) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("http://{}/orders", listener.local_addr().expect("an address"));
    let router = Router::new().fallback(async || StatusCode::OK);
    let receiver = tokio::spawn(async move { axum::serve(listener, router).await });
    let Some(shop) = Shop::open(kind, kept("orders").processed_within(Duration::from_secs(60))).await else { return };
    let http = HttpTransport::builder().default_target(HttpTarget::new(&url)).build().expect("a transport");
    let relay = shop.start(http).await;
    let sent = shop.send(&["1", "2", "3"]).await;
    relay.shutdown(DEADLINE).await;
    receiver.abort();
    let admin = shop.admin();
    for message in &sent[..2] {
        admin.report_processed(*message).await.expect("reported");
    }
    let newest = admin.now().await.expect("the time") + Duration::from_millis(5);
    while admin.now().await.expect("the time") <= newest {}
    let verification = Verification::of(&admin, "orders");
    let report = verification.run_with_reports(Duration::from_millis(1), |_| {}).await.expect("verified");
    assert_found(&report, &[("unprocessed", sent[2])]);
    assert_eq!((report.compared.sent, report.compared.matched), (3, 2));
    let report = verification.run_with_reports(Duration::from_secs(600), |_| {}).await.expect("verified");
    assert!(report.is_clean(), "it has time left: {report:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_an_http_consumer_did_not_report_is_found_on_postgres() {
    through_a_relay(Kind::Postgres).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_an_http_consumer_did_not_report_is_found_on_mariadb() {
    through_a_relay(Kind::Mariadb).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_an_http_consumer_did_not_report_is_found_on_sqlite() {
    through_a_relay(Kind::Sqlite).await;
}
