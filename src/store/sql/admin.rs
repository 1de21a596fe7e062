use std::sync::Arc;
use std::time::{Duration, SystemTime};

use async_trait::async_trait;

use super::SqlStore;
use super::flows::{Flows, Written};
use super::group::each_once;
use super::rows::{FromRow, Read};
use super::search::Search;
use crate::lane::lane_column;
use crate::message::{Envelope, MessageId};
use crate::store::pause_table::wanted;
use crate::store::session::Sessions;
use crate::store::statement::Bind;
use crate::store::text::Text;
use crate::store::{
    AdminStore, Cancellation, DeadCount, DeadFilter, DeadLetter, DeadMark, Hastening, Keyed, PausedTopic, Return,
    StoreError,
};

#[async_trait]
impl<DB: Flows, P: Sessions<DB>> AdminStore for SqlStore<DB, P> {
    async fn cancel(&self, message: MessageId) -> Result<Cancellation, StoreError> {
        let binds = vec![DB::id(message.as_uuid())];
        Ok(match DB::write_one(self, &self.texts.waiting.cancel, binds).await? {
            Written::Topic(topic) => Cancellation::Cancelled { topic },
            Written::Taken => Cancellation::Taken,
            Written::NotThere => Cancellation::NotThere,
        })
    }

    async fn send_now(&self, message: MessageId, lease: Duration) -> Result<Hastening, StoreError> {
        let binds = vec![DB::id(message.as_uuid()), Bind::Number(DB::span(lease))];
        Ok(match DB::write_one(self, &self.texts.waiting.send_now, binds).await? {
            Written::Topic(_) => Hastening::Due,
            Written::Taken => Hastening::Soon,
            Written::NotThere => Hastening::NotThere,
        })
    }

    async fn dead_letters(
        &self,
        filter: &DeadFilter,
        after: Option<&DeadMark>,
        rows_max: usize,
    ) -> Result<Vec<DeadLetter>, StoreError> {
        self.find(&self.texts.letters.letters, Search::new(filter, after), rows_max).await
    }

    async fn dead_marks(
        &self,
        filter: &DeadFilter,
        after: Option<&DeadMark>,
        rows_max: usize,
    ) -> Result<Vec<DeadMark>, StoreError> {
        self.find(&self.texts.letters.marks, Search::new(filter, after), rows_max).await
    }

    async fn dead_letter(&self, message: MessageId) -> Result<Option<DeadLetter>, StoreError> {
        Ok(self.find(&self.texts.letters.letters, Search::one(message), 1).await?.into_iter().next())
    }

    async fn now(&self) -> Result<SystemTime, StoreError> {
        Ok(self.read(&self.texts.letters.now, []).await?.into_iter().next().unwrap_or(SystemTime::UNIX_EPOCH))
    }

    async fn count_dead(&self) -> Result<Vec<DeadCount>, StoreError> {
        self.read(&self.texts.letters.count, []).await
    }

    async fn dead_keys(&self, messages: &[MessageId]) -> Result<Vec<Keyed>, StoreError> {
        self.read(&self.texts.letters.keys, [DB::messages(messages)]).await
    }

    async fn redrive(&self, back: &[Return]) -> Result<Vec<MessageId>, StoreError> {
        if back.is_empty() {
            return Ok(Vec::new());
        }
        DB::move_back(self, &self.texts.letters.redrive, Return::each_once(back)).await
    }

    async fn purge(&self, messages: &[MessageId]) -> Result<usize, StoreError> {
        if messages.is_empty() {
            return Ok(0);
        }
        self.execute(&self.texts.letters.purge, [DB::messages(&each_once(messages.iter().copied()))]).await
    }

    async fn replace(&self, letter: MessageId, by: &Envelope, lane: Option<u16>) -> Result<bool, StoreError> {
        let by = vec![
            DB::id(by.message_id.as_uuid()),
            Bind::text(&by.topic),
            Bind::Number(lane_column(lane).into()),
            Bind::OptionalText(by.key.clone()),
            Bind::Text(by.kind.as_str().into()),
            Bind::Text(by.headers.to_json().into()),
            Bind::OptionalBytes(by.payload.clone()),
        ];
        DB::replace(self, letter, by).await
    }

    async fn pause(&self, topic: &Arc<str>) -> Result<(), StoreError> {
        wanted(self.check_tables(&["paused_topics"]).await)?;
        self.execute(&self.texts.pauses.pause, [Bind::text(topic)]).await.map(drop)
    }

    async fn resume(&self, topic: &Arc<str>) -> Result<bool, StoreError> {
        wanted(self.check_tables(&["paused_topics"]).await)?;
        Ok(self.execute(&self.texts.pauses.resume, [Bind::text(topic)]).await? > 0)
    }

    async fn paused(&self) -> Result<Vec<PausedTopic>, StoreError> {
        wanted(self.check_tables(&["paused_topics"]).await)?;
        self.read(&self.texts.pauses.paused, []).await
    }
}

impl<DB: Flows, P: Sessions<DB>> SqlStore<DB, P> {
    /// Runs a search whose text begins with `columns`.
    async fn find<T>(&self, columns: &Text, search: Search<DB>, rows_max: usize) -> Result<Vec<T>, StoreError>
    where
        T: FromRow + Send + 'static,
    {
        let rows: Vec<Read<T>> = self.calls.load(search.statement(columns, rows_max)).await?;
        Ok(rows.into_iter().map(|row| row.0).collect())
    }
}
