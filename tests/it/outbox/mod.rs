//! The facade: enqueue, the commit hook, `outbox.transaction`, and what applications test with.
//!
//! A [`TestHook`](diesel_outbox::TestHook) stands in the place of the relay and says what was handed over. A row that is handed
//! over as a ref is read before it is sent, so the proof of "no phantom" is that its row is gone, and that the row itself
//! was not inline.

mod admin_beside_relays;
mod audit;
mod batch;
mod builder;
mod connect;
pub(crate) mod databases;
mod delayed;
mod delayed_relay;
mod enqueue;
mod events;
mod health;
mod interceptor;
mod lane_yields;
mod locked_table;
pub(crate) mod logged;
mod migrate;
mod names;
mod notices;
mod ordered;
mod ordered_relay;
mod own_instrumentation_in_pools;
mod own_transaction;
mod own_transaction_async;
mod own_transaction_lost;
mod pgbouncer;
mod phantoms;
mod pipeline;
mod receipts;
mod refusals;
mod revert;
mod rights;
mod row_removed;
mod several_relays;
mod shared_pool;
mod testing;
mod tls;
pub(crate) mod transaction_lost;
mod transactions;
mod transactions_async;
mod unsent;
mod verified;

use diesel_outbox::{Message, MessageId, Outbox, TestHook, Topic};

/// Takes messages outside a transaction, too: many tests write nothing else.
pub(crate) fn outbox() -> Outbox {
    let builder = Outbox::builder().topic(Topic::new("orders")).topic(Topic::new("payments"));
    builder.allow_outside_transaction().build().expect("build")
}

/// An order's message.
pub(crate) fn order(key: i64) -> Message {
    Message::to("orders").kind("order.placed").key(key.to_string()).header("source", "shop").payload_bytes("{}")
}

/// The messages handed over since the last call.
pub(crate) fn handed_over(test_hook: &TestHook) -> Vec<MessageId> {
    test_hook.take().into_iter().map(|captured| captured.row.message_id).collect()
}
