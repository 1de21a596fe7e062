use std::sync::Arc;
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use diesel::deserialize::QueryableByName;
use diesel::pg::Pg;

use super::PostgresStore;
use super::admin_rows::CancelRow;
use super::admin_texts::{LETTERS, MARKS};
use super::bind::Bind;
use super::rows::timestamp;
use crate::clock::millis;
use crate::lane::lane_column;
use crate::message::{Envelope, MessageId};
use crate::store::admin_rows::{CountRow, InstantRow, KeyedRow, LetterRow, MarkRow, MessageIdRow, PausedRow};
use crate::store::dead_search::{Search, SearchDialect};
use crate::store::pause_table::wanted;
use crate::store::schema::IndexNaming;
use crate::store::session::Sessions;
use crate::store::statement::Statement;
use crate::store::{
    AdminStore, Cancellation, DeadCount, DeadFilter, DeadLetter, DeadMark, Hastening, Keyed, PausedTopic, Return,
    StoreError,
};

#[async_trait]
impl<P: Sessions<Pg>> AdminStore for PostgresStore<P> {
    async fn cancel(&self, message: MessageId) -> Result<Cancellation, StoreError> {
        let statement = Statement::new(&self.admin_texts.cancel, [Bind::message_id(message)]);
        let rows: Vec<CancelRow> = self.connections.load(statement).await?;
        Ok(match rows.into_iter().next() {
            Some(CancelRow { topic: Some(topic), .. }) => Cancellation::Cancelled { topic },
            Some(CancelRow { was_there: true, .. }) => Cancellation::Taken,
            _ => Cancellation::NotThere,
        })
    }

    async fn send_now(&self, message: MessageId, lease: Duration) -> Result<Hastening, StoreError> {
        let binds = [Bind::message_id(message), Bind::BigInt(millis(lease))];
        let rows: Vec<CancelRow> = self.connections.load(Statement::new(&self.admin_texts.send_now, binds)).await?;
        Ok(match rows.into_iter().next() {
            Some(CancelRow { topic: Some(_), .. }) => Hastening::Due,
            Some(CancelRow { was_there: true, .. }) => Hastening::Soon,
            _ => Hastening::NotThere,
        })
    }

    async fn dead_letters(
        &self,
        filter: &DeadFilter,
        after: Option<&DeadMark>,
        rows_max: usize,
    ) -> Result<Vec<DeadLetter>, StoreError> {
        let rows: Vec<LetterRow> = self.find(LETTERS, Search::new(filter, after), rows_max).await?;
        Ok(rows.into_iter().map(|row| row.0).collect())
    }

    async fn dead_marks(
        &self,
        filter: &DeadFilter,
        after: Option<&DeadMark>,
        rows_max: usize,
    ) -> Result<Vec<DeadMark>, StoreError> {
        let rows: Vec<MarkRow> = self.find(MARKS, Search::new(filter, after), rows_max).await?;
        Ok(rows.into_iter().map(|row| row.0).collect())
    }

    async fn dead_letter(&self, message: MessageId) -> Result<Option<DeadLetter>, StoreError> {
        let rows: Vec<LetterRow> = self.find(LETTERS, Search::one(message), 1).await?;
        Ok(rows.into_iter().next().map(|row| row.0))
    }

    async fn now(&self) -> Result<SystemTime, StoreError> {
        let rows: Vec<InstantRow> =
            self.connections.load(Statement::new(&self.admin_texts.now, [] as [Bind; 0])).await?;
        Ok(rows.first().map_or(SystemTime::UNIX_EPOCH, |row| row.0))
    }

    async fn count_dead(&self) -> Result<Vec<DeadCount>, StoreError> {
        let rows: Vec<CountRow> =
            self.connections.load(Statement::new(&self.admin_texts.count_dead, [] as [Bind; 0])).await?;
        Ok(rows.into_iter().map(|row| row.0).collect())
    }

    async fn dead_keys(&self, messages: &[MessageId]) -> Result<Vec<Keyed>, StoreError> {
        let statement = Statement::new(&self.admin_texts.dead_keys, [Bind::message_ids(messages)]);
        let rows: Vec<KeyedRow> = self.connections.load(statement).await?;
        Ok(rows.into_iter().map(|row| row.0).collect())
    }

    async fn redrive(&self, back: &[Return]) -> Result<Vec<MessageId>, StoreError> {
        if back.is_empty() {
            return Ok(Vec::new());
        }
        let statement = Statement::new(&self.admin_texts.redrive, Bind::back(back));
        let moved: Vec<MessageIdRow> = self.connections.load(statement).await?;
        Ok(moved.into_iter().map(|row| row.0).collect())
    }

    async fn purge(&self, messages: &[MessageId]) -> Result<usize, StoreError> {
        if messages.is_empty() {
            return Ok(0);
        }
        self.connections.execute(Statement::new(&self.admin_texts.purge, [Bind::message_ids(messages)])).await
    }

    async fn replace(&self, letter: MessageId, by: &Envelope, lane: Option<u16>) -> Result<bool, StoreError> {
        let binds = [
            Bind::message_id(letter),
            Bind::message_id(by.message_id),
            Bind::Text(Arc::clone(&by.topic)),
            Bind::BigInt(lane_column(lane).into()),
            Bind::OptionalText(by.key.clone()),
            Bind::Text(by.kind.as_str().into()),
            Bind::Text(by.headers.to_json().into()),
            Bind::OptionalBytes(by.payload.clone()),
        ];
        Ok(self.connections.execute(Statement::new(&self.admin_texts.replace, binds)).await? > 0)
    }

    async fn pause(&self, topic: &Arc<str>) -> Result<(), StoreError> {
        wanted(self.check_pause_table().await)?;
        let statement = Statement::new(&self.admin_texts.pause, [Bind::Text(Arc::clone(topic))]);
        self.connections.execute(statement).await.map(drop)
    }

    async fn resume(&self, topic: &Arc<str>) -> Result<bool, StoreError> {
        wanted(self.check_pause_table().await)?;
        let statement = Statement::new(&self.admin_texts.resume, [Bind::Text(Arc::clone(topic))]);
        Ok(self.connections.execute(statement).await? > 0)
    }

    async fn paused(&self) -> Result<Vec<PausedTopic>, StoreError> {
        wanted(self.check_pause_table().await)?;
        let rows: Vec<PausedRow> =
            self.connections.load(Statement::new(&self.admin_texts.paused, [] as [Bind; 0])).await?;
        Ok(rows.into_iter().map(|row| row.0).collect())
    }
}

impl<P: Sessions<Pg>> PostgresStore<P> {
    /// Runs a search whose text begins with `columns`.
    async fn find<T>(&self, columns: &str, search: Search<Pg>, rows_max: usize) -> Result<Vec<T>, StoreError>
    where
        T: QueryableByName<Pg> + Send + 'static,
    {
        self.connections.load(search.statement(columns, &self.names, rows_max)).await
    }
}

impl SearchDialect for Pg {
    const INDEX_NAMING: IndexNaming = IndexNaming::ByTable;

    const KEY: &'static str = "key";

    fn placeholder(number: usize) -> String {
        format!("${number}")
    }

    fn text(text: &Arc<str>) -> Bind {
        Bind::Text(Arc::clone(text))
    }

    fn instant(placeholder: &str, at: SystemTime) -> (String, Bind) {
        (placeholder.to_owned(), Bind::Instant(timestamp(at)))
    }

    fn message_id(placeholder: &str, message_id: MessageId) -> (String, Bind) {
        (placeholder.to_owned(), Bind::message_id(message_id))
    }
}
