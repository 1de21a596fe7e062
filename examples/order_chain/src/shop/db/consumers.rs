//! The shop's own consumers.

use std::sync::Arc;
use std::time::Duration;

use diesel_outbox::consumer::{HandlerError, OnFailure, Record, RunningConsumer};
use diesel_outbox::retry::Fixed;

use super::super::Db;
use super::{SqlOrders, change};
use crate::Failure;
use crate::broker::{Broker, with_consumer};
use crate::cache::{Reservation, StockCache};
use crate::domain::{ORDERS, OrderEvent, PAYMENT_TERMS, PaymentTermOver};
use crate::steps::{Step, Steps};

/// Handlers at a time.
const WORKERS: usize = 4;
/// What fails here fails because a database or Redis is away, which ends, so a record is tried again for as long as that lasts. Set aside, it
/// would leave an order open for ever, or units reserved. What cannot be decoded is set aside at once, whatever this is: no attempt would help.
const ATTEMPTS_MAX: u32 = u32::MAX;
/// No record needs the one before of its order: the state of the order's row decides whether it is closed, and a reservation is settled once.
const ON_FAILURE: OnFailure = OnFailure::ParkAlone;

/// Closes orders. A group is also a consumer's name in the inbox.
const CLOSER: &str = "shop-close";
/// Settles the cache.
const SETTLER: &str = "shop-cache";
pub(super) const GROUPS: [&str; 2] = [CLOSER, SETTLER];

pub(super) fn close_unpaid(orders: &SqlOrders, broker: Broker) -> Result<RunningConsumer, Failure> {
    let (outbox, steps, pool) = (orders.outbox.clone(), orders.steps.clone(), orders.pool.clone());
    let handler = async move |conn: &mut Db, record: &Record| {
        let term_over: PaymentTermOver = record.decode()?;
        change::close(conn, (outbox.as_ref(), &steps), &term_over.order_id).await?;
        Ok::<_, HandlerError>(())
    };
    Ok(with_consumer!(broker, CLOSER, PAYMENT_TERMS, |consumer| consumer
        .workers(WORKERS)
        .attempts_max(ATTEMPTS_MAX)
        .on_failure(ON_FAILURE)
        .start_async(pool, handler)?))
}

/// The cache is no part of the transaction: the change there may happen twice, and the second time finds nothing to do. An outage of Redis is
/// no fault of a record: its key waits until Redis is back.
pub(super) fn settle_cache(
    orders: &SqlOrders,
    broker: Broker,
    cache: Arc<dyn StockCache>,
) -> Result<RunningConsumer, Failure> {
    let (steps, pool) = (orders.steps.clone(), orders.pool.clone());
    let handler = async move |_conn: &mut Db, record: &Record| settle(&*cache, &steps, record).await;
    let wait = Fixed::from(vec![Duration::from_millis(200)]);
    Ok(with_consumer!(broker, SETTLER, ORDERS, |consumer| {
        let consumer = consumer.workers(WORKERS).attempts_max(ATTEMPTS_MAX).on_failure(ON_FAILURE);
        consumer.retry(wait).start_async(pool, handler)?
    }))
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
