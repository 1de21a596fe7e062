use std::sync::Arc;
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use diesel::deserialize::QueryableByName;
use diesel::mysql::Mysql;

use super::MysqlStore;
use super::admin_rows::OneRow;
use super::admin_texts::{LETTERS, MARKS};
use super::bind::Bind;
use super::texts::{COMMIT, begin_write};
use crate::lane::lane_column;
use crate::message::{Envelope, MessageId};
use crate::store::admin_rows::{CountRow, InstantRow, KeyedRow, LetterRow, MarkRow, PausedRow};
use crate::store::dead_search::{Search, SearchDialect};
use crate::store::pause_table::wanted;
use crate::store::schema::IndexNaming;
use crate::store::session::Sessions;
use crate::store::statement::{Statement, micros};
use crate::store::{
    AdminStore, Cancellation, DeadCount, DeadFilter, DeadLetter, DeadMark, Hastening, Keyed, PausedTopic, Return,
    RowKey, StoreError,
};

#[async_trait]
impl<P: Sessions<Mysql>> AdminStore for MysqlStore<P> {
    async fn cancel(&self, message: MessageId) -> Result<Cancellation, StoreError> {
        let texts = &self.admin_texts;
        let [found, locked] =
            [&texts.find_delayed, &texts.lock_delayed].map(|text| Statement::new(text, [Bind::message_id(message)]));
        let there = Statement::new(&texts.look_at_delayed, [Bind::message_id(message)]);
        Ok(match self.write_one([found, locked], &texts.delete_one, there).await? {
            Written::Topic(topic) => Cancellation::Cancelled { topic },
            Written::Taken => Cancellation::Taken,
            Written::NotThere => Cancellation::NotThere,
        })
    }

    async fn send_now(&self, message: MessageId, lease: Duration) -> Result<Hastening, StoreError> {
        let texts = &self.admin_texts;
        let binds = || [Bind::message_id(message), Bind::BigInt(micros(lease))];
        let [found, locked] = [&texts.find_waiting, &texts.lock_waiting].map(|text| Statement::new(text, binds()));
        let there = Statement::new(&texts.look_at_one, [Bind::message_id(message)]);
        Ok(match self.write_one([found, locked], &texts.make_due, there).await? {
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
        let group = [Bind::message_ids(messages.iter().copied())];
        let rows: Vec<KeyedRow> = self.connections.load(Statement::new(&self.admin_texts.dead_keys, group)).await?;
        Ok(rows.into_iter().map(|row| row.0).collect())
    }

    async fn redrive(&self, back: &[Return]) -> Result<Vec<MessageId>, StoreError> {
        if back.is_empty() {
            return Ok(Vec::new());
        }
        let move_back = |locked: &[RowKey]| {
            let letters = Bind::message_ids(locked.iter().map(|key| key.message_id));
            vec![
                (&self.admin_texts.redrive, vec![Bind::back(back, locked)]),
                (&self.admin_texts.redrive_to_lanes, vec![Bind::back(back, locked)]),
                (&self.texts.remove_letters, vec![letters]),
            ]
        };
        let group = [Bind::message_ids(Return::each_once(back).into_iter().map(|back| back.message_id))];
        let moved = self.write(&self.admin_texts.lock_letters, group, move_back).await?;
        Ok(moved.into_iter().map(|key| key.message_id).collect())
    }

    async fn purge(&self, messages: &[MessageId]) -> Result<usize, StoreError> {
        if messages.is_empty() {
            return Ok(0);
        }
        // In one order, for rows are locked in it.
        let mut messages = messages.to_vec();
        messages.sort_unstable();
        let group = Bind::message_ids(messages.iter().copied());
        self.connections.execute(Statement::new(&self.texts.remove_letters, [group])).await
    }

    async fn replace(&self, letter: MessageId, by: &Envelope, lane: Option<u16>) -> Result<bool, StoreError> {
        let lane = i64::from(lane_column(lane));
        let binds = vec![
            Bind::message_id(by.message_id),
            Bind::Text(Arc::clone(&by.topic)),
            Bind::BigInt(lane),
            Bind::OptionalText(by.key.clone()),
            Bind::Text(by.kind.as_str().into()),
            Bind::Text(by.headers.to_json().into()),
            Bind::OptionalBytes(by.payload.clone()),
            Bind::BigInt(lane),
        ];
        let group = || Bind::message_ids([letter].into_iter());
        let writes =
            |_: &[RowKey]| vec![(&self.admin_texts.write_edited, binds), (&self.texts.remove_letters, vec![group()])];
        Ok(!self.write(&self.admin_texts.lock_letters, [group()], writes).await?.is_empty())
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

/// What became of one message.
enum Written {
    /// It was written, and is of this topic.
    Topic(Arc<str>),
    /// It is there, and not to be written.
    Taken,
    NotThere,
}

impl<P: Sessions<Mysql>> MysqlStore<P> {
    /// Locks one message and writes it by its id; where it could not be locked, looks whether it is there.
    ///
    /// Looked for before, without a lock: InnoDB locks a row before it knows whether the rest of the condition holds, and keeps it
    /// locked until COMMIT. One that is under way would be passed over by whoever is to note its failure, and nobody notes that
    /// again.
    async fn write_one(
        &self,
        [find, lock]: [Statement<Mysql>; 2],
        write: &Arc<str>,
        look: Statement<Mysql>,
    ) -> Result<Written, StoreError> {
        self.connections
            .within(async {
                let mut lease = self.connections.lease().await?;
                lease.begin(begin_write()).await?;
                let mut locked: Vec<OneRow> = lease.load(find).await?;
                if !locked.is_empty() {
                    locked = lease.load(lock).await?;
                }
                let written = if let Some(row) = locked.into_iter().next() {
                    lease.execute(Statement::new(write, [Bind::BigInt(row.id)])).await?;
                    Written::Topic(row.topic)
                } else {
                    let there: Vec<OneRow> = lease.load(look).await?;
                    if there.is_empty() { Written::NotThere } else { Written::Taken }
                };
                lease.commit_by(COMMIT.into()).await?;
                lease.give_back();
                Ok(written)
            })
            .await
    }

    /// Runs a search whose text begins with `columns`.
    async fn find<T>(&self, columns: &str, search: Search<Mysql>, rows_max: usize) -> Result<Vec<T>, StoreError>
    where
        T: QueryableByName<Mysql> + Send + 'static,
    {
        self.connections.load(search.statement(columns, &self.names, rows_max)).await
    }
}

impl SearchDialect for Mysql {
    const INDEX_NAMING: IndexNaming = IndexNaming::ByTable;

    const KEY: &'static str = "`key`";

    fn placeholder(_number: usize) -> String {
        "?".to_owned()
    }

    fn text(text: &Arc<str>) -> Bind {
        Bind::Text(Arc::clone(text))
    }

    fn instant(placeholder: &str, at: SystemTime) -> (String, Bind) {
        let since_1970 = at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let sql = format!("TIMESTAMPADD(MICROSECOND, {placeholder}, TIMESTAMP'1970-01-01 00:00:00')");
        (sql, Bind::BigInt(micros(since_1970)))
    }

    fn message_id(placeholder: &str, message_id: MessageId) -> (String, Bind) {
        (format!("UNHEX({placeholder})"), Bind::message_id(message_id))
    }
}
