//! The command line of [`diesel_outbox`]: what waits in an outbox, which dead letters there are and why, and what to do about it.
//!
//! The program `outbox` knows the tables only. Mounted in an application, the same commands know its topics, the lanes of its ordered
//! topics, and the types that decode payloads:
//!
//! ```no_run
//! use std::process::ExitCode;
//!
//! use clap::{CommandFactory, Parser, Subcommand};
//! use diesel_outbox::{Outbox, Topic};
//! use diesel_outbox_cli::Application;
//!
//! #[derive(Parser)]
//! struct Shop {
//!     #[command(subcommand)]
//!     command: Command,
//! }
//!
//! #[derive(Subcommand)]
//! enum Command {
//!     /// Serve requests
//!     Serve,
//!     /// Operate the outbox
//!     Outbox(diesel_outbox_cli::Arguments),
//! }
//!
//! # async fn serve() -> ExitCode { ExitCode::SUCCESS }
//! async fn shop(outbox: &Outbox) -> ExitCode {
//!     match Shop::parse().command {
//!         Command::Serve => serve().await,
//!         Command::Outbox(arguments) => {
//!             diesel_outbox_cli::run(arguments, Application::new(outbox).command(Shop::command())).await
//!         }
//!     }
//! }
//! ```
//!
//! # Output
//!
//! The answer goes to standard output: a table, or with `--output json` one JSON document, or with `--output jsonl` one JSON document per
//! line. Everything else goes to standard error: notes, questions, progress, errors.
//!
//! # Exit codes
//!
//! | code | meaning |
//! |---|---|
//! | 0 | it is done, or nothing is wrong |
//! | 1 | it failed: the database refused, a message is not there, or somebody answered no |
//! | 2 | the arguments are wrong, or `--yes` is missing |
//! | 3 | `check`, `migrate check`, `verify` or a canary redrive found something wrong |
//! | 4 | `check` or `verify` found nothing wrong, but could not look at everything |
#![forbid(unsafe_code)]

#[cfg(not(any(feature = "postgres", feature = "mysql", feature = "sqlite")))]
compile_error!("diesel-outbox-cli needs a database: enable its feature postgres, mysql or sqlite");

mod address;
mod application;
mod arguments;
mod commands;
mod confirm;
mod connect;
mod error;
mod exit;
mod output;
mod program;
mod progress;
mod report;
mod session;

pub use application::Application;
pub use program::{Arguments, Program};

use std::process::ExitCode;

use clap::CommandFactory as _;

use self::report::report;

/// Runs a command, and reports its errors on standard error. Returns the exit code.
///
/// It opens a connection of its own to the database of `--database-url` or `DATABASE_URL`, unless the application
/// [gives one](Application::admin).
///
/// ```
/// use clap::Parser;
/// use diesel_outbox_cli::{Application, Program, run};
///
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// let program = Program::try_parse_from(["outbox", "migrate", "sql", "--database-url", "sqlite:shop.db", "0000outbox06_audit"])?;
/// let code = run(program.arguments, Application::unknown()).await;
/// # assert_eq!(code, std::process::ExitCode::SUCCESS);
/// # Ok::<_, clap::Error>(())
/// # }).unwrap();
/// ```
pub async fn run(arguments: Arguments, application: Application) -> ExitCode {
    let Arguments { options, command } = arguments;
    let application = application.or_command(Program::command);
    match Box::pin(commands::run(&options, *command, application)).await {
        Ok(exit) => exit.into(),
        Err(error) => report(&error, &options).into(),
    }
}
