//! The state machine that every service keeps for each order.

use crate::domain::OrderEvent;

/// How far a service has followed an order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// Stock is locked, a coupon is taken, points are promised.
    Created,
    /// Stock is sold, a coupon is used up, points are booked.
    Paid,
    /// Stock is released, a coupon is free again, points are void.
    Cancelled,
}

/// A message that does not fit to what the service knows of the order.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("order {order_id} cannot become {to:?}: here it is {from:?}")]
pub struct IllegalChange {
    /// Which order.
    pub order_id: String,
    /// What the service knows of it.
    pub from: Option<Phase>,
    /// What the message says.
    pub to: Phase,
}

impl Phase {
    /// What an event makes of an order.
    pub fn of_event(event: &OrderEvent) -> Self {
        match event {
            OrderEvent::Created(_) => Self::Created,
            OrderEvent::Paid(_) => Self::Paid,
            OrderEvent::Cancelled(_) => Self::Cancelled,
        }
    }

    /// Whether an order may go from one phase to another.
    pub fn may_follow(self, from: Option<Self>) -> bool {
        matches!((from, self), (None, Self::Created) | (Some(Self::Created), Self::Paid | Self::Cancelled))
    }

    /// As in the database.
    pub fn text(self) -> &'static str {
        match self {
            Self::Created => "created",
            Self::Paid => "paid",
            Self::Cancelled => "cancelled",
        }
    }

    /// The reverse of [`text`](Self::text).
    pub fn of_text(text: &str) -> Option<Self> {
        [Self::Created, Self::Paid, Self::Cancelled].into_iter().find(|phase| phase.text() == text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_ends_once() {
        let phases = [Phase::Created, Phase::Paid, Phase::Cancelled];
        let legal: Vec<_> = phases
            .into_iter()
            .flat_map(|to| {
                [None, Some(Phase::Created), Some(Phase::Paid), Some(Phase::Cancelled)].map(|from| (from, to))
            })
            .filter(|(from, to)| to.may_follow(*from))
            .collect();
        let created = Some(Phase::Created);
        assert_eq!(legal, [(None, Phase::Created), (created, Phase::Paid), (created, Phase::Cancelled)]);
    }
}
