//! Messages that are not sent yet.

mod act;
mod list;
mod show;

use clap::Subcommand;

use self::act::MessagesArgs;
use self::list::ListArgs;
use self::show::ShowArgs;
use crate::error::Error;
use crate::exit::Exit;
use crate::session::Session;

#[derive(Debug, Clone, Subcommand)]
pub(crate) enum LiveCommand {
    /// List live messages
    List(ListArgs),
    /// Show one with its payload and its failures
    Show(ShowArgs),
    /// Send messages now that wait for their delivery time or their next attempt
    SendNow(MessagesArgs),
    /// Remove messages that no relay holds, so that they are not sent
    Cancel(MessagesArgs),
}

impl LiveCommand {
    pub(crate) async fn run(&self, session: &Session) -> Result<Exit, Error> {
        match self {
            Self::List(args) => args.run(session).await,
            Self::Show(args) => args.run(session).await,
            Self::SendNow(args) => args.send_now(session).await,
            Self::Cancel(args) => args.cancel(session).await,
        }
    }
}
