//! The program `outbox`: the commands of [`diesel_outbox_cli`] for a database whose application need not be at hand.

use std::process::ExitCode;

use clap::Parser as _;
use diesel_outbox_cli::{Application, Program, run};

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    run(Program::parse().arguments, Application::unknown()).await
}
