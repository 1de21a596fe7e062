use clap::Args;
use diesel_outbox::MessageId;
use diesel_outbox::admin::{AuditEntry, AuditFilter};
use serde::Serialize;

use crate::arguments::{Limit, When};
use crate::error::Error;
use crate::exit::Exit;
use crate::output::{Listing, Row, cut, instant, optional};
use crate::session::Session;

/// Entries that one statement reads.
const ENTRIES_PER_PAGE: usize = 500;

/// Which entries of the audit are listed, the latest first.
#[derive(Debug, Clone, Args)]
pub(crate) struct AuditArgs {
    /// Of this actor; `--actor` is the one who asks
    #[arg(long, value_name = "ACTOR")]
    by: Option<String>,
    /// Of this action, such as `redrive_all` or `purge`
    #[arg(long)]
    action: Option<String>,
    /// Of this message alone
    #[arg(long, value_name = "ID")]
    message: Option<MessageId>,
    /// Begun since: so long ago, such as 90m, or at a time
    #[arg(long, value_name = "WHEN")]
    since: Option<When>,
    /// Begun before: so long ago, or at a time
    #[arg(long, value_name = "WHEN")]
    before: Option<When>,
    #[command(flatten)]
    limit: Limit,
}

/// An entry of the audit.
#[derive(Debug, Serialize)]
#[serde(transparent)]
pub(crate) struct AuditRow(pub(crate) AuditEntry);

impl Row for AuditRow {
    const HEADINGS: &'static [&'static str] = &["began", "ended", "actor", "action", "changed", "of", "reason"];

    fn cells(&self) -> Vec<String> {
        let AuditEntry { began_at, ended_at, actor, action, message_id, filter, reason, changed, .. } = &self.0;
        let of = message_id.map(|id| id.to_string()).or_else(|| filter.as_deref().map(compact));
        vec![
            instant(*began_at),
            ended_at.map_or_else(|| "not ended".to_owned(), instant),
            optional(actor.as_deref()),
            action.clone(),
            changed.to_string(),
            optional(of.as_deref().map(cut)),
            optional(reason.as_deref().map(cut)),
        ]
    }
}

/// JSON in the same form from every database.
pub(super) fn compact(json: &str) -> String {
    serde_json::from_str(json).map_or_else(|_| json.to_owned(), |value: serde_json::Value| value.to_string())
}

impl AuditArgs {
    pub(crate) async fn run(&self, session: &Session) -> Result<Exit, Error> {
        let now = session.admin.now().await?;
        let mut filter = AuditFilter::new();
        if let Some(actor) = &self.by {
            filter = filter.actor(actor.as_str());
        }
        if let Some(action) = &self.action {
            filter = filter.action(action.as_str());
        }
        if let Some(message) = self.message {
            filter = filter.message_id(message);
        }
        if let Some(since) = self.since {
            filter = filter.began_from(since.at(now));
        }
        if let Some(before) = self.before {
            filter = filter.began_before(before.at(now));
        }
        let (mut listing, mut after) = (Listing::new(session.output, self.limit.max()), None);
        loop {
            let wanted = listing.wanted(ENTRIES_PER_PAGE);
            let page = session.admin.audit(&filter, after.as_ref(), wanted).await?;
            listing.push(page.items.into_iter().map(AuditRow))?;
            after = page.next;
            if after.is_none() || listing.is_full() {
                break;
            }
        }
        listing.finish(after.is_some(), "no entry of the audit matches")?;
        Ok(Exit::Fine)
    }
}
