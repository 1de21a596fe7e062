//! Looks candidates up again, by message id: messages move between tables while these are read.

use std::collections::HashSet;
use std::time::SystemTime;

use diesel_outbox::MessageId;
use diesel_outbox::admin::{Admin, AdminError, LiveFilter};

use crate::content::Content;
use crate::entry::{Entry, Millis, Origin};
use crate::finding::{RowPlace, Table};
use crate::limits::PAGE_ROWS_MAX;
use crate::rows::if_migrated;

/// A row as it is now.
#[derive(Debug)]
pub(crate) struct FoundRow {
    pub(crate) place: RowPlace,
    pub(crate) content: Content,
    pub(crate) key: Option<String>,
    pub(crate) is_requeued: bool,
}

/// Finds rows of a topic.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Lookup<'a> {
    pub(crate) admin: &'a Admin,
    pub(crate) topic: &'a str,
}

impl Lookup<'_> {
    pub(crate) async fn sent(&self, message_id: MessageId) -> Result<Option<FoundRow>, AdminError> {
        let row = match if_migrated(self.admin.sent(message_id).await) {
            Ok(Some(row)) => row,
            Ok(None) | Err(AdminError::NotInHistory { .. }) => return Ok(None),
            Err(error) => return Err(error),
        };
        let content = Content::of_row(row.key.as_deref(), &row.kind, &row.headers_json, row.payload.as_deref());
        let place = RowPlace {
            table: Table::History,
            row_id: Some(row.id),
            message_id,
            created_at: row.created_at,
            deliver_at: row.deliver_at,
            sent_at: Some(row.sent_at),
        };
        Ok(Some(FoundRow { place, content, key: row.key, is_requeued: row.is_requeued }))
    }

    async fn dead_letter(&self, message_id: MessageId) -> Result<Option<FoundRow>, AdminError> {
        let row = match self.admin.dead_letter(message_id).await {
            Ok(row) => row,
            Err(AdminError::NotDeadLetter { .. }) => return Ok(None),
            Err(error) => return Err(error),
        };
        let content = Content::of_row(row.key.as_deref(), &row.kind, &row.headers_json, row.payload.as_deref());
        let place = RowPlace {
            table: Table::DeadLetters,
            row_id: None,
            message_id,
            created_at: row.created_at,
            deliver_at: None,
            sent_at: None,
        };
        Ok(Some(FoundRow { place, content, key: row.key, is_requeued: false }))
    }

    async fn live(&self, row_id: i64, message_id: MessageId) -> Result<Option<FoundRow>, AdminError> {
        let row = match self.admin.live_message_in_row(row_id, message_id).await {
            Ok(row) => row,
            Err(AdminError::NotLive { .. }) => return Ok(None),
            Err(error) => return Err(error),
        };
        let content = Content::of_row(row.key.as_deref(), &row.kind, &row.headers_json, row.payload.as_deref());
        let place = RowPlace {
            table: Table::Live,
            row_id: Some(row_id),
            message_id,
            created_at: row.created_at,
            deliver_at: row.deliver_at,
            sent_at: None,
        };
        Ok(Some(FoundRow { place, content, key: row.key, is_requeued: false }))
    }

    /// The row where it was, or where it went from there. `None` if it has moved on once more, so that nothing can be said of it.
    pub(crate) async fn row(&self, row: &Entry) -> Result<Option<FoundRow>, AdminError> {
        let message_id = row.message_id();
        if row.origin == Origin::Live
            && let Some(found) = self.live(row.position, message_id).await?
        {
            return Ok(Some(found));
        }
        match self.sent(message_id).await? {
            Some(found) => Ok(Some(found)),
            None => self.dead_letter(message_id).await,
        }
    }

    /// Those of the records of which no table has the message. The table of live messages has no index by message id on every
    /// database, so it is read once for all of them, and the others before and after it.
    pub(crate) async fn without_row(&self, records: Vec<Entry>) -> Result<Vec<Entry>, AdminError> {
        let records = self.without_settled(records).await?;
        if records.is_empty() {
            return Ok(records);
        }
        let mut left: HashSet<MessageId> = records.iter().map(Entry::message_id).collect();
        let (filter, mut after) = (LiveFilter::of(self.topic), None);
        while !left.is_empty() {
            let page = match self.admin.live_messages(&filter, after.as_ref(), PAGE_ROWS_MAX).await {
                Err(AdminError::NoSuchTopic { .. }) => break,
                page => page?,
            };
            for row in &page.items {
                left.remove(&row.message_id);
            }
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        self.without_settled(records.into_iter().filter(|record| left.contains(&record.message_id())).collect()).await
    }

    async fn without_settled(&self, records: Vec<Entry>) -> Result<Vec<Entry>, AdminError> {
        let mut without = Vec::with_capacity(records.len());
        for record in records {
            let message_id = record.message_id();
            if self.sent(message_id).await?.is_none() && self.dead_letter(message_id).await?.is_none() {
                without.push(record);
            }
        }
        Ok(without)
    }
}

/// What is known of a row that was not looked up again.
pub(crate) fn place_of(row: &Entry) -> RowPlace {
    let (table, row_id) = match row.origin {
        Origin::DeadLetters => (Table::DeadLetters, None),
        Origin::Live => (Table::Live, Some(row.position)),
        Origin::History | Origin::Topic => (Table::History, Some(row.position)),
    };
    RowPlace {
        table,
        row_id,
        message_id: row.message_id(),
        created_at: instant(row.created_at),
        deliver_at: row.deliver_at.at(),
        sent_at: (table == Table::History).then(|| instant(row.at)),
    }
}

pub(crate) fn instant(at: Millis) -> SystemTime {
    at.at().unwrap_or(SystemTime::UNIX_EPOCH)
}
