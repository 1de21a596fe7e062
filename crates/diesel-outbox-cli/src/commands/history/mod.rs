//! Sent messages, of topics that keep them.

mod list;
mod resend;
mod show;

use clap::Subcommand;

use self::list::ListArgs;
use self::resend::ResendArgs;
use self::show::ShowArgs;
use crate::error::Error;
use crate::exit::Exit;
use crate::session::Session;

#[derive(Debug, Clone, Subcommand)]
pub(crate) enum HistoryCommand {
    /// List sent messages: those of a key, or those that no consumer has confirmed
    List(ListArgs),
    /// Show one with its payload
    Show(ShowArgs),
    /// Send messages again that no consumer has confirmed
    Resend(ResendArgs),
}

impl HistoryCommand {
    pub(crate) async fn run(&self, session: &Session) -> Result<Exit, Error> {
        match self {
            Self::List(args) => args.run(session).await,
            Self::Show(args) => args.run(session).await,
            Self::Resend(args) => args.run(session).await,
        }
    }
}

/// What to say where the history has nothing that matches.
async fn explain_nothing(topic: &str, session: &Session) -> Result<String, Error> {
    let nothing = format!("no sent message of topic {topic:?} matches");
    if session.admin.count_sent(topic, 1).await?.sent > 0 {
        return Ok(nothing);
    }
    Ok(format!(
        "{nothing}: its history is empty. Topics keep sent messages if they are configured to (Topic::keep_sent_days)"
    ))
}
