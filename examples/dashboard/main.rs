//! The dashboard, with traffic and failures to look at: an order shop on SQLite, and a Kafka inside this process (librdkafka's mock
//! cluster). Needs no server. It prints the address, and runs until Ctrl-C.
//!
//! ```sh
//! cargo run --example dashboard -- check
//! cargo run --example dashboard
//! ```
//!
//! With `check` it ends when every page was requested once.
//!
//! | file | copy it? |
//! |---|---|
//! | `main.rs` | how the dashboard is nested, and who may do what |
//! | `shop.rs` | no: an outbox, and orders that are delivered, delayed, refused and held |
//! | `check.rs` | no |
#![allow(clippy::print_stdout, reason = "it tells where the dashboard is")]

mod check;
mod shop;

use std::error::Error;

use axum::Router;
use diesel_outbox_web::{Access, Dashboard, Rights};
use tokio::net::TcpListener;

use self::shop::Shop;

type Failure = Box<dyn Error + Send + Sync>;

/// Where the dashboard is nested.
const AT: &str = "/outbox";

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let is_check = std::env::args().nth(1).as_deref() == Some("check");
    let folder = tempfile::tempdir()?;
    let shop = Shop::start(&folder.path().join("shop.db")).await?;
    // A port that is free, if the usual one is not.
    let listener = match TcpListener::bind(("127.0.0.1", 8090)).await {
        Ok(listener) if !is_check => listener,
        _ => TcpListener::bind(("127.0.0.1", 0)).await?,
    };
    let address = listener.local_addr()?;
    let origin = format!("http://{address}");
    // Whoever reaches this port may do everything, so no other name of it will do: hence the origin. In an application, read who it is
    // from what the login has put into the request's extensions.
    let dashboard = Dashboard::new(&shop.outbox, shop.store()?, |_| Some(Access::new("you", Rights::all())))
        .relay(shop.relay.handle())
        .origin(&origin);
    let app = Router::new().nest(AT, dashboard.router());
    let server = tokio::spawn(async move { axum::serve(listener, app).await });
    println!("The dashboard is at {origin}{AT} until Ctrl-C.");
    let traffic = tokio::spawn(shop.traffic());
    if is_check {
        check::every_page(address).await?;
    } else {
        tokio::signal::ctrl_c().await?;
    }
    traffic.abort();
    server.abort();
    shop.end().await;
    Ok(())
}
