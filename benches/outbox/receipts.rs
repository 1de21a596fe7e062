//! Receipts of a leg: one that stays open, and those of its messages.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use diesel_async::AsyncConnection;
use diesel_outbox::receipts::{DeliveryReceipt, DeliveryStatus, PendingReceipt};
use diesel_outbox::{Outbox, OutboxMessage};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio::task::JoinHandle;

use crate::application::OrderPlaced;
use crate::database;
use crate::load::TOPIC;

/// Longer than any leg.
const DELAY: Duration = Duration::from_secs(86_400);
/// A relay that keeps up sends within milliseconds.
const DELIVERY_MAX: Duration = Duration::from_secs(30);

/// A receipt that stays open: its message is due after the leg.
pub(crate) async fn open(outbox: &Outbox, url: &str) -> Result<DeliveryReceipt> {
    let (mut conn, event) = (database::connect(url).await?, OrderPlaced { order_id: 0, topic: TOPIC }.delay(DELAY));
    let receipt = conn.transaction(async |conn| outbox.enqueue_with_receipt_async(conn, &event).await).await?;
    receipt.into_receipt().context("the message was committed")
}

pub(crate) async fn ensure_open(receipt: &DeliveryReceipt) -> Result<()> {
    let status = receipt.within(Duration::ZERO).await;
    ensure!(status == DeliveryStatus::Later, "the receipt that was to stay open says {status:?}");
    Ok(())
}

/// A task that waits for deliveries, one after the other.
pub(crate) struct Awaited(JoinHandle<Result<u64>>);

impl Awaited {
    pub(crate) fn start() -> (UnboundedSender<PendingReceipt>, Self) {
        let (sender, mut receipts) = unbounded_channel::<PendingReceipt>();
        let task = tokio::spawn(async move {
            let mut delivered = 0;
            while let Some(receipt) = receipts.recv().await {
                let status = receipt.into_receipt()?.within(DELIVERY_MAX).await;
                ensure!(matches!(status, DeliveryStatus::Acknowledged { .. }), "a receipt says {status:?}");
                delivered += 1;
            }
            Ok(delivered)
        });
        (sender, Self(task))
    }

    /// How many were delivered, once nobody sends receipts any more and each has its answer.
    pub(crate) async fn end(self) -> Result<u64> {
        self.0.await?
    }
}
