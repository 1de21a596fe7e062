//! The shop's transactions, on each database.

use std::sync::Arc;
use std::time::Duration;

use order_chain::broker::Brokers;
use order_chain::cache::Reservation;
use order_chain::domain::{Order, OrderState};
use order_chain::shop::orders::{Orders, Payment, Placed, Verdict};
use order_chain::shop::{outbox, sqlite};
use order_chain::steps::{Step, Steps};
use tempfile::TempDir;
use tokio::time::timeout;

use super::bed::{DEADLINE, Gate};

const TERM: Duration = Duration::from_secs(3_600);
/// Within this whoever waits is seen to wait.
const SHORT: Duration = Duration::from_millis(300);

struct Place {
    orders: Arc<dyn Orders>,
    _folder: Option<TempDir>,
}

async fn on_sqlite(steps: Steps) -> Option<Place> {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("shop.db").display().to_string();
    let pool = sqlite::pool(&file, 8).expect("a pool");
    let orders = sqlite::db::SqlOrders::new(pool, outbox(Brokers::Kafka).expect("an outbox"), steps);
    orders.migrate(&[250, 500]).await.expect("tables");
    Some(Place { orders: Arc::new(orders), _folder: Some(folder) })
}

#[cfg(feature = "servers")]
async fn on_postgres(steps: Steps) -> Option<Place> {
    use diesel_async::{AsyncConnection, AsyncPgConnection, SimpleAsyncConnection};
    use order_chain::shop::postgres;
    use xtask::servers::ServerKind;

    let url = xtask::test_servers::shared_or_skip(ServerKind::Postgres)?;
    let name = format!("chain_{}", uuid::Uuid::new_v4().simple());
    let mut server = AsyncPgConnection::establish(&url).await.expect("connected");
    server.batch_execute(&format!("CREATE DATABASE {name}")).await.expect("a database");
    let (server, _) = url.rsplit_once('/').expect("a URL with a database");
    let pool = postgres::pool(&format!("{server}/{name}"), 8).expect("a pool");
    let orders = postgres::db::SqlOrders::new(pool, outbox(Brokers::Kafka).expect("an outbox"), steps);
    orders.migrate(&[250, 500]).await.expect("tables");
    Some(Place { orders: Arc::new(orders), _folder: None })
}

fn order(key: &str, coupon_id: Option<i64>) -> Order {
    Order {
        id: Order::id_of(key),
        reservation_id: format!("r-{key}"),
        customer_id: 7,
        product_id: 1,
        quantity: 2,
        coupon_id,
        total_cents: 500,
    }
}

fn reservation(order: &Order) -> Reservation {
    Reservation {
        id: order.reservation_id.clone(),
        order_id: order.id.clone(),
        product_id: order.product_id,
        quantity: order.quantity,
    }
}

async fn an_order_ends_once(place: Place) {
    let orders = &place.orders;
    let (paid, closed) = (order("paid", Some(1)), order("closed", Some(2)));
    for order in [&paid, &closed] {
        assert_eq!(orders.place(order, 0, TERM).await.expect("an answer"), Placed::New);
    }
    assert!(matches!(orders.place(&paid, 0, TERM).await.expect("an answer"), Placed::Before(_)));
    assert!(matches!(orders.pay(&paid.id).await.expect("an answer"), Payment::Paid(_)));
    assert!(matches!(orders.pay(&paid.id).await.expect("an answer"), Payment::Paid(_)), "again");
    assert!(!orders.close(&paid.id).await.expect("an answer"));
    assert!(orders.close(&closed.id).await.expect("an answer"));
    assert!(!orders.close(&closed.id).await.expect("an answer"), "again");
    assert_eq!(orders.pay(&closed.id).await.expect("an answer"), Payment::Closed);
    assert_eq!(orders.pay("none").await.expect("an answer"), Payment::NoOrder);
    let coupon = |key, id| order(key, Some(id));
    assert_eq!(orders.place(&coupon("b", 1), 0, TERM).await.expect("an answer"), Placed::CouponInUse);
    assert_eq!(orders.place(&coupon("c", 2), 0, TERM).await.expect("an answer"), Placed::New);
    let live = orders.live_stock(1).await.expect("an answer");
    assert_eq!((live.sold, live.reserved), (2, vec![reservation(&coupon("c", 2))]));
    assert_eq!(orders.live_stock(2).await.expect("an answer"), Default::default());
    let verdict = orders.decide(&reservation(&paid)).await.expect("an answer");
    assert_eq!(verdict, Verdict::Order(OrderState::Paid));
    let ids = [paid.reservation_id.clone(), closed.reservation_id, "none".to_owned()];
    let mut states = orders.states(&ids).await.expect("an answer");
    states.sort_unstable();
    assert_eq!(states.iter().map(|(_, state)| *state).collect::<Vec<_>>(), [OrderState::Cancelled, OrderState::Paid]);
    assert!(orders.all().await.expect("an answer").iter().all(|row| row.changed_at_ms > 1_700_000_000_000));
}

async fn an_unpaid_order_is_overdue_at_the_end_of_its_term(place: Place) {
    let orders = &place.orders;
    let (late, in_time) = (order("late", None), order("in time", None));
    let before_ms = orders.now_ms().await.expect("an answer");
    assert_eq!(orders.place(&late, 0, Duration::ZERO).await.expect("an answer"), Placed::New);
    assert_eq!(orders.place(&in_time, 0, TERM).await.expect("an answer"), Placed::New);
    let overdue = orders.overdue().await.expect("an answer");
    let after_ms = orders.now_ms().await.expect("an answer");
    assert_eq!(overdue.iter().map(|(id, _)| id).collect::<Vec<_>>(), [&late.id]);
    assert!((before_ms..=after_ms).contains(&overdue[0].1), "{before_ms}, {overdue:?}, {after_ms}");
    assert!(orders.close(&late.id).await.expect("an answer"));
    assert_eq!(orders.overdue().await.expect("an answer"), []);
    // Its end changes nothing about when it was created.
    let ids = [late.id.clone(), "none".to_owned()];
    assert_eq!(orders.created_at_ms(&ids).await.expect("an answer"), overdue);
}

async fn a_refused_reservation_becomes_no_order(place: Place) {
    let (orders, asked) = (&place.orders, order("key", None));
    for _ in 0..2 {
        assert_eq!(orders.decide(&reservation(&asked)).await.expect("an answer"), Verdict::Refused);
    }
    assert_eq!(orders.place(&asked, 0, TERM).await.expect("an answer"), Placed::Refused);
    let again = Order { reservation_id: "r-again".to_owned(), ..asked };
    assert_eq!(orders.place(&again, 0, TERM).await.expect("an answer"), Placed::New);
    assert_eq!(orders.all().await.expect("an answer").len(), 1);
}

async fn an_order_of_an_earlier_generation_is_refused(place: Place) {
    let orders = &place.orders;
    assert_eq!(orders.raise_generation(1).await.expect("an answer"), 1);
    let placed = orders.place(&order("key", None), 0, TERM).await.expect("an answer");
    assert_eq!((placed, orders.find(&Order::id_of("key")).await.expect("an answer")), (Placed::StaleGeneration, None));
    assert_eq!(orders.place(&order("key", None), 1, TERM).await.expect("an answer"), Placed::New);
    let generations: Vec<i64> =
        orders.products().await.expect("an answer").iter().map(|product| product.generation).collect();
    assert_eq!(generations, [1, 0]);
}

/// The reconciler's row and the rebuild wait for an order that is not committed yet, and see it then.
async fn an_open_order_is_waited_for(place: Place, gate: Gate) {
    let orders = Arc::clone(&place.orders);
    let placing = tokio::spawn(async move { orders.place(&order("key", None), 0, TERM).await });
    gate.reached().await;
    let (deciding, raising) = (Arc::clone(&place.orders), Arc::clone(&place.orders));
    let mut decided = tokio::spawn(async move { deciding.decide(&reservation(&order("key", None))).await });
    assert!(timeout(SHORT, &mut decided).await.is_err(), "the decision waits");
    let mut raised = tokio::spawn(async move { raising.raise_generation(1).await });
    assert!(timeout(SHORT, &mut raised).await.is_err(), "the rebuild waits");
    gate.open();
    assert_eq!(placing.await.expect("no panic").expect("an answer"), Placed::New);
    let decided = timeout(DEADLINE, decided).await.expect("it ends").expect("no panic").expect("an answer");
    assert_eq!(decided, Verdict::Order(OrderState::Created));
    let raised = timeout(DEADLINE, raised).await.expect("it ends").expect("no panic").expect("an answer");
    assert_eq!(raised, 1);
}

/// A transaction that is dropped in the middle leaves no locks.
async fn a_dropped_order_is_rolled_back(place: Place, gate: Gate) {
    let orders = Arc::clone(&place.orders);
    let placing = tokio::spawn(async move { orders.place(&order("key", None), 0, TERM).await });
    gate.reached().await;
    placing.abort();
    assert!(placing.await.expect_err("it was dropped").is_cancelled());
    let verdict = timeout(DEADLINE, place.orders.decide(&reservation(&order("key", None)))).await;
    assert_eq!(verdict.expect("it ends").expect("an answer"), Verdict::Refused);
}

macro_rules! on_each_database {
    ($($database:ident: $open:ident;)+) => {
        $(mod $database {
            use super::*;

            #[tokio::test(flavor = "multi_thread")]
            async fn an_order_ends_once() {
                let Some(place) = $open(Steps::default()).await else { return };
                super::an_order_ends_once(place).await;
            }

            #[tokio::test(flavor = "multi_thread")]
            async fn an_unpaid_order_is_overdue_at_the_end_of_its_term() {
                let Some(place) = $open(Steps::default()).await else { return };
                super::an_unpaid_order_is_overdue_at_the_end_of_its_term(place).await;
            }

            #[tokio::test(flavor = "multi_thread")]
            async fn a_refused_reservation_becomes_no_order() {
                let Some(place) = $open(Steps::default()).await else { return };
                super::a_refused_reservation_becomes_no_order(place).await;
            }

            #[tokio::test(flavor = "multi_thread")]
            async fn an_order_of_an_earlier_generation_is_refused() {
                let Some(place) = $open(Steps::default()).await else { return };
                super::an_order_of_an_earlier_generation_is_refused(place).await;
            }

            #[tokio::test(flavor = "multi_thread")]
            async fn an_open_order_is_waited_for() {
                let (gate, steps) = Gate::at(Step::Enqueued);
                let Some(place) = $open(steps).await else { return };
                super::an_open_order_is_waited_for(place, gate).await;
            }

            #[tokio::test(flavor = "multi_thread")]
            async fn a_dropped_order_is_rolled_back() {
                let (gate, steps) = Gate::at(Step::Enqueued);
                let Some(place) = $open(steps).await else { return };
                super::a_dropped_order_is_rolled_back(place, gate).await;
            }
        })+
    };
}

on_each_database! {
    sqlite_orders: on_sqlite;
}

#[cfg(feature = "servers")]
on_each_database! {
    postgres_orders: on_postgres;
}
