use std::sync::Arc;
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use diesel::deserialize::QueryableByName;
use diesel::sqlite::Sqlite;

use super::SqliteStore;
use super::admin_rows::TopicRow;
use super::admin_texts::{LETTERS, MARKS};
use super::bind::Bind;
use super::call::BEGIN;
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

// What is there only in the second statement was committed between the two: it is taken for a message in hand, and a second
// call writes it.
#[async_trait]
impl<P: Sessions<Sqlite>> AdminStore for SqliteStore<P> {
    async fn cancel(&self, message: MessageId) -> Result<Cancellation, StoreError> {
        let gone = self.topics(&self.admin_texts.cancel, [id_of(message)]).await?;
        if let Some(topic) = gone.into_iter().next() {
            return Ok(Cancellation::Cancelled { topic });
        }
        let there = self.topics(&self.admin_texts.look_at_delayed, [id_of(message)]).await?;
        Ok(if there.is_empty() { Cancellation::NotThere } else { Cancellation::Taken })
    }

    async fn send_now(&self, message: MessageId, lease: Duration) -> Result<Hastening, StoreError> {
        let binds = [id_of(message), Bind::BigInt(millis(lease))];
        if !self.topics(&self.admin_texts.send_now, binds).await?.is_empty() {
            return Ok(Hastening::Due);
        }
        let there = self.topics(&self.admin_texts.look_at_one, [id_of(message)]).await?;
        Ok(if there.is_empty() { Hastening::NotThere } else { Hastening::Soon })
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
        let rows: Vec<InstantRow> = self.caller().load(Statement::new(&self.admin_texts.now, [] as [Bind; 0])).await?;
        Ok(rows.first().map_or(SystemTime::UNIX_EPOCH, |row| row.0))
    }

    async fn count_dead(&self) -> Result<Vec<DeadCount>, StoreError> {
        let rows: Vec<CountRow> =
            self.caller().load(Statement::new(&self.admin_texts.count_dead, [] as [Bind; 0])).await?;
        Ok(rows.into_iter().map(|row| row.0).collect())
    }

    async fn dead_keys(&self, messages: &[MessageId]) -> Result<Vec<Keyed>, StoreError> {
        let group = [Bind::message_ids(messages.iter().copied())];
        let rows: Vec<KeyedRow> = self.caller().load(Statement::new(&self.admin_texts.dead_keys, group)).await?;
        Ok(rows.into_iter().map(|row| row.0).collect())
    }

    async fn redrive(&self, back: &[Return]) -> Result<Vec<MessageId>, StoreError> {
        if back.is_empty() {
            return Ok(Vec::new());
        }
        let texts = &self.admin_texts;
        let back = Return::each_once(back);
        let moves = [&texts.redrive, &texts.redrive_to_lanes].map(|text| Statement::new(text, Bind::back(&back)));
        let letters = [Bind::message_ids(back.iter().map(|back| back.message_id))];
        let remove = Statement::new(&texts.remove_letters, letters);
        let moved: Vec<MessageIdRow> = self.caller().write_and_load(moves.into(), remove).await?;
        Ok(moved.into_iter().map(|row| row.0).collect())
    }

    async fn purge(&self, messages: &[MessageId]) -> Result<usize, StoreError> {
        if messages.is_empty() {
            return Ok(0);
        }
        let letters = [Bind::message_ids(messages.iter().copied())];
        let purged: Vec<MessageIdRow> =
            self.caller().load(Statement::new(&self.admin_texts.remove_letters, letters)).await?;
        Ok(purged.len())
    }

    async fn replace(&self, letter: MessageId, by: &Envelope, lane: Option<u16>) -> Result<bool, StoreError> {
        let binds = [
            id_of(by.message_id),
            Bind::Text(Arc::clone(&by.topic)),
            Bind::BigInt(lane_column(lane).into()),
            Bind::OptionalText(by.key.clone()),
            Bind::Text(by.kind.as_str().into()),
            Bind::Text(by.headers.to_json().into()),
            Bind::OptionalBytes(by.payload.clone()),
        ];
        let remove = Statement::new(&self.admin_texts.remove_letters, [id_of(letter)]);
        let write = Statement::new(&self.admin_texts.write_edited, binds);
        let caller = self.caller();
        let replaced = caller.run(|lease| {
            Box::pin(async move {
                lease.begin(BEGIN.into()).await?;
                let removed: Vec<MessageIdRow> = lease.load(remove).await?;
                if !removed.is_empty() {
                    lease.execute(write).await?;
                }
                lease.commit().await?;
                Ok(!removed.is_empty())
            })
        });
        replaced.await
    }

    async fn pause(&self, topic: &Arc<str>) -> Result<(), StoreError> {
        wanted(self.check_pause_table().await)?;
        let statement = Statement::new(&self.admin_texts.pause, [Bind::Text(Arc::clone(topic))]);
        self.caller().execute(statement).await.map(drop)
    }

    async fn resume(&self, topic: &Arc<str>) -> Result<bool, StoreError> {
        wanted(self.check_pause_table().await)?;
        let statement = Statement::new(&self.admin_texts.resume, [Bind::Text(Arc::clone(topic))]);
        Ok(self.caller().execute(statement).await? > 0)
    }

    async fn paused(&self) -> Result<Vec<PausedTopic>, StoreError> {
        wanted(self.check_pause_table().await)?;
        let rows: Vec<PausedRow> =
            self.caller().load(Statement::new(&self.admin_texts.paused, [] as [Bind; 0])).await?;
        Ok(rows.into_iter().map(|row| row.0).collect())
    }
}

impl<P: Sessions<Sqlite>> SqliteStore<P> {
    async fn topics(&self, text: &Arc<str>, binds: impl Into<Vec<Bind>>) -> Result<Vec<Arc<str>>, StoreError> {
        let rows: Vec<TopicRow> = self.caller().load(Statement::new(text, binds)).await?;
        Ok(rows.into_iter().map(|row| row.0).collect())
    }

    /// Runs a search whose text begins with `columns`.
    async fn find<T>(&self, columns: &str, search: Search<Sqlite>, rows_max: usize) -> Result<Vec<T>, StoreError>
    where
        T: QueryableByName<Sqlite> + Send + 'static,
    {
        self.caller().load(search.statement(columns, &self.names, rows_max)).await
    }
}

fn id_of(message: MessageId) -> Bind {
    Bind::message_ids([message].into_iter())
}

impl SearchDialect for Sqlite {
    const INDEX_NAMING: IndexNaming = IndexNaming::ByIndex;

    const KEY: &'static str = "key";

    fn placeholder(number: usize) -> String {
        format!("?{number}")
    }

    fn text(text: &Arc<str>) -> Bind {
        Bind::Text(Arc::clone(text))
    }

    fn instant(placeholder: &str, at: SystemTime) -> (String, Bind) {
        (placeholder.to_owned(), Bind::BigInt(millis(at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default())))
    }

    fn message_id(placeholder: &str, message_id: MessageId) -> (String, Bind) {
        (placeholder.to_owned(), id_of(message_id))
    }
}
