//! The commands, a file or a folder for each family. A new one gets a variant of [`Command`], and a line here.

mod acts;
mod audit;
mod check;
mod completions;
mod dead;
mod history;
mod keys;
mod lanes;
mod live;
mod messages;
mod migrate;
mod parked;
mod pauses;
mod status;
mod support_bundle;
mod tail;
mod topics;
mod verify;
#[cfg(feature = "web")]
mod web;

use clap::Subcommand;
use diesel_outbox::TableNames;

use self::audit::AuditArgs;
use self::check::CheckArgs;
use self::completions::CompletionsArgs;
use self::dead::DeadCommand;
use self::history::HistoryCommand;
use self::keys::KeysArgs;
use self::lanes::LanesArgs;
use self::live::LiveCommand;
use self::migrate::MigrateCommand;
use self::parked::ParkedCommand;
use self::pauses::PauseArgs;
use self::support_bundle::SupportBundleArgs;
use self::tail::TailArgs;
use self::topics::TopicsArgs;
use self::verify::VerifyArgs;
#[cfg(feature = "web")]
use self::web::WebArgs;
use crate::application::Application;
use crate::arguments::Options;
use crate::error::Error;
use crate::exit::Exit;
use crate::session::Session;

/// A command.
#[derive(Debug, Clone, Subcommand)]
pub(crate) enum Command {
    /// Show what waits, which dead letters there are, and what is paused
    Status,
    /// Look for what is wrong; ends with 3 if something is, and with 4 if it could not look at everything
    Check(CheckArgs),
    /// List the topics, or show one
    Topics(TopicsArgs),
    /// Show who owns the lanes of ordered topics
    Lanes(LanesArgs),
    /// List the keys of an ordered topic that wait behind a failed message
    Keys(KeysArgs),
    /// Messages that are not sent yet
    #[command(subcommand)]
    Live(LiveCommand),
    /// Dead letters: messages that are not tried any more
    #[command(subcommand)]
    Dead(DeadCommand),
    /// Sent messages, of topics that keep them
    #[command(subcommand)]
    History(HistoryCommand),
    /// Records that consumers have parked
    #[command(subcommand)]
    Parked(ParkedCommand),
    /// Have every relay skip topics, until they are resumed
    Pause(PauseArgs),
    /// Have relays continue with paused topics
    Resume(PauseArgs),
    /// Compare the messages of a topic with the broker; ends with 3 if they differ, and with 4 if something cannot be told
    Verify(Box<VerifyArgs>),
    /// The outbox's tables
    #[command(subcommand)]
    Migrate(MigrateCommand),
    /// List who did what
    Audit(AuditArgs),
    /// Follow what happens: the backlog, new dead letters, pauses, and who does what
    Tail(TailArgs),
    /// Serve the dashboard, until Ctrl-C
    #[cfg(feature = "web")]
    Web(WebArgs),
    /// Write a file for a report of a problem: no payloads, keys, headers, error texts or passwords
    SupportBundle(SupportBundleArgs),
    /// Print the completions for a shell
    Completions(CompletionsArgs),
}

/// Runs a command.
pub(crate) async fn run(options: &Options, command: Command, application: Application) -> Result<Exit, Error> {
    match command {
        Command::Completions(args) => args.run(application),
        Command::Migrate(command) => command.run(options, &application).await,
        Command::Check(args) => args.run(&Session::open(options, &application)?).await,
        command => {
            let session = Session::open(options, &application)?;
            session.require_tables(&tables(&command, session.outbox.tables())).await?;
            run_on_tables(&session, command).await
        }
    }
}

/// The tables that a command needs.
fn tables(command: &Command, names: &TableNames) -> Vec<String> {
    let mut tables = vec![names.messages(), names.dead_letters()];
    match command {
        Command::History(_) => tables.extend([names.history(), names.processed_marks()]),
        Command::Lanes(_) | Command::Keys(_) => tables.extend([names.lanes(), names.nodes()]),
        // Of the tables of audit and pauses the library says what is missing; the other commands go without.
        _ => {}
    }
    tables
}

/// Runs a command for which the tables have to be there.
async fn run_on_tables(session: &Session, command: Command) -> Result<Exit, Error> {
    match command {
        Command::Status => status::run(session).await,
        Command::Topics(args) => args.run(session).await,
        Command::Lanes(args) => args.run(session).await,
        Command::Keys(args) => args.run(session).await,
        Command::Live(command) => command.run(session).await,
        Command::Dead(command) => command.run(session).await,
        Command::History(command) => command.run(session).await,
        Command::Parked(command) => command.run(session).await,
        Command::Pause(args) => args.pause(session).await,
        Command::Resume(args) => args.resume(session).await,
        Command::Verify(args) => args.run(session).await,
        Command::Audit(args) => args.run(session).await,
        Command::Tail(args) => args.run(session).await,
        #[cfg(feature = "web")]
        Command::Web(args) => args.run(session).await,
        Command::SupportBundle(args) => args.run(session).await,
        Command::Completions(_) | Command::Migrate(_) | Command::Check(_) => unreachable!("they need no tables"),
    }
}
