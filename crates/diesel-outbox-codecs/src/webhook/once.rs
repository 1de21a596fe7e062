use axum::http::StatusCode;
use diesel::Connection;
use diesel_outbox::OutboxBackend;
use diesel_outbox::inbox::{Inbox, Once};

use super::{Webhook, WebhookRejection};

impl Webhook {
    /// Runs `handler` in a transaction, unless the message was handled before ([`Inbox::once`]). Returns the answer: 204 in both cases, so
    /// that the sender forgets the message.
    ///
    /// In the handler `?` takes the errors of the database, the inbox and the codecs. For others there are
    /// [`WebhookRejection::failed`] and [`WebhookRejection::refused`]. Decode the payload there, too: a copy of a handled message is
    /// then answered by 204 even if the application can no longer decode it.
    ///
    /// ```
    /// use axum::http::StatusCode;
    /// use diesel::prelude::*;
    /// use diesel::sql_types::BigInt;
    /// use diesel_outbox::inbox::Inbox;
    /// use diesel_outbox_codecs::webhook::{Webhook, WebhookRejection};
    ///
    /// #[derive(serde::Deserialize)]
    /// struct Placed { order_id: i64 }
    ///
    /// fn bill(webhook: &Webhook, inbox: &Inbox, conn: &mut SqliteConnection) -> Result<StatusCode, WebhookRejection> {
    ///     webhook.once(inbox, conn, |conn| {
    ///         let placed: Placed = webhook.json()?;
    ///         let insert = diesel::sql_query("INSERT INTO invoices VALUES (?)");
    ///         Ok(insert.bind::<BigInt, _>(placed.order_id).execute(conn)?)
    ///     })
    /// }
    /// ```
    ///
    /// It blocks the thread: call it in [`spawn_blocking`](https://docs.rs/tokio/latest/tokio/task/fn.spawn_blocking.html), as the
    /// [module](super) shows. With diesel-async call `inbox.once_async(conn, webhook.message_id(), ..)`, whose handler may have the same
    /// error, and then answer 204.
    ///
    /// # Errors
    /// Returns what `handler` returns, or the inbox's error, and nothing was written. As an answer it is 422 if every copy would fail, so
    /// that the message becomes a dead letter, and else 500, so that it is sent again.
    pub fn once<C, T>(
        &self,
        inbox: &Inbox,
        conn: &mut C,
        handler: impl FnOnce(&mut C) -> Result<T, WebhookRejection>,
    ) -> Result<StatusCode, WebhookRejection>
    where
        C: Connection,
        C::Backend: OutboxBackend<C>,
    {
        match inbox.once(conn, self.message_id(), handler)? {
            Once::Done(_) | Once::Duplicate => Ok(StatusCode::NO_CONTENT),
        }
    }
}
