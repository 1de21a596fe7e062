//! The order chain on real servers, in several processes. `cargo xtask order-chain` builds and runs it.

use std::process::ExitCode;

use order_chain::Failure;
use order_chain::real;
use tracing_subscriber::EnvFilter;

#[tokio::main]
async fn main() -> Result<ExitCode, Failure> {
    // r2d2 notes each attempt to reach a server that a fault has killed.
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("error,r2d2=off"));
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).init();
    real::main().await
}
