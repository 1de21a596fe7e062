//! Receives what the library's HTTP transport sends with a signature
//! ([`HttpTarget::sign`](https://docs.rs/diesel-outbox/latest/diesel_outbox/transport/struct.HttpTarget.html)), in axum.
//!
//! [`Webhook`] is an extractor. It lets only requests through that one who knows the secret has signed in the last five minutes. With
//! the [`Inbox`](diesel_outbox::inbox::Inbox) each message is handled once:
//!
//! ```no_run
//! use axum::extract::{FromRef, State};
//! use axum::http::StatusCode;
//! use axum::{Router, routing::post};
//! use diesel::prelude::*;
//! use diesel::r2d2::{ConnectionManager, Pool};
//! use diesel_outbox::inbox::{Inbox, InboxError};
//! use diesel_outbox_codecs::webhook::{Webhook, WebhookSecrets};
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
//! async fn placed(State(shop): State<Shop>, webhook: Webhook) -> StatusCode {
//!     let handled = tokio::task::spawn_blocking(move || {
//!         let mut conn = shop.pool.get().map_err(drop)?;
//!         shop.inbox
//!             .once(&mut *conn, webhook.message_id(), |conn| {
//!                 let insert = diesel::sql_query("INSERT INTO invoices VALUES (?)");
//!                 insert.bind::<diesel::sql_types::Binary, _>(webhook.body()).execute(conn).map_err(InboxError::from)
//!             })
//!             .map_err(drop)
//!     });
//!     match handled.await {
//!         Ok(Ok(_)) => StatusCode::NO_CONTENT, // handled now, or before: both tell the sender to forget it
//!         _ => StatusCode::INTERNAL_SERVER_ERROR, // it is sent again
//!     }
//! }
//!
//! # fn start(inbox: Inbox, pool: Pool<ConnectionManager<SqliteConnection>>) -> Result<(), Box<dyn std::error::Error>> {
//! let secrets = WebhookSecrets::new(["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"])?;
//! let router: Router = Router::new().route("/hooks/orders", post(placed)).with_state(Shop { secrets, inbox, pool });
//! # let _ = router;
//! # Ok(())
//! # }
//! ```

mod extractor;
mod rejection;
mod secrets;

pub use extractor::Webhook;
pub use rejection::WebhookRejection;
pub use secrets::{InvalidSecret, WebhookSecrets};
