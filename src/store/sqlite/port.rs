use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use diesel::sqlite::Sqlite;

use super::SqliteStore;
use super::admin_texts::AdminTexts;
use super::bind::Bind;
use super::half_texts::half_texts;
use super::history_texts::HistoryTexts;
use super::lane_texts::LaneTexts;
use super::rows::{BacklogRow, ConfirmRow, KeyRow, LookRow};
use super::texts::Texts;
use crate::clock::millis;
use crate::naming::TableNames;
use crate::retry::bounded;
use crate::store::session::Sessions;
use crate::store::statement::{Statement, limit};
use crate::store::stored::kept_text;
use crate::store::{
    AdminStore, Claim, ClaimSpec, Confirmed, Dead, Failed, HalfStore, Held, HistoryStore, LaneStore, Locking, Look,
    LookSpec, RowKey, RowRef, Store, StoreError, StoreWarning, TopicBacklog,
};

#[async_trait]
impl<P: Sessions<Sqlite>> Store for SqliteStore<P> {
    fn use_tables(&mut self, names: &TableNames) {
        self.texts = Arc::new(Texts::new(names));
        self.lane_texts = Arc::new(LaneTexts::new(names));
        self.half_texts = half_texts(names);
        self.admin_texts = AdminTexts::new(names);
        self.history_texts = Arc::new(HistoryTexts::new(names));
        self.names = names.clone();
    }

    async fn check(&self) -> Result<Vec<StoreWarning>, StoreError> {
        self.check_database().await
    }

    async fn confirm(&self, refs: &[RowRef]) -> Result<Vec<Confirmed>, StoreError> {
        // Every INSERT here returns its id; and an id alone could be another row's, so the message is compared, too.
        let wanted: HashSet<RowKey> = refs.iter().filter_map(RowRef::key).collect();
        if wanted.is_empty() {
            return Ok(Vec::new());
        }
        let ids = Bind::json(wanted.iter().map(|key| key.id.into()));
        let found: Vec<ConfirmRow> = self.caller().load(Statement::new(&self.texts.confirm, [ids])).await?;
        let ours = found.into_iter().filter(|found| wanted.contains(&found.row.key));
        Ok(ours.map(|found| Confirmed { row: found.row.decode(&found.topic), lease_left: found.lease_left }).collect())
    }

    async fn remaining(&self, refs: &[RowRef]) -> Result<Vec<RowKey>, StoreError> {
        let wanted: HashSet<RowKey> = refs.iter().filter_map(RowRef::key).collect();
        let ids = Bind::json(wanted.iter().map(|key| key.id.into()));
        let found: Vec<KeyRow> = self.caller().load(Statement::new(&self.texts.remaining, [ids])).await?;
        Ok(found.into_iter().map(|row| row.0).filter(|key| wanted.contains(key)).collect())
    }

    async fn claim(&self, spec: &ClaimSpec) -> Result<Claim, StoreError> {
        self.take(spec).await
    }

    // There are no row locks: whoever writes waits for the one lock of the database.
    async fn settle(&self, rows: &[RowKey], _locking: Locking) -> Result<Vec<RowKey>, StoreError> {
        self.write(&self.texts.settle, rows.len(), Bind::keys(rows)).await
    }

    async fn settle_dead(&self, rows: &[RowKey]) -> Result<usize, StoreError> {
        if rows.is_empty() {
            return Ok(0);
        }
        self.caller().execute(Statement::new(&self.texts.settle_dead, Bind::keys(rows))).await
    }

    async fn extend(&self, held: &[Held], lease: Duration) -> Result<Vec<RowKey>, StoreError> {
        let [keys, message_ids] = Bind::held(held, |row| *row, |_| Vec::new());
        self.write(&self.texts.extend, held.len(), [keys, message_ids, Bind::BigInt(millis(lease))]).await
    }

    async fn fail(&self, failed: &[Failed]) -> Result<Vec<RowKey>, StoreError> {
        let what = |row: &Failed| {
            let error = kept_text(&row.error).into();
            vec![millis(bounded(row.wait)).into(), u8::from(row.spends_attempt).into(), row.class.into(), error]
        };
        self.write(&self.texts.fail, failed.len(), Bind::held(failed, |row| row.held, what)).await
    }

    async fn dead(&self, dead: &[Dead]) -> Result<Vec<RowKey>, StoreError> {
        if dead.is_empty() {
            return Ok(Vec::new());
        }
        self.bury(dead).await
    }

    async fn look(&self, spec: &LookSpec) -> Result<Look, StoreError> {
        if spec.topics.is_empty() {
            return Ok(Look::default());
        }
        let has_pauses = self.pause_table.is_there(self.check_pause_table()).await?;
        let text = if has_pauses { &self.texts.look_with_pauses } else { &self.texts.look };
        let found = self.caller().load(Statement::new(text, Bind::look(spec))).await;
        self.pause_table.note(&found);
        let found: Vec<LookRow> = found?;
        Ok(Look::of(found.into_iter().map(|row| row.with_slack(spec.watermark_slack_duration))))
    }

    async fn backlog(&self, count_max: usize) -> Result<Vec<TopicBacklog>, StoreError> {
        let statement = Statement::new(&self.texts.backlog, [Bind::BigInt(limit(count_max))]);
        let topics: Vec<BacklogRow> = self.caller().load(statement).await?;
        Ok(topics.into_iter().map(|row| row.0).collect())
    }

    fn lanes(&self) -> Option<&dyn LaneStore> {
        Some(self)
    }

    fn halves(&self) -> Option<&dyn HalfStore> {
        Some(self)
    }

    fn history(&self) -> Option<&dyn HistoryStore> {
        Some(self)
    }

    fn admin(&self) -> Option<&dyn AdminStore> {
        Some(self)
    }
}

impl<P: Sessions<Sqlite>> SqliteStore<P> {
    /// Runs a statement that returns the rows it wrote.
    async fn write(
        &self,
        text: &Arc<str>,
        rows: usize,
        binds: impl Into<Vec<Bind>>,
    ) -> Result<Vec<RowKey>, StoreError> {
        if rows == 0 {
            return Ok(Vec::new());
        }
        let written: Vec<KeyRow> = self.caller().load(Statement::new(text, binds)).await?;
        Ok(written.into_iter().map(|row| row.0).collect())
    }

    async fn bury(&self, dead: &[Dead]) -> Result<Vec<RowKey>, StoreError> {
        let binds = Bind::held(dead, |row| row.held, |row| vec![kept_text(&row.reason).into()]);
        let bury = Statement::new(&self.texts.bury, binds);
        let remove = Statement::new(&self.texts.remove, Bind::held(dead, |row| row.held, |_| Vec::new()));
        let moved: Vec<KeyRow> = self.caller().write_and_load(vec![bury], remove).await?;
        Ok(moved.into_iter().map(|row| row.0).collect())
    }
}
