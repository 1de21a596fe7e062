//! How an order is placed: deduct in the cache, then write the order and its messages in one transaction.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::Shop;
use super::orders::{DatabaseError, Placed, Verdict};
use super::release::settle_by_table;
use crate::cache::{Deduction, Reservation};
use crate::domain::{Order, OrderRow, OrderState, QUANTITY_MAX};
use crate::steps::Step;

/// The longest idempotency key.
const KEY_LENGTH_MAX: usize = 200;

/// The body of POST /orders.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NewOrder {
    /// Who orders.
    pub customer_id: i64,
    /// What.
    pub product_id: i64,
    /// How many.
    pub quantity: i64,
    /// With this coupon.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub coupon_id: Option<i64>,
}

/// An order that is committed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlacedOrder {
    /// The order.
    pub order: Order,
    /// Its state.
    pub state: OrderState,
    /// Whether this request made it.
    pub is_new: bool,
}

/// Why there is no order. Nothing is reserved, or what is reserved is given back.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "each has its own message")]
pub enum PlaceError {
    #[error(
        "the header Idempotency-Key is missing, empty, or longer than {KEY_LENGTH_MAX} bytes: send one for each order, and the same when you repeat it"
    )]
    NoKey,
    #[error("quantity is {0}: order from 1 to {QUANTITY_MAX} units")]
    Quantity(i64),
    #[error("there is no product {0}")]
    UnknownProduct(i64),
    #[error("there is no coupon {0}")]
    UnknownCoupon(i64),
    #[error("the idempotency key was used for another order: send a new one")]
    KeyReused,
    #[error("another order has coupon {0}: choose another one, or wait until that order is closed")]
    CouponInUse(i64),
    #[error("product {product_id} has {available} units left, and {quantity} were asked for")]
    NotEnough { product_id: i64, quantity: i64, available: i64 },
    #[error("the order was not placed for now: repeat it with the same idempotency key ({0})")]
    Later(String),
}

impl From<DatabaseError> for PlaceError {
    fn from(error: DatabaseError) -> Self {
        Self::Later(error.to_string())
    }
}

impl Shop {
    /// Places an order, once for each idempotency key.
    ///
    /// # Errors
    /// Returns why there is no order. Of [`PlaceError::Later`] it is not known whether there is one: repeat the request.
    pub async fn place(&self, key: &str, new: &NewOrder) -> Result<PlacedOrder, PlaceError> {
        let mut order = self.order(key, new)?;
        self.steps.reach(Step::Asked).await;
        let asked = reservation_of(&order);
        let generation = match self.cache.deduct(&asked).await {
            Ok(Deduction::Deducted { generation }) => generation,
            Ok(Deduction::DeductedBefore { generation, reservation }) => {
                if reservation.quantity != order.quantity {
                    return Err(PlaceError::KeyReused);
                }
                order.reservation_id = reservation.id;
                generation
            }
            Ok(Deduction::NotEnough { available }) => return self.sold_out(&order, available).await,
            Ok(Deduction::UnknownProduct) => return Err(PlaceError::Later("its stock is being loaded".to_owned())),
            // It may have been deducted. The client's next request finds that, or else the reconciler does.
            Err(away) => return Err(PlaceError::Later(away.to_string())),
        };
        self.steps.reach(Step::Deducted).await;
        match self.orders.place(&order, generation, self.payment_term).await {
            Ok(placed) => self.placed(order, placed).await,
            Err(error) => self.after_failure(order, error).await,
        }
    }

    /// Refuses what cannot be an order, before anything is touched.
    fn order(&self, key: &str, new: &NewOrder) -> Result<Order, PlaceError> {
        if key.is_empty() || key.len() > KEY_LENGTH_MAX {
            return Err(PlaceError::NoKey);
        }
        if !(1..=QUANTITY_MAX).contains(&new.quantity) {
            return Err(PlaceError::Quantity(new.quantity));
        }
        let price_cents =
            self.catalogue.price_cents(new.product_id).ok_or(PlaceError::UnknownProduct(new.product_id))?;
        if let Some(coupon_id) = new.coupon_id.filter(|id| !self.catalogue.has_coupon(*id)) {
            return Err(PlaceError::UnknownCoupon(coupon_id));
        }
        Ok(Order {
            id: Order::id_of(key),
            reservation_id: Uuid::new_v4().to_string(),
            customer_id: new.customer_id,
            product_id: new.product_id,
            quantity: new.quantity,
            coupon_id: new.coupon_id,
            total_cents: price_cents * new.quantity,
        })
    }

    /// A repeated request gets its order, also when there is nothing left for a new one.
    async fn sold_out(&self, order: &Order, available: i64) -> Result<PlacedOrder, PlaceError> {
        match self.orders.find(&order.id).await? {
            Some(before) => same_request(order, before),
            None => {
                let (product_id, quantity) = (order.product_id, order.quantity);
                Err(PlaceError::NotEnough { product_id, quantity, available })
            }
        }
    }

    async fn placed(&self, order: Order, placed: Placed) -> Result<PlacedOrder, PlaceError> {
        let reservation = reservation_of(&order);
        let error = match placed {
            Placed::New => {
                self.steps.reach(Step::Committed).await;
                return Ok(PlacedOrder { order, state: OrderState::Created, is_new: true });
            }
            Placed::Before(before) => {
                if before.order.reservation_id != reservation.id {
                    self.give_up(&reservation).await;
                }
                return same_request(&order, before);
            }
            Placed::CouponInUse => PlaceError::CouponInUse(order.coupon_id.unwrap_or_default()),
            Placed::StaleGeneration => PlaceError::Later("its stock was loaded again meanwhile".to_owned()),
            Placed::Refused => PlaceError::Later("it took too long, and its units were given back".to_owned()),
        };
        self.give_up(&reservation).await;
        Err(error)
    }

    /// Nobody knows whether the transaction committed: its row does.
    async fn after_failure(&self, order: Order, error: DatabaseError) -> Result<PlacedOrder, PlaceError> {
        self.steps.reach(Step::TransactionFailed).await;
        let later = PlaceError::from(error);
        let reservation = reservation_of(&order);
        match settle_by_table(&*self.orders, &*self.cache, &self.steps, &reservation).await {
            Ok(Verdict::Order(_)) => match self.orders.find(&order.id).await? {
                Some(row) => same_request(&order, row),
                None => Err(later),
            },
            Ok(Verdict::Refused) => Err(later),
            Err(unsettled) => {
                tracing::info!(%unsettled, reservation = reservation.id, "left to the reconciler");
                Err(later)
            }
        }
    }

    /// Settles a reservation at once. If that fails, the reconciler does it.
    async fn give_up(&self, reservation: &Reservation) {
        let settled = settle_by_table(&*self.orders, &*self.cache, &self.steps, reservation).await;
        if let Err(unsettled) = settled {
            tracing::info!(%unsettled, reservation = reservation.id, "left to the reconciler");
        }
    }
}

fn reservation_of(order: &Order) -> Reservation {
    Reservation {
        id: order.reservation_id.clone(),
        order_id: order.id.clone(),
        product_id: order.product_id,
        quantity: order.quantity,
    }
}

/// The order of an earlier request, if that asked for the same.
fn same_request(order: &Order, before: OrderRow) -> Result<PlacedOrder, PlaceError> {
    if !order.is_same_request(&before.order) {
        return Err(PlaceError::KeyReused);
    }
    Ok(PlacedOrder { order: before.order, state: before.state, is_new: false })
}
