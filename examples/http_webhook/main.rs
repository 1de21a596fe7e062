//! An order service on SQLite that tells another service, by signed webhooks. Needs no server.
//!
//! ```sh
//! cargo run --example http_webhook
//! ```
//!
//! The other service is busy first, then takes an order whose answer is lost on the way, and is visited by a forger. It
//! ends with every committed order once. `docs/http.md` has the settings, the guarantees and what each answer does.
#![allow(clippy::print_stdout, reason = "it tells what it does")]

mod receiver;

use std::error::Error;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use diesel::connection::SimpleConnection;
use diesel::prelude::*;
use diesel::r2d2::{ConnectionManager, Pool};
use diesel_outbox::retry::Fixed;
use diesel_outbox::store::{SQLITE_PRAGMAS, SqliteStore};
use diesel_outbox::transport::{HttpTarget, HttpTransport};
use diesel_outbox::{Outbox, OutboxMessage, Topic};
use serde::Serialize;

use self::receiver::{RETRY_AFTER, Receiver, Visit};

type Failure = Box<dyn Error + Send + Sync>;

/// How long anything here may take.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Both sides know it, and nobody else: 24 to 64 random bytes in the real world.
const SECRET: [u8; 32] = [7; 32];

#[derive(Serialize, OutboxMessage)]
#[outbox(topic = "order-webhooks", kind = "order.placed", key = order_id)]
struct OrderPlaced {
    order_id: i64,
    total_cents: i64,
}

fn main() -> Result<(), Failure> {
    let receiver = Receiver::start(&SECRET)?;
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("shop.db").to_string_lossy().into_owned();
    let mut conn = SqliteConnection::establish(&file)?;
    conn.batch_execute(SQLITE_PRAGMAS)?;
    conn.batch_execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, total_cents INTEGER)")?;

    let target = HttpTarget::new(format!("http://{}/hooks/orders", receiver.address))
        .sign(format!("whsec_{}", BASE64.encode(SECRET)))
        // The receiver has it already: that is what was wanted.
        .success((200..300).chain([409]));
    let webhooks = HttpTransport::builder().topic("order-webhooks", target).build()?;
    let outbox = Outbox::builder().topic(Topic::new("order-webhooks").retry(Fixed::seconds(&[1]))).build()?;
    outbox.migrate(&mut conn)?;
    let pool = Pool::builder().max_size(2).build(ConnectionManager::<SqliteConnection>::new(&*file))?;
    let relay = outbox.relay().store(SqliteStore::new(pool)).transport(webhooks).start_blocking()?;

    for (order_id, total_cents) in [(1, 1_000), (2, 2_500), (3, 400), (4, 1_000_000)] {
        let placed = conn.immediate_transaction(|conn| {
            let insert = diesel::sql_query("INSERT INTO orders VALUES (?, ?)");
            let insert = insert.bind::<diesel::sql_types::BigInt, _>(order_id);
            insert.bind::<diesel::sql_types::BigInt, _>(total_cents).execute(conn)?;
            outbox.enqueue(conn, &OrderPlaced { order_id, total_cents })?;
            // The payment is refused behind the message: neither order nor message is left.
            if total_cents > 100_000 { Err(diesel::result::Error::RollbackTransaction) } else { Ok(()) }
        });
        assert_eq!(placed.is_ok(), order_id != 4);
    }
    // Three orders, one of them twice because the receiver was busy, one twice because an answer was lost.
    let visits = (0..5).map(|_| receiver.visits.recv_timeout(TIMEOUT)).collect::<Result<Vec<_>, _>>()?;
    check(&visits);
    forge(receiver.address)?;
    assert_eq!(receiver.visits.recv_timeout(TIMEOUT)?.status, 401);

    let report = relay.shutdown(Duration::from_secs(5))?;
    assert!(report.is_clean(), "{report:?}");
    let count = |table: &str| diesel::dsl::sql::<diesel::sql_types::BigInt>(&format!("SELECT count(*) FROM {table}"));
    let left = count("outbox_messages").get_result::<i64>(&mut conn)?;
    let dead = count("outbox_dead_letters").get_result::<i64>(&mut conn)?;
    assert_eq!((left, dead), (0, 0));
    let mut orders: Vec<_> =
        receiver.orders().iter().map(|body| serde_json::from_slice(body)).collect::<Result<_, _>>()?;
    orders.sort_by_key(|order: &serde_json::Value| order["order_id"].as_i64());
    let expected = [(1, 1_000), (2, 2_500), (3, 400)]
        .map(|(order_id, total_cents)| serde_json::json!({ "order_id": order_id, "total_cents": total_cents }));
    assert_eq!(orders, expected);
    println!("The receiver has {} orders, each once; it turned a repeat away, and a forger.", orders.len());
    Ok(())
}

/// What the receiver answered, in any order: the first may be any of the three.
fn check(visits: &[Visit]) {
    let mut statuses: Vec<u16> = visits.iter().map(|visit| visit.status).collect();
    println!("The receiver answered {statuses:?}.");
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 200, 409, 503, 504]);
    let of = |status| visits.iter().filter(move |visit| visit.status == status);
    for busy in of(503) {
        let again = visits.iter().find(|visit| visit.key == busy.key && visit.at > busy.at);
        let waited = again.map(|again| again.at - busy.at);
        println!("It was busy, asked for {RETRY_AFTER:?}, and was asked again after {waited:?}.");
        assert!(waited >= Some(RETRY_AFTER));
    }
    let lost: Vec<_> = of(504).map(|visit| &visit.key).collect();
    assert_eq!(lost, of(409).map(|visit| &visit.key).collect::<Vec<_>>(), "the repeat had the same idempotency key");
}

/// Somebody who found the address, and guesses the secret.
#[allow(clippy::disallowed_methods, reason = "a signature has a date")]
fn forge(address: SocketAddr) -> Result<(), Failure> {
    let (id, body) = ("01890000-0000-7000-8000-000000000000", r#"{"order_id":5,"total_cents":1}"#);
    let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs();
    let guess = BASE64.encode([8; 32]);
    let mut stream = TcpStream::connect(address)?;
    write!(
        stream,
        "POST /hooks/orders HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\ncontent-length: {}\r\n\
         idempotency-key: {id}\r\nwebhook-id: {id}\r\nwebhook-timestamp: {now}\r\nwebhook-signature: v1,{guess}\r\n\r\n{body}",
        body.len()
    )?;
    let mut response = String::new();
    stream.read_to_string(&mut response)?;
    Ok(())
}
