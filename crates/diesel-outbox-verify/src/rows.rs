//! Reads the tables: live rows, then dead letters, then the history. That is the way of a message, so one that is sent meanwhile is found
//! at its end.

use std::time::SystemTime;

use diesel_outbox::admin::{Admin, AdminError, Cursor, DeadLetterFilter, LiveFilter, SentMessage};
use diesel_outbox::store::{SchemaProblem, StoreError};

use crate::entry::Entry;
use crate::limits::{PAGE_BYTES, PAGE_ROWS_MAX, PAGE_ROWS_MIN};

/// The rows of a topic that were enqueued in a period.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rows<'a> {
    pub(crate) admin: &'a Admin,
    pub(crate) topic: &'a str,
    pub(crate) from: SystemTime,
    pub(crate) before: SystemTime,
}

/// Where the reading is: in a table, after a row.
#[derive(Debug)]
enum At {
    Live(Option<Cursor>),
    DeadLetters(Option<Cursor>),
    History(Option<Cursor>),
    End,
}

/// Reads the rows page by page.
#[derive(Debug)]
pub(crate) struct RowReader<'a> {
    rows: Rows<'a>,
    at: At,
    size: PageSize,
    /// Whether the table of the history is there.
    has_history: bool,
}

impl<'a> RowReader<'a> {
    pub(crate) fn new(rows: Rows<'a>, has_history: bool) -> Self {
        Self { rows, at: At::Live(None), size: PageSize::default(), has_history }
    }

    /// The next rows, perhaps none; `None` at the end.
    pub(crate) async fn next(&mut self) -> Result<Option<Vec<Entry>>, AdminError> {
        match std::mem::replace(&mut self.at, At::End) {
            At::Live(after) => self.live(after).await.map(Some),
            At::DeadLetters(after) => self.dead_letters(after).await.map(Some),
            At::History(after) if self.has_history => self.history(after).await.map(Some),
            At::History(_) | At::End => Ok(None),
        }
    }

    async fn live(&mut self, after: Option<Cursor>) -> Result<Vec<Entry>, AdminError> {
        let Rows { admin, topic, .. } = self.rows;
        let page = match admin.live_messages(&LiveFilter::of(topic), after.as_ref(), self.size.rows()).await {
            // The other tables have it.
            Err(AdminError::NoSuchTopic { .. }) => {
                self.at = At::DeadLetters(None);
                return Ok(Vec::new());
            }
            page => page?,
        };
        self.size.note(page.items.iter().map(|row| bytes_of(row.payload.as_ref(), &row.headers_json)));
        self.at = page.next.map_or(At::DeadLetters(None), |next| At::Live(Some(next)));
        Ok(page.items.iter().filter(|row| self.rows.has(row.created_at)).map(Entry::of_live).collect())
    }

    async fn dead_letters(&mut self, after: Option<Cursor>) -> Result<Vec<Entry>, AdminError> {
        let Rows { admin, topic, .. } = self.rows;
        let filter = DeadLetterFilter::new().topic(topic);
        let page = admin.dead_letters(&filter, after.as_ref(), self.size.rows()).await?;
        self.size.note(page.items.iter().map(|row| bytes_of(row.payload.as_ref(), &row.headers_json)));
        self.at = page.next.map_or(At::History(None), |next| At::DeadLetters(Some(next)));
        let rows = page.items.iter().filter(|row| self.rows.has(row.created_at));
        Ok(rows.map(Entry::of_dead_letter).collect())
    }

    async fn history(&mut self, after: Option<Cursor>) -> Result<Vec<Entry>, AdminError> {
        let (messages, next) = self.rows.sent(after, &mut self.size).await?;
        self.at = next.map_or(At::End, |next| At::History(Some(next)));
        Ok(messages.iter().map(Entry::of_sent).collect())
    }
}

impl Rows<'_> {
    fn has(&self, created_at: SystemTime) -> bool {
        (self.from..self.before).contains(&created_at)
    }

    /// Whether the history has any message of the topic.
    pub(crate) async fn has_history(&self) -> Result<bool, AdminError> {
        // A name that no topic has may not even be comparable with the column.
        if !self.topic.is_ascii() || self.topic.contains('\0') {
            return Ok(false);
        }
        Ok(if_migrated(self.admin.count_sent(self.topic, 1).await)?.is_some_and(|counted| counted.sent > 0))
    }

    /// A page of the history.
    pub(crate) async fn sent(
        &self,
        after: Option<Cursor>,
        size: &mut PageSize,
    ) -> Result<(Vec<SentMessage>, Option<Cursor>), AdminError> {
        let Self { admin, topic, from, before } = *self;
        let page = admin.sent_of_topic(topic, from, before, after.as_ref(), size.rows()).await?;
        size.note(page.items.iter().map(|row| bytes_of(row.payload.as_ref(), &row.headers_json)));
        Ok((page.items, page.next))
    }
}

/// What was read, or `None` if a migration creates its table that was not run.
pub(crate) fn if_migrated<T>(read: Result<T, AdminError>) -> Result<Option<T>, AdminError> {
    match read {
        Ok(value) => Ok(Some(value)),
        Err(AdminError::Store(StoreError::Schema(
            SchemaProblem::Missing { .. } | SchemaProblem::NotMigrated { .. },
        ))) => Ok(None),
        Err(error) => Err(error),
    }
}

/// How many rows the next page has: the larger those of the last one were, the fewer.
#[derive(Debug, Default)]
pub(crate) struct PageSize {
    row_bytes_max: usize,
}

impl PageSize {
    fn rows(&self) -> usize {
        match self.row_bytes_max {
            // Nothing is known of the rows yet.
            0 => PAGE_ROWS_MIN,
            bytes => (PAGE_BYTES / bytes).clamp(PAGE_ROWS_MIN, PAGE_ROWS_MAX),
        }
    }

    /// Half of what a larger row has taught is forgotten with each page, so that one of a megabyte does not slow down all others.
    fn note(&mut self, bytes: impl Iterator<Item = usize>) {
        self.row_bytes_max = bytes.max().unwrap_or_default().max(self.row_bytes_max / 2).max(1);
    }
}

fn bytes_of(payload: Option<&Vec<u8>>, headers: &str) -> usize {
    payload.map_or(0, Vec::len) + headers.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_of_large_rows_has_few() {
        let mut size = PageSize::default();
        assert_eq!(size.rows(), PAGE_ROWS_MIN, "the first page finds out how large they are");
        size.note([100, 200].into_iter());
        assert_eq!(size.rows(), PAGE_ROWS_MAX);
        size.note([100, 1 << 20].into_iter());
        assert_eq!(size.rows(), PAGE_ROWS_MIN);
        size.note([100].into_iter());
        assert_eq!(size.rows(), 8, "the next one may be as large");
        (0..10).for_each(|_| size.note([100].into_iter()));
        assert_eq!(size.rows(), PAGE_ROWS_MAX);
    }
}
