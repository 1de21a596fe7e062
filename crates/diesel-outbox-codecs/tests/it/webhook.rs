//! The library's HTTP transport sends to a receiver that verifies signatures and has an inbox.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use anyhow::{Context as _, Result};
use axum::Router;
use axum::extract::{FromRef, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use axum::routing::post;
use diesel::connection::SimpleConnection as _;
use diesel::prelude::*;
use diesel::sql_types::{BigInt, Text};
use diesel_outbox::inbox::Inbox;
use diesel_outbox::retry::Fixed;
use diesel_outbox::store::SQLITE_PRAGMAS;
use diesel_outbox::transport::{HttpTarget, HttpTransport};
use diesel_outbox::{MessageId, Outbox, OutboxMessage, Topic};
use diesel_outbox_codecs::Decoder;
use diesel_outbox_codecs::webhook::{Webhook, WebhookRejection, WebhookSecrets};
use serde::{Deserialize, Serialize};
use tempfile::TempDir;
use tokio::runtime::Runtime;

use crate::shop::{DEADLINE, Shop};

const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const OTHER_SECRET: &str = "whsec_BwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwc=";

/// How often a receiver may refuse a message.
const REFUSALS_MAX: u32 = 2;

#[derive(Serialize, Deserialize, OutboxMessage)]
#[outbox(topic = "orders", kind = "order.placed", key = order_id)]
struct Placed {
    order_id: i64,
}

#[derive(OutboxMessage)]
#[outbox(topic = "orders", kind = "order.erased", key = order_id, tombstone)]
struct Erased {
    order_id: i64,
}

/// Its producer has renamed the field.
#[derive(Serialize, OutboxMessage)]
#[outbox(topic = "orders", kind = "order.placed")]
struct Renamed {
    order: i64,
}

#[derive(Serialize, OutboxMessage)]
#[outbox(topic = "orders", kind = "order.lost")]
struct Lost {
    order_id: i64,
}

/// The service that receives, with a database of its own.
struct Billing {
    handler: Handler,
    address: SocketAddr,
    visits: Receiver<Visit>,
    _folder: TempDir,
    _runtime: Runtime,
}

#[derive(Clone)]
struct Handler {
    secrets: WebhookSecrets,
    inbox: Inbox,
    file: String,
    /// The answer to a message that it has handled is lost: the sender does not learn of it.
    loses_answers: bool,
    visits: Sender<Visit>,
}

/// A request that came through.
#[derive(Debug)]
struct Visit {
    message_id: MessageId,
    /// Whether the handler ran.
    has_run: bool,
    /// The answer.
    status: u16,
}

impl FromRef<Handler> for WebhookSecrets {
    fn from_ref(handler: &Handler) -> Self {
        handler.secrets.clone()
    }
}

impl Handler {
    fn connect(&self) -> Result<SqliteConnection> {
        let mut conn = SqliteConnection::establish(&self.file)?;
        conn.batch_execute(SQLITE_PRAGMAS)?;
        Ok(conn)
    }

    fn handle(&self, webhook: &Webhook, has_run: &mut bool) -> Result<StatusCode, WebhookRejection> {
        if ![Some(Placed::KIND), Some(Erased::KIND)].contains(&webhook.kind()) {
            return Err(WebhookRejection::refused("it is no order that was placed"));
        }
        let mut conn = self.connect().map_err(WebhookRejection::failed)?;
        webhook.once(&self.inbox, &mut conn, |conn| {
            let Some(placed) = webhook.json::<Option<Placed>>()? else {
                *has_run = webhook.kind() == Some(Erased::KIND);
                return Ok(0);
            };
            assert_eq!(webhook.fingerprint(), Placed::FINGERPRINTS.first().map(|known| known.as_bytes()));
            let decoder = Decoder::<Placed>::builder().build().map_err(WebhookRejection::failed)?;
            assert_eq!(decoder.decode(webhook.fingerprint(), webhook.body())?.order_id, placed.order_id);
            *has_run = true;
            let insert = diesel::sql_query("INSERT INTO invoices VALUES (?)");
            Ok(insert.bind::<BigInt, _>(placed.order_id).execute(conn)?)
        })
    }
}

async fn placed(State(handler): State<Handler>, webhook: Webhook) -> Response {
    let mut has_run = false;
    let answer = tokio::task::block_in_place(|| handler.handle(&webhook, &mut has_run)).into_response();
    let visit = Visit { message_id: webhook.message_id(), has_run, status: answer.status().as_u16() };
    let is_lost = handler.loses_answers && visit.has_run;
    handler.visits.send(visit).expect("somebody listens");
    if is_lost { (StatusCode::GATEWAY_TIMEOUT, [("retry-after", "1")]).into_response() } else { answer }
}

impl Billing {
    fn start(loses_answers: bool) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let (sender, visits) = channel();
        let handler = Handler {
            secrets: WebhookSecrets::new([OTHER_SECRET, SECRET])?,
            inbox: Inbox::builder("billing").keep_days(1).build()?,
            file: folder.path().join("billing.db").display().to_string(),
            loses_answers,
            visits: sender,
        };
        let mut conn = handler.connect()?;
        handler.inbox.migrate(&mut conn)?;
        conn.batch_execute("CREATE TABLE invoices (order_id INTEGER)")?;
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
        let listener = runtime.block_on(tokio::net::TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], 0))))?;
        let address = listener.local_addr()?;
        let router = Router::new().route("/hooks", post(placed)).with_state(handler.clone());
        runtime.spawn(async move { axum::serve(listener, router).await });
        Ok(Self { handler, address, visits, _folder: folder, _runtime: runtime })
    }

    /// What sends to it. After a refusal it tries again at once.
    fn transport(&self) -> Result<HttpTransport> {
        let target = HttpTarget::new(format!("http://{}/hooks", self.address)).sign(SECRET);
        let at_once = Fixed::from(vec![Duration::from_millis(20)]);
        Ok(HttpTransport::builder().topic("orders", target).refusal_retries(REFUSALS_MAX, at_once).build()?)
    }

    /// What it has written: invoices, and entries of its inbox.
    fn written(&self) -> Result<(i64, i64)> {
        let conn = &mut self.handler.connect()?;
        Ok((count(conn, "invoices")?, count(conn, "outbox_inbox")?))
    }

    /// Sends it an event that it refuses at each attempt.
    fn refuses(&self, event: &impl OutboxMessage) -> Result<()> {
        let shop = shop()?;
        shop.relay(self.transport()?, |shop| shop.enqueue(event))?;
        let reasons = diesel::dsl::sql::<Text>("SELECT reason FROM outbox_dead_letters");
        let reasons: Vec<String> = reasons.load(&mut shop.connect()?)?;
        let [reason] = &reasons[..] else { anyhow::bail!("one dead letter is expected, and not {reasons:?}") };
        anyhow::ensure!(reason.starts_with("attempts: ") && reason.ends_with("answered 422"), "{reason}");
        let visits: Vec<Visit> = self.visits.try_iter().collect();
        let is_refusal = |visit: &Visit| visit.status == 422 && !visit.has_run;
        anyhow::ensure!(visits.len() == REFUSALS_MAX as usize && visits.iter().all(is_refusal), "{visits:?}");
        anyhow::ensure!(self.written()? == (0, 0), "something was written");
        Ok(())
    }
}

/// The service that sends.
fn shop() -> Result<Shop> {
    Shop::open(Outbox::builder().topic(Topic::new("orders").retry(Fixed::seconds(&[1]))).fingerprints().build()?)
}

fn count(conn: &mut SqliteConnection, table: &str) -> Result<i64> {
    Ok(diesel::dsl::sql::<BigInt>(&format!("SELECT count(*) FROM {table}")).get_result(conn)?)
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
    let billing = Billing::start(true)?;
    shop()?.relay(billing.transport()?, |shop| shop.enqueue(&Placed { order_id: 42 }))?;
    let (first, second) = (billing.visits.recv_timeout(DEADLINE)?, billing.visits.recv_timeout(DEADLINE)?);
    assert_eq!(((first.has_run, first.status), (second.has_run, second.status)), ((true, 204), (false, 204)));
    assert_eq!(first.message_id, second.message_id);

    let id = MessageId::new();
    let guess = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=";
    let unsigned = format!("webhook-id: {id}\r\n");
    let forged = format!("{unsigned}webhook-timestamp: 1614265330\r\nwebhook-signature: {guess}\r\n");
    for headers in ["", &unsigned, &forged] {
        assert_eq!(posted(billing.address, headers)?, "401", "{headers}");
    }
    assert!(billing.visits.try_recv().is_err(), "no forger came through");
    assert_eq!(billing.written()?, (1, 1));
    Ok(())
}

#[test]
fn sqlite_webhook_without_a_payload_is_read_as_null() -> Result<()> {
    let billing = Billing::start(false)?;
    shop()?.relay(billing.transport()?, |shop| shop.enqueue(&Erased { order_id: 42 }))?;
    let only = billing.visits.recv_timeout(DEADLINE)?;
    assert_eq!((only.has_run, only.status), (true, 204));
    Ok(())
}

/// A 500 would have it sent for ever.
#[test]
fn sqlite_webhook_that_no_attempt_can_handle_becomes_a_dead_letter() -> Result<()> {
    let billing = Billing::start(false)?;
    billing.refuses(&Renamed { order: 42 }).context("a payload that is no such event")?;
    billing.refuses(&Lost { order_id: 42 }).context("what the handler refuses")?;
    // As if it had been pruned in the year 2100.
    billing.handler.connect()?.batch_execute("UPDATE outbox_inbox_start SET kept_from = 4102444800000")?;
    billing.refuses(&Placed { order_id: 42 }).context("a message older than the inbox keeps")
}

#[test]
fn sqlite_webhook_whose_handler_fails_is_handled_at_a_later_attempt() -> Result<()> {
    let (billing, shop) = (Billing::start(false)?, shop()?);
    let mut conn = billing.handler.connect()?;
    conn.batch_execute("ALTER TABLE invoices RENAME TO moved")?;
    shop.relay(billing.transport()?, |shop| {
        shop.enqueue(&Placed { order_id: 42 })?;
        let first = billing.visits.recv_timeout(DEADLINE)?;
        assert_eq!((first.has_run, first.status), (true, 500));
        assert_eq!(count(&mut conn, "outbox_inbox")?, 0, "the entry is rolled back with the handler's work");
        Ok(conn.batch_execute("ALTER TABLE moved RENAME TO invoices")?)
    })?;
    let last = billing.visits.try_iter().last().context("a later attempt")?;
    assert_eq!((last.has_run, last.status), (true, 204));
    assert_eq!(billing.written()?, (1, 1));
    assert_eq!(count(&mut shop.connect()?, "outbox_dead_letters")?, 0);
    Ok(())
}
