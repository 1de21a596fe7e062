use clap::Args;
use diesel_outbox::admin::BlockedKey;
use serde::{Serialize, Serializer};
use serde_json::json;

use super::messages::without_payload;
use crate::arguments::Limit;
use crate::error::Error;
use crate::exit::Exit;
use crate::output::{Listing, Row, cut, optional};
use crate::session::Session;

/// Keys that one call of the library looks for.
const KEYS_PER_PAGE: usize = 50;

/// Which blocked keys are listed.
#[derive(Debug, Clone, Args)]
pub(crate) struct KeysArgs {
    /// The ordered topic
    topic: String,
    #[command(flatten)]
    limit: Limit,
}

struct KeyRow(BlockedKey);

impl Serialize for KeyRow {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let BlockedKey { head, behind, .. } = &self.0;
        let head = without_payload(head, head.payload.as_deref(), serde_json::value::Serializer);
        let head = head.map_err(serde::ser::Error::custom)?;
        json!({ "key": self.0.head.key, "behind": behind, "head": head }).serialize(serializer)
    }
}

impl Row for KeyRow {
    const HEADINGS: &'static [&'static str] =
        &["key", "lane", "blocked by", "attempts", "failures", "behind", "last error"];

    fn cells(&self) -> Vec<String> {
        let BlockedKey { head, behind, .. } = &self.0;
        vec![
            optional(head.key.as_deref()),
            optional(head.lane),
            head.message_id.to_string(),
            head.attempts.to_string(),
            head.failures.to_string(),
            behind.to_string(),
            optional(head.last_error().map(|note| cut(&format!("{}: {}", note.class, note.error)))),
        ]
    }
}

impl KeysArgs {
    pub(crate) async fn run(&self, session: &Session) -> Result<Exit, Error> {
        let (mut listing, mut after) = (Listing::new(session.output, self.limit.max()), None);
        loop {
            let wanted = listing.wanted(KEYS_PER_PAGE);
            let page = session.admin.blocked_keys(&self.topic, after.as_ref(), wanted).await?;
            listing.push(page.items.into_iter().map(KeyRow))?;
            after = page.next;
            if after.is_none() || listing.is_full() {
                break;
            }
        }
        listing.finish(after.is_some(), &format!("no key of topic {:?} is blocked", self.topic))?;
        Ok(Exit::Fine)
    }
}
