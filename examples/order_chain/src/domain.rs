//! Orders, their states, and the messages about them.

use diesel_outbox::OutboxMessage;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// What happened to orders. Ordered by key, so a consumer sees the steps of an order in their order.
pub const ORDERS: &str = "orders";

/// Delayed messages: the payment term of an order is over.
pub const PAYMENT_TERMS: &str = "payment-terms";

/// The most units of one order.
pub const QUANTITY_MAX: i64 = 100;

/// An order, as the client asked for it, with what the shop added.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Order {
    /// Made of the client's idempotency key: a repeated request is about the same order.
    pub id: String,
    /// The deduction in the cache that this order stands on. Each deduction has an id of its own.
    pub reservation_id: String,
    /// Who ordered.
    pub customer_id: i64,
    /// What.
    pub product_id: i64,
    /// How many.
    pub quantity: i64,
    /// At most one live order has a coupon.
    pub coupon_id: Option<i64>,
    /// The price.
    pub total_cents: i64,
}

impl Order {
    /// The id of the order that a request with this idempotency key is about.
    pub fn id_of(idempotency_key: &str) -> String {
        Uuid::new_v5(&Uuid::NAMESPACE_OID, idempotency_key.as_bytes()).to_string()
    }

    /// Whether both were ordered by the same request, whatever reservation they stand on.
    pub fn is_same_request(&self, other: &Self) -> bool {
        let request = |order: &Self| (order.customer_id, order.product_id, order.quantity, order.coupon_id);
        self.id == other.id && request(self) == request(other)
    }

    /// Points for the customer: one for each whole unit of the currency.
    pub fn points(&self) -> i64 {
        self.total_cents / 100
    }
}

/// The state of an order's row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OrderState {
    /// Waits for its payment.
    Created,
    /// The end of a good order.
    Paid,
    /// The end of an order that was not paid in time.
    Cancelled,
    /// No order: the reservation was given back, and no order can stand on it any more.
    Refused,
}

impl OrderState {
    /// As in the database.
    pub fn text(self) -> &'static str {
        match self {
            Self::Created => "created",
            Self::Paid => "paid",
            Self::Cancelled => "cancelled",
            Self::Refused => "refused",
        }
    }

    /// The reverse of [`text`](Self::text).
    pub fn of_text(text: &str) -> Option<Self> {
        [Self::Created, Self::Paid, Self::Cancelled, Self::Refused].into_iter().find(|state| state.text() == text)
    }

    /// Whether stock belongs to the order.
    pub fn is_live(self) -> bool {
        matches!(self, Self::Created | Self::Paid)
    }
}

/// An order with its state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OrderRow {
    /// The order.
    pub order: Order,
    /// Its state.
    pub state: OrderState,
    /// When it changed last, by the database's clock.
    pub changed_at_ms: i64,
}

#[cfg(test)]
impl OrderRow {
    /// An order of that many units, for a cent, whose reservation has its id.
    pub(crate) fn for_test(id: &str, state: OrderState, quantity: i64) -> Self {
        let order = Order {
            id: id.to_owned(),
            reservation_id: id.to_owned(),
            customer_id: 1,
            product_id: 1,
            quantity,
            coupon_id: None,
            total_cents: 1,
        };
        Self { order, state, changed_at_ms: 0 }
    }
}

/// What the shop tells everybody.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, OutboxMessage)]
#[outbox(topic = ORDERS, key = self.order().id)]
pub enum OrderEvent {
    /// It waits for its payment.
    #[outbox(kind = "order.created")]
    Created(Order),
    /// It is paid.
    #[outbox(kind = "order.paid")]
    Paid(Order),
    /// It was not paid in time.
    #[outbox(kind = "order.cancelled")]
    Cancelled(Order),
}

impl OrderEvent {
    /// The order it is about.
    pub fn order(&self) -> &Order {
        match self {
            Self::Created(order) | Self::Paid(order) | Self::Cancelled(order) => order,
        }
    }
}

/// Sent with the order, to be delivered when its payment term is over.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, OutboxMessage)]
#[outbox(topic = PAYMENT_TERMS, kind = "payment.term_over", key = order_id)]
pub struct PaymentTermOver {
    /// The order to close if it is not paid.
    pub order_id: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_repeated_request_is_about_the_same_order() {
        assert_eq!(Order::id_of("key-1"), Order::id_of("key-1"));
        assert_ne!(Order::id_of("key-1"), Order::id_of("key-2"));
    }

    #[test]
    fn every_state_has_its_text() {
        for state in [OrderState::Created, OrderState::Paid, OrderState::Cancelled, OrderState::Refused] {
            assert_eq!(OrderState::of_text(state.text()), Some(state));
        }
        assert_eq!(OrderState::of_text("shipped"), None);
    }
}
