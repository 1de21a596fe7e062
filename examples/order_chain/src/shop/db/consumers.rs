//! The shop's own consumers.

use std::sync::Arc;
use std::time::Duration;

use diesel_outbox::consumer::{HandlerError, KafkaConsumer, OnFailure, Record, RunningConsumer};
use diesel_outbox::retry::Fixed;
use diesel_outbox::transport::KafkaConfig;

use super::super::Db;
use super::{SqlOrders, change};
use crate::Failure;
use crate::cache::{Reservation, StockCache};
use crate::domain::{ORDERS, OrderEvent, PAYMENT_TERMS, PaymentTermOver};
use crate::steps::{Step, Steps};

/// Handlers at a time.
const WORKERS: usize = 4;

/// Closes orders. Its group is its name in the inbox, too.
pub(super) fn closer(kafka: KafkaConfig) -> KafkaConsumer {
    KafkaConsumer::new(kafka, "shop-close").topic(PAYMENT_TERMS).workers(WORKERS)
}

/// Settles the cache. An outage of Redis is no fault of a record, so no record is set aside for it.
pub(super) fn settler(kafka: KafkaConfig) -> KafkaConsumer {
    let wait = Fixed::from(vec![Duration::from_millis(200)]);
    KafkaConsumer::new(kafka, "shop-cache").topic(ORDERS).workers(WORKERS).on_failure(OnFailure::BlockKey).retry(wait)
}

pub(super) fn close_unpaid(orders: &SqlOrders, kafka: KafkaConfig) -> Result<RunningConsumer, Failure> {
    let (outbox, steps) = (orders.outbox.clone(), orders.steps.clone());
    let handler = async move |conn: &mut Db, record: &Record| {
        let term_over: PaymentTermOver = record.decode()?;
        change::close(conn, (outbox.as_ref(), &steps), &term_over.order_id).await?;
        Ok::<_, HandlerError>(())
    };
    Ok(closer(kafka).start_async(orders.pool.clone(), handler)?)
}

/// The cache is no part of the transaction: the change there may happen twice, and the second time finds nothing to do.
pub(super) fn settle_cache(
    orders: &SqlOrders,
    kafka: KafkaConfig,
    cache: Arc<dyn StockCache>,
) -> Result<RunningConsumer, Failure> {
    let steps = orders.steps.clone();
    let handler = async move |_conn: &mut Db, record: &Record| settle(&*cache, &steps, record).await;
    Ok(settler(kafka).start_async(orders.pool.clone(), handler)?)
}

async fn settle(cache: &dyn StockCache, steps: &Steps, record: &Record) -> Result<(), HandlerError> {
    let event: OrderEvent = record.decode()?;
    let order = event.order();
    let reservation = Reservation {
        id: order.reservation_id.clone(),
        order_id: order.id.clone(),
        product_id: order.product_id,
        quantity: order.quantity,
    };
    match event {
        OrderEvent::Created(_) => return Ok(()),
        OrderEvent::Paid(_) => cache.sell(&reservation).await?,
        OrderEvent::Cancelled(_) => cache.give_back(&reservation).await?,
    };
    steps.reach(Step::CacheSettled).await;
    Ok(())
}
