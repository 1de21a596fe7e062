//! Dead letters.

mod canary;
mod edit;
mod edited;
mod list;
mod purge;
mod redrive;
mod show;

use clap::Subcommand;
use diesel_outbox::MessageId;

use self::edit::EditArgs;
use self::list::ListArgs;
pub(crate) use self::list::{DeadRow, LETTERS_PER_PAGE};
use self::purge::PurgeArgs;
use self::redrive::RedriveArgs;
use self::show::ShowArgs;
use crate::arguments::DeadLetterArgs;
use crate::error::Error;
use crate::exit::Exit;
use crate::session::Session;

/// How many dead letters a question or a dry run counts: a person acts no differently on more.
const COUNTED_MAX: usize = 100_000;

#[derive(Debug, Clone, Subcommand)]
pub(crate) enum DeadCommand {
    /// List dead letters
    List(ListArgs),
    /// Show one with its payload and its failures
    Show(ShowArgs),
    /// Send dead letters again: some by their ids, many by a filter, or a few first and then the rest
    Redrive(RedriveArgs),
    /// Replace one with a corrected message, which is sent under a new id
    Edit(EditArgs),
    /// Delete dead letters for good
    Purge(PurgeArgs),
}

impl DeadCommand {
    pub(crate) async fn run(&self, session: &Session) -> Result<Exit, Error> {
        match self {
            Self::List(args) => args.run(session).await,
            Self::Show(args) => args.run(session).await,
            Self::Redrive(args) => args.run(session).await,
            Self::Edit(args) => args.run(session).await,
            Self::Purge(args) => args.run(session).await,
        }
    }
}

/// What a command selects: ids, or a filter.
enum Selection<'a> {
    Ids(&'a [MessageId]),
    Filter,
}

/// Refuses a selection that may have been forgotten, or is two.
fn selection<'a>(ids: &'a [MessageId], filter: &DeadLetterArgs, all: bool) -> Result<Selection<'a>, Error> {
    match (ids, filter.is_empty()) {
        ([], true) if !all => Err(Error::usage("give message ids, or a filter, or --all for every dead letter")),
        ([], _) => Ok(Selection::Filter),
        (_, true) if !all => Ok(Selection::Ids(ids)),
        (_, _) => Err(Error::usage("give message ids, or a filter, not both")),
    }
}
