//! Live messages, as people read them.

use std::sync::Arc;
use std::time::SystemTime;

use super::SqlStore;
use super::database::Database;
use super::dialect::{Bind, BindOf, Statement, count};
use super::live_rows::{IdStep, LiveCountRow, NeighbourRow};
use super::live_search::LiveSearch;
use super::rows::{FromRow, Read};
use crate::limits::LIVE_ROWS_READ_MAX;
use crate::message::MessageId;
use crate::store::pool::ConnectionPool;
use crate::store::{
    KeyInLane, KeyNeighbours, LiveConditions, LiveCount, LiveMessage, LivePosition, LiveScan, LiveScanEnd, StoreError,
};

impl<DB: Database, P: ConnectionPool<DB>> SqlStore<DB, P> {
    pub(crate) async fn read_live_messages(
        &self,
        scan: &LiveScan,
        conditions: &LiveConditions,
        rows_max: usize,
    ) -> Result<Vec<LiveMessage>, StoreError> {
        let (sql, mut found) = (&self.sql.live_pages, Vec::new());
        for mut search in LiveSearch::<DB>::of(sql, scan) {
            search.push_conditions(sql, conditions);
            let part: Vec<LiveMessage> = self.ordered(search.rows(sql, rows_max - found.len())).await?;
            found.extend(part);
            if found.len() >= rows_max {
                break;
            }
        }
        Ok(found)
    }

    pub(crate) async fn find_scan_end(
        &self,
        scan: &LiveScan,
        rows_max: usize,
    ) -> Result<Option<LiveScanEnd>, StoreError> {
        let sql = &self.sql.live_pages;
        let (mut rows, mut last) = (0, None);
        for search in LiveSearch::<DB>::of(sql, scan) {
            let ends: Vec<LiveScanEnd> = self.ordered(search.end(sql, rows_max - rows)).await?;
            for end in ends {
                rows += end.rows;
                last = Some(LivePosition { lane: scan.range.lane_column(), ..end.last });
            }
            if rows >= rows_max {
                break;
            }
        }
        Ok(last.map(|last| LiveScanEnd { rows, last }))
    }

    pub(crate) async fn find_live_message(&self, message: MessageId) -> Result<Option<LiveMessage>, StoreError> {
        match self.row_id(message).await? {
            Some(id) => self.read_live_row(id, message).await,
            None => Ok(None),
        }
    }

    pub(crate) async fn read_live_row(&self, id: i64, message: MessageId) -> Result<Option<LiveMessage>, StoreError> {
        let binds = [Bind::Number(id), DB::id(message.as_uuid())];
        Ok(self.ordered(Statement::new(&self.sql.live_pages.one, binds)).await?.into_iter().next())
    }

    /// The row id of a live message.
    pub(crate) async fn row_id(&self, message: MessageId) -> Result<Option<i64>, StoreError> {
        Ok(self.search_row_id(message, None, usize::MAX).await?.0)
    }

    /// The row id of a live message, or after which row to go on. Without an index on message ids, the table is read in steps by row id:
    /// one statement for all of it would hold back the cleaning of the table until its end.
    pub(crate) async fn search_row_id(
        &self,
        message: MessageId,
        after: Option<i64>,
        rows_max: usize,
    ) -> Result<(Option<i64>, Option<i64>), StoreError> {
        let (sql, id) = (&self.sql.live_pages, || DB::id(message.as_uuid()));
        let indexed: Vec<i64> = self.ordered(Statement::new(&sql.indexed_id, [id()])).await?;
        if !indexed.is_empty() || sql.id_step.steps().is_empty() {
            return Ok((indexed.into_iter().next(), None));
        }
        let (mut after, mut read) = (after.unwrap_or(i64::MIN), 0);
        while read < rows_max {
            let binds: Vec<BindOf<DB>> = vec![id(), Bind::Number(after), Bind::limit(LIVE_ROWS_READ_MAX)];
            let step: Vec<IdStep> = self.ordered(Statement::new(&sql.id_step, binds)).await?;
            match step.into_iter().next() {
                Some(IdStep { found: Some(found), .. }) => return Ok((Some(found), None)),
                Some(IdStep { last: Some(last), found: None }) => after = last,
                Some(IdStep { last: None, found: None }) | None => return Ok((None, None)),
            }
            read += LIVE_ROWS_READ_MAX;
        }
        Ok((None, Some(after)))
    }

    pub(crate) async fn find_next_lane(&self, topic: &Arc<str>, from: u16) -> Result<Option<u16>, StoreError> {
        let binds = [Bind::text(topic), Bind::Number(from.into())];
        let found: Vec<i64> = self.ordered(Statement::new(&self.sql.lanes.first_from, binds)).await?;
        Ok(found.into_iter().next().and_then(|lane| u16::try_from(lane).ok()))
    }

    pub(crate) async fn read_key_neighbours(
        &self,
        row: &KeyInLane,
        rows_max: usize,
    ) -> Result<KeyNeighbours, StoreError> {
        let binds: Vec<BindOf<DB>> = vec![
            Bind::text(&row.topic),
            Bind::Number(row.lane.into()),
            Bind::text(&row.key),
            Bind::Number(row.id),
            Bind::limit(rows_max),
        ];
        let found: Vec<NeighbourRow> = self.ordered(Statement::new(&self.sql.live_pages.key_neighbours, binds)).await?;
        let nothing = KeyNeighbours { failed_before: false, behind: 0, more: false };
        Ok(found.into_iter().next().map_or(nothing, |found| found.of(rows_max)))
    }

    pub(crate) async fn read_live_count(&self, topic: &Arc<str>, count_max: usize) -> Result<LiveCount, StoreError> {
        let statement = Statement::new(&self.sql.live_pages.count, [Bind::text(topic), Bind::limit(count_max)]);
        let counted: Vec<LiveCountRow> = self.ordered(statement).await?;
        Ok(counted.into_iter().next().unwrap_or_default().of(count_max))
    }

    pub(crate) async fn read_due_count(
        &self,
        topic: &Arc<str>,
        from: SystemTime,
        before: SystemTime,
        count_max: usize,
    ) -> Result<usize, StoreError> {
        let binds = [Bind::text(topic), DB::instant_bind(from), DB::instant_bind(before), Bind::limit(count_max)];
        let counted: Vec<i64> = self.ordered(Statement::new(&self.sql.live_pages.count_due, binds)).await?;
        Ok(count(counted.into_iter().next().unwrap_or_default()))
    }

    /// One statement per topic, each of which finds the next in the index: DISTINCT would read all of it.
    pub(crate) async fn read_live_topics(&self, topics_max: usize) -> Result<Vec<Arc<str>>, StoreError> {
        let mut topics: Vec<Arc<str>> = Vec::new();
        while topics.len() < topics_max {
            // Sorts before every topic: no topic is empty.
            let last = topics.last().cloned().unwrap_or_else(|| "".into());
            let statement = Statement::new(&self.sql.live_pages.next_topic, [Bind::text(&last)]);
            let next: Vec<String> = self.ordered(statement).await?;
            match next.into_iter().next() {
                Some(topic) => topics.push(topic.into()),
                None => break,
            }
        }
        Ok(topics)
    }

    /// Reads rows in the order of an index.
    pub(super) async fn ordered<T: FromRow + Send + 'static>(
        &self,
        statement: Statement<DB>,
    ) -> Result<Vec<T>, StoreError> {
        let rows: Result<Vec<Read<T>>, _> = match DB::begin_ordered(self) {
            None => self.executor.load(statement).await,
            Some(begin) => {
                let read = self.executor.run(|conn| {
                    Box::pin(async move {
                        conn.begin(begin).await?;
                        let rows = conn.load(statement).await?;
                        conn.commit().await?;
                        Ok(rows)
                    })
                });
                read.await
            }
        };
        Ok(rows?.into_iter().map(|row| row.0).collect())
    }
}
