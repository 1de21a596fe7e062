//! Records that the shop's own consumers have set aside.

use std::sync::Arc;
use std::time::Duration;

use diesel_async::SimpleAsyncConnection;
use order_chain::broker::Brokers;
use order_chain::cache::StockCache;
use order_chain::reconcile::{Reconciler, Wrong};
use order_chain::shop::orders::Orders;
use order_chain::shop::{outbox, sqlite};
use order_chain::steps::Steps;

use super::bed::Bed;

/// The payment term that it ends is over for nobody: without this the order would stay open, and nobody would know why.
#[tokio::test(flavor = "multi_thread")]
async fn what_a_consumer_of_the_shop_has_set_aside_is_wrong() {
    let (bed, folder) = (Bed::new(Steps::default()).await, tempfile::tempdir().expect("a folder"));
    let file = folder.path().join("shop.db").display().to_string();
    let pool = sqlite::pool(&file, 2).expect("a pool");
    let orders = sqlite::db::SqlOrders::new(pool.clone(), outbox(Brokers::Kafka).expect("an outbox"), Steps::default());
    orders.migrate(&[250, 500]).await.expect("tables");
    assert_eq!(orders.parked().await.expect("an answer"), Vec::<String>::new());
    for group in ["shop-close", "shop-cache", "of somebody else"] {
        let park = format!(
            "INSERT INTO outbox_parked (consumer, topic, partition_name, record_offset, headers, sent_at_ms, parked_at, \
             holds_key, error) VALUES ('{group}', 'topic', '0', 1, '[]', 1, 1, 1, 'it does not decode')"
        );
        pool.get().await.expect("a connection").batch_execute(&park).await.expect("a row");
    }
    let orders: Arc<dyn Orders> = Arc::new(orders);
    let cache: Arc<dyn StockCache> = Arc::clone(&bed.world.cache) as Arc<_>;
    let ledgers = Arc::clone(&bed.world.ledgers);
    let reconciler = Reconciler::new(orders, cache, ledgers, Steps::default(), Duration::ZERO);
    let findings = reconciler.check().await.expect("a comparison");
    let parked = |group| Wrong::Parked { record: format!("{group}: it does not decode") };
    assert_eq!(findings.wrong, ["shop-close", "shop-cache"].map(parked));
}
