use clap::Args;
use diesel_outbox::admin::DeadLetter;
use serde::{Serialize, Serializer};

use crate::arguments::{DeadLetterArgs, Limit};
use crate::commands::messages::without_payload;
use crate::error::Error;
use crate::exit::Exit;
use crate::output::{Listing, Row, bytes, cut, instant, optional};
use crate::session::Session;

/// Dead letters that one call of the library returns: payloads come along, and may have a megabyte each.
pub(crate) const LETTERS_PER_PAGE: usize = 100;

/// Which dead letters are listed.
#[derive(Debug, Clone, Args)]
pub(crate) struct ListArgs {
    /// With payloads, in JSON
    #[arg(long)]
    payloads: bool,
    #[command(flatten)]
    limit: Limit,
    // Its heading stands above all that follows.
    #[command(flatten)]
    filter: DeadLetterArgs,
}

/// A dead letter of a list.
pub(crate) struct DeadRow {
    pub(crate) letter: DeadLetter,
    pub(crate) has_payload: bool,
}

impl Serialize for DeadRow {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.has_payload {
            true => self.letter.serialize(serializer),
            false => without_payload(&self.letter, self.letter.payload.as_deref(), serializer),
        }
    }
}

impl Row for DeadRow {
    const HEADINGS: &'static [&'static str] =
        &["id", "topic", "key", "kind", "bytes", "attempts", "dead since", "reason"];

    fn cells(&self) -> Vec<String> {
        let letter = &self.letter;
        vec![
            letter.message_id.to_string(),
            letter.topic.to_string(),
            optional(letter.key.as_deref()),
            letter.kind.clone(),
            bytes(letter.payload.as_deref()),
            letter.attempts.to_string(),
            instant(letter.dead_at),
            cut(&letter.reason),
        ]
    }
}

impl ListArgs {
    pub(super) async fn run(&self, session: &Session) -> Result<Exit, Error> {
        let filter = self.filter.filter(session.admin.now().await?);
        let (mut listing, mut after) = (Listing::new(session.output, self.limit.max()), None);
        loop {
            let wanted = listing.wanted(LETTERS_PER_PAGE);
            let page = session.admin.dead_letters(&filter, after.as_ref(), wanted).await?;
            let has_payload = self.payloads;
            listing.push(page.items.into_iter().map(|letter| DeadRow { letter, has_payload }))?;
            after = page.next;
            if after.is_none() || listing.is_full() {
                break;
            }
        }
        let nothing = match listing.is_empty() {
            true => session.explain_nothing("dead letter matches", self.filter.topic.as_deref()).await?,
            false => String::new(),
        };
        listing.finish(after.is_some(), &nothing)?;
        Ok(Exit::Fine)
    }
}
