use clap::{Args, Parser};

use crate::arguments::Options;
use crate::commands::Command;

/// Look into an outbox, and operate it
#[derive(Debug, Parser)]
#[command(name = "outbox", version, after_help = AFTER_HELP)]
#[non_exhaustive]
pub struct Program {
    /// What was given.
    #[command(flatten)]
    pub arguments: Arguments,
}

const AFTER_HELP: &str = "Exit codes: 0 fine, 1 failed, 2 usage, 3 found something wrong, 4 cannot tell.";

/// The arguments of the command line: to be mounted as a subcommand, and [run](crate::run).
#[derive(Debug, Clone, Args)]
pub struct Arguments {
    // Boxed, so that an application's enum of subcommands stays small.
    #[command(flatten)]
    pub(crate) options: Box<Options>,
    #[command(subcommand)]
    pub(crate) command: Box<Command>,
}
