//! A service in its own process that accepts everything and answers nothing but a status.

use std::io::{BufRead as _, BufReader};
use std::net::Ipv4Addr;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result};
use axum::Router;
use axum::body::Bytes;
use axum::http::StatusCode;
use axum::routing::post;
use tokio::net::TcpListener;

/// Set if this program is the server.
pub(crate) const SERVES: &str = "OUTBOX_BENCH_SERVES_HTTP";

pub(crate) struct Receiver {
    process: Child,
    address: String,
}

impl Receiver {
    pub(crate) fn start() -> Result<Self> {
        let mut process = Command::new(std::env::current_exe()?)
            .env(SERVES, "1")
            // It ends with us, however we end: it reads its input until that closes.
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let mut address = String::new();
        BufReader::new(process.stdout.take().context("its output")?).read_line(&mut address)?;
        Ok(Self { process, address: address.trim().to_owned() })
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/hooks", self.address)
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Serves until its standard input ends.
pub(crate) fn serve() -> Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let listener = runtime.block_on(TcpListener::bind((Ipv4Addr::LOCALHOST, 0)))?;
    println!("{}", listener.local_addr()?);
    let router = Router::new().route("/hooks", post(async |_body: Bytes| StatusCode::NO_CONTENT));
    runtime.spawn(async move { axum::serve(listener, router).await });
    std::io::stdin().lines().for_each(drop);
    Ok(())
}
