use clap::{ArgGroup, Args};
use diesel_outbox::admin::{Cursor, Page, SentMessage};
use serde::{Serialize, Serializer};

use super::explain_nothing;
use crate::arguments::{Limit, UnprocessedArgs};
use crate::commands::messages::without_payload;
use crate::error::Error;
use crate::exit::Exit;
use crate::output::{Listing, Row, bytes, instant, optional};
use crate::session::Session;

/// Messages that one call of the library returns: payloads come along, and may have a megabyte each.
const MESSAGES_PER_PAGE: usize = 100;

/// Which sent messages are listed.
#[derive(Debug, Clone, Args)]
#[command(group(ArgGroup::new("which").required(true).args(["key", "unprocessed"])))]
pub(crate) struct ListArgs {
    /// The topic
    #[arg(long)]
    topic: String,
    /// Those of this key
    #[arg(long)]
    key: Option<String>,
    /// Those that their consumer should have confirmed by now
    #[arg(long)]
    unprocessed: bool,
    #[command(flatten)]
    age: UnprocessedArgs,
    /// With payloads, in JSON
    #[arg(long)]
    payloads: bool,
    #[command(flatten)]
    limit: Limit,
}

struct SentRow {
    message: SentMessage,
    has_payload: bool,
}

impl Serialize for SentRow {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.has_payload {
            true => self.message.serialize(serializer),
            false => without_payload(&self.message, self.message.payload.as_deref(), serializer),
        }
    }
}

impl Row for SentRow {
    const HEADINGS: &'static [&'static str] = &["id", "topic", "key", "kind", "bytes", "sent", "processed"];

    fn cells(&self) -> Vec<String> {
        let message = &self.message;
        vec![
            message.message_id.to_string(),
            message.topic.to_string(),
            optional(message.key.as_deref()),
            message.kind.clone(),
            bytes(message.payload.as_deref()),
            instant(message.sent_at),
            processed(message),
        ]
    }
}

/// When its consumer has confirmed it, or whether one is to.
pub(super) fn processed(message: &SentMessage) -> String {
    match (message.processed_at, message.awaits_processing) {
        (Some(at), _) => instant(at),
        (None, true) => "no".to_owned(),
        (None, false) => "-".to_owned(),
    }
}

impl ListArgs {
    pub(super) async fn run(&self, session: &Session) -> Result<Exit, Error> {
        let (mut listing, mut after) = (Listing::new(session.output, self.limit.max()), None);
        loop {
            let page = self.page(session, after.as_ref(), listing.wanted(MESSAGES_PER_PAGE)).await?;
            let has_payload = self.payloads;
            listing.push(page.items.into_iter().map(|message| SentRow { message, has_payload }))?;
            after = page.next;
            if after.is_none() || listing.is_full() {
                break;
            }
        }
        let nothing = match listing.is_empty() {
            true => explain_nothing(&self.topic, session).await?,
            false => String::new(),
        };
        listing.finish(after.is_some(), &nothing)?;
        Ok(Exit::Fine)
    }

    async fn page(&self, session: &Session, after: Option<&Cursor>, max: usize) -> Result<Page<SentMessage>, Error> {
        Ok(match &self.key {
            Some(key) => session.admin.sent_of_key(&self.topic, key, after, max).await?,
            None => session.admin.unprocessed(&self.age.filter(&self.topic), after, max).await?,
        })
    }
}
