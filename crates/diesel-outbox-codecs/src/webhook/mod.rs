//! Receives what the library's HTTP transport sends with a signature
//! ([`HttpTarget::sign`](https://docs.rs/diesel-outbox/latest/diesel_outbox/transport/struct.HttpTarget.html)), in axum.
//!
//! [`Webhook`] is an extractor. It lets only requests through that one who knows the secret has signed in the last five minutes.
//! [`Webhook::once`] handles each message once, with the [`Inbox`](diesel_outbox::inbox::Inbox), and answers:
//!
//! ```no_run
//! use axum::extract::{FromRef, State};
//! use axum::http::StatusCode;
//! use axum::{Router, routing::post};
//! use diesel::prelude::*;
//! use diesel::r2d2::{ConnectionManager, Pool};
//! use diesel::sql_types::BigInt;
//! use diesel_outbox::inbox::Inbox;
//! use diesel_outbox_codecs::webhook::{Webhook, WebhookRejection, WebhookSecrets};
//!
//! #[derive(serde::Deserialize)]
//! struct Placed { order_id: i64 }
//!
//! #[derive(Clone)]
//! struct Shop { secrets: WebhookSecrets, inbox: Inbox, pool: Pool<ConnectionManager<SqliteConnection>> }
//!
//! impl FromRef<Shop> for WebhookSecrets { // or axum's derive
//!     fn from_ref(shop: &Shop) -> Self {
//!         shop.secrets.clone()
//!     }
//! }
//!
//! async fn placed(State(shop): State<Shop>, webhook: Webhook) -> Result<StatusCode, WebhookRejection> {
//!     let answer = tokio::task::spawn_blocking(move || {
//!         let mut conn = shop.pool.get().map_err(WebhookRejection::failed)?;
//!         webhook.once(&shop.inbox, &mut *conn, |conn| bill(conn, &webhook.json()?))
//!     });
//!     answer.await.map_err(WebhookRejection::failed)?
//! }
//!
//! fn bill(conn: &mut SqliteConnection, placed: &Placed) -> Result<usize, WebhookRejection> {
//!     Ok(diesel::sql_query("INSERT INTO invoices VALUES (?)").bind::<BigInt, _>(placed.order_id).execute(conn)?)
//! }
//!
//! # fn start(inbox: Inbox, pool: Pool<ConnectionManager<SqliteConnection>>) -> Result<(), Box<dyn std::error::Error>> {
//! let secrets = WebhookSecrets::new(["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"])?;
//! let router: Router = Router::new().route("/hooks/orders", post(placed)).with_state(Shop { secrets, inbox, pool });
//! # let _ = router;
//! # Ok(())
//! # }
//! ```
//!
//! The answer is 204 if the message was handled, now or before. It is 422 if no attempt can handle it: the payload cannot be decoded, the
//! message is older than the inbox keeps, or the handler refuses it. The sender's HTTP transport makes it a dead letter after some more
//! attempts. After anything else the answer is 500, and the message is sent again until it is handled.

mod extractor;
mod once;
mod rejection;
mod secrets;

pub use extractor::Webhook;
pub use rejection::WebhookRejection;
pub use secrets::{InvalidSecret, WebhookSecrets};
