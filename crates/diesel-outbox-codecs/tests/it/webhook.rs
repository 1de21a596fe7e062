//! The library's HTTP transport sends to a receiver that verifies signatures and has an inbox.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::mpsc::{Sender, channel};

use anyhow::{Context as _, Result};
use axum::Router;
use axum::extract::{FromRef, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use axum::routing::post;
use diesel::prelude::*;
use diesel_outbox::inbox::{Inbox, InboxError, Once};
use diesel_outbox::retry::Fixed;
use diesel_outbox::transport::{HttpTarget, HttpTransport};
use diesel_outbox::{MessageId, Outbox, OutboxMessage, Topic};
use diesel_outbox_codecs::Decoder;
use diesel_outbox_codecs::webhook::{Webhook, WebhookSecrets};
use serde::{Deserialize, Serialize};

use crate::shop::{DEADLINE, Shop};

const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const OTHER_SECRET: &str = "whsec_BwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwc=";

#[derive(Serialize, Deserialize, OutboxMessage)]
#[outbox(topic = "orders", kind = "order.placed", key = order_id)]
struct Placed {
    order_id: i64,
}

#[derive(Clone)]
struct Receiver {
    secrets: WebhookSecrets,
    inbox: Inbox,
    file: String,
    /// What each request that came through met.
    seen: Sender<(MessageId, Once<usize>)>,
}

impl FromRef<Receiver> for WebhookSecrets {
    fn from_ref(receiver: &Receiver) -> Self {
        receiver.secrets.clone()
    }
}

impl Receiver {
    fn handle(&self, webhook: &Webhook) -> Result<Once<usize>> {
        let decoder = Decoder::<Placed>::builder().build()?;
        let placed = decoder.decode(webhook.fingerprint(), webhook.body())?;
        anyhow::ensure!(webhook.json::<Placed>()?.order_id == placed.order_id);
        anyhow::ensure!(webhook.fingerprint() == Placed::FINGERPRINTS.first().map(|known| known.as_bytes()));
        anyhow::ensure!(webhook.kind() == Some("order.placed"));
        let mut conn = SqliteConnection::establish(&self.file)?;
        let once = self.inbox.once(&mut conn, webhook.message_id(), |conn| {
            let insert = diesel::sql_query("INSERT INTO invoices VALUES (?)");
            insert.bind::<diesel::sql_types::BigInt, _>(placed.order_id).execute(conn).map_err(InboxError::from)
        })?;
        Ok(once)
    }
}

/// Its first answer is lost: it has handled the message, and the sender does not learn of it.
async fn placed(State(receiver): State<Receiver>, webhook: Webhook) -> Response {
    let once = tokio::task::block_in_place(|| receiver.handle(&webhook)).expect("it is handled");
    receiver.seen.send((webhook.message_id(), once)).expect("somebody listens");
    match once {
        Once::Duplicate => StatusCode::NO_CONTENT.into_response(),
        Once::Done(_) => (StatusCode::GATEWAY_TIMEOUT, [("retry-after", "1")]).into_response(),
    }
}

/// Requests it as somebody who knows the address. Returns the answer's status.
fn posted(address: SocketAddr, headers: &str) -> Result<String> {
    let body = r#"{"order_id":5}"#;
    let mut stream = TcpStream::connect(address)?;
    write!(
        stream,
        "POST /hooks HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\ncontent-length: {}\r\n{headers}\r\n{body}",
        body.len()
    )?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer.split(' ').nth(1).context("a status")?.to_owned())
}

#[test]
fn sqlite_webhook_is_handled_once_and_forgers_get_401() -> Result<()> {
    let outbox = Outbox::builder().topic(Topic::new("orders").retry(Fixed::seconds(&[1]))).fingerprints().build()?;
    let shop = Shop::open(outbox)?;
    let mut conn = shop.connect()?;
    let inbox = Inbox::builder("billing").keep_days(1).build()?;
    inbox.migrate(&mut conn)?;
    diesel::sql_query("CREATE TABLE invoices (order_id INTEGER)").execute(&mut conn)?;
    let (seen, met) = channel();
    let secrets = WebhookSecrets::new([OTHER_SECRET, SECRET])?;
    let receiver = Receiver { secrets, inbox, file: shop.file(), seen };

    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let listener = runtime.block_on(tokio::net::TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], 0))))?;
    let address = listener.local_addr()?;
    let router = Router::new().route("/hooks", post(placed)).with_state(receiver);
    runtime.spawn(async move { axum::serve(listener, router).await });

    let target = HttpTarget::new(format!("http://{address}/hooks")).sign(SECRET);
    let transport = HttpTransport::builder().topic("orders", target).build()?;
    shop.relay(transport, |shop| shop.enqueue(&Placed { order_id: 42 }))?;
    let (first, second) = (met.recv_timeout(DEADLINE)?, met.recv_timeout(DEADLINE)?);
    assert_eq!((first.1, second.1), (Once::Done(1), Once::Duplicate));
    assert_eq!(first.0, second.0);

    let id = MessageId::new();
    let guess = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=";
    let unsigned = format!("webhook-id: {id}\r\n");
    let forged = format!("{unsigned}webhook-timestamp: 1614265330\r\nwebhook-signature: {guess}\r\n");
    for headers in ["", &unsigned, &forged] {
        assert_eq!(posted(address, headers)?, "401", "{headers}");
    }
    assert!(met.try_recv().is_err(), "no forger came through");
    let invoices = diesel::dsl::sql::<diesel::sql_types::BigInt>("SELECT count(*) FROM invoices");
    assert_eq!(invoices.get_result::<i64>(&mut conn)?, 1);
    Ok(())
}
