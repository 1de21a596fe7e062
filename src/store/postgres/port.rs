use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use diesel::pg::Pg;

use super::PostgresStore;
use super::admin_texts::AdminTexts;
use super::bind::Bind;
use super::half_texts::half_texts;
use super::history_texts::HistoryTexts;
use super::lane_texts::LaneTexts;
use super::notice_texts::NoticeSide;
use super::rows::{ConfirmRow, KeyRow, LookRow};
use super::texts::Texts;
use crate::clock::millis;
use crate::naming::TableNames;
use crate::retry::bounded;
use crate::store::session::Sessions;
use crate::store::statement::Statement;
use crate::store::stored::kept_text;
use crate::store::{
    AdminStore, Claim, ClaimSpec, Confirmed, Dead, Failed, HalfStore, Held, HistoryStore, LaneStore, Locking, Look,
    LookSpec, NoticeStore, RowKey, RowRef, Store, StoreError, StoreWarning, TopicBacklog,
};

#[async_trait]
impl<P: Sessions<Pg>> Store for PostgresStore<P> {
    fn use_tables(&mut self, names: &TableNames) {
        self.texts = Texts::new(names);
        self.lane_texts = LaneTexts::new(names);
        self.half_texts = half_texts(names);
        self.admin_texts = AdminTexts::new(names);
        self.history_texts = HistoryTexts::new(names);
        self.notices = self.notices.take().map(|side| NoticeSide::new(side.connection, names));
        self.names = names.clone();
    }

    async fn check(&self) -> Result<Vec<StoreWarning>, StoreError> {
        self.connections.within(self.check_database()).await
    }

    async fn confirm(&self, refs: &[RowRef]) -> Result<Vec<Confirmed>, StoreError> {
        // Every INSERT here returns its id; and an id alone could be another row's, so the message is compared, too.
        let wanted: HashSet<RowKey> = refs.iter().filter_map(RowRef::key).collect();
        if wanted.is_empty() {
            return Ok(Vec::new());
        }
        let ids = wanted.iter().map(|key| key.id).collect();
        let statement = Statement::new(&self.texts.confirm, [Bind::BigInts(ids)]);
        let found: Vec<ConfirmRow> = self.connections.load(statement).await?;
        let ours = found.into_iter().filter(|found| wanted.contains(&found.row.key));
        Ok(ours.map(|found| Confirmed { row: found.row.decode(&found.topic), lease_left: found.lease_left }).collect())
    }

    async fn remaining(&self, refs: &[RowRef]) -> Result<Vec<RowKey>, StoreError> {
        let wanted: HashSet<RowKey> = refs.iter().filter_map(RowRef::key).collect();
        let ids = Bind::BigInts(wanted.iter().map(|key| key.id).collect());
        let found: Vec<KeyRow> = self.connections.load(Statement::new(&self.texts.remaining, [ids])).await?;
        Ok(found.into_iter().map(|row| row.0).filter(|key| wanted.contains(key)).collect())
    }

    async fn claim(&self, spec: &ClaimSpec) -> Result<Claim, StoreError> {
        self.connections.within(self.open_claim(spec)).await
    }

    async fn settle(&self, rows: &[RowKey], locking: Locking) -> Result<Vec<RowKey>, StoreError> {
        let text = match locking {
            Locking::Skip => &self.texts.settle,
            Locking::Wait => &self.texts.settle_waiting,
        };
        self.write(text, Bind::keys(rows.iter().copied())).await
    }

    async fn settle_dead(&self, rows: &[RowKey]) -> Result<usize, StoreError> {
        if rows.is_empty() {
            return Ok(0);
        }
        self.connections.execute(Statement::new(&self.texts.settle_dead, Bind::keys(rows.iter().copied()))).await
    }

    async fn extend(&self, held: &[Held], lease: Duration) -> Result<Vec<RowKey>, StoreError> {
        let [ids, message_ids, epochs] = Bind::held(held.iter().copied());
        self.write(&self.texts.extend, [ids, message_ids, epochs, Bind::BigInt(millis(lease))]).await
    }

    async fn fail(&self, failed: &[Failed]) -> Result<Vec<RowKey>, StoreError> {
        let [ids, message_ids, epochs] = Bind::held(failed.iter().map(|row| row.held));
        let waits = failed.iter().map(|row| millis(bounded(row.wait))).collect();
        let spent = failed.iter().map(|row| i32::from(row.spends_attempt)).collect();
        let classes = failed.iter().map(|row| row.class.to_owned()).collect();
        let errors = failed.iter().map(|row| kept_text(&row.error)).collect();
        let what = [Bind::BigInts(waits), Bind::Ints(spent), Bind::Texts(classes), Bind::Texts(errors)];
        self.write(&self.texts.fail, [ids, message_ids, epochs].into_iter().chain(what).collect::<Vec<_>>()).await
    }

    async fn dead(&self, dead: &[Dead]) -> Result<Vec<RowKey>, StoreError> {
        let [ids, message_ids, epochs] = Bind::held(dead.iter().map(|row| row.held));
        let reasons = dead.iter().map(|row| kept_text(&row.reason)).collect();
        self.write(&self.texts.dead, [ids, message_ids, epochs, Bind::Texts(reasons)]).await
    }

    async fn look(&self, spec: &LookSpec) -> Result<Look, StoreError> {
        if spec.topics.is_empty() {
            return Ok(Look::default());
        }
        let has_pauses = self.pause_table.is_there(self.check_pause_table()).await?;
        let text = if has_pauses { &self.texts.look_with_pauses } else { &self.texts.look };
        let found = self.connections.poll(Statement::new(text, Bind::look(spec))).await;
        self.pause_table.note(&found);
        let found: Vec<LookRow> = found?;
        Ok(Look::of(found.into_iter().map(|row| row.with_slack(spec.watermark_slack_duration))))
    }

    async fn backlog(&self, count_max: usize) -> Result<Vec<TopicBacklog>, StoreError> {
        self.connections.within(self.count_topics(count_max)).await
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

    fn notices(&self) -> Option<&dyn NoticeStore> {
        self.notices.as_ref().map(|_| self as &dyn NoticeStore)
    }

    fn admin(&self) -> Option<&dyn AdminStore> {
        Some(self)
    }
}

impl<P: Sessions<Pg>> PostgresStore<P> {
    /// Runs a statement that returns the rows it wrote; its first bind is their ids.
    pub(super) async fn write(&self, text: &Arc<str>, binds: impl Into<Vec<Bind>>) -> Result<Vec<RowKey>, StoreError> {
        let binds = binds.into();
        if let [Bind::BigInts(ids), ..] = binds.as_slice()
            && ids.is_empty()
        {
            return Ok(Vec::new());
        }
        let written: Vec<KeyRow> = self.connections.load(Statement::new(text, binds)).await?;
        Ok(written.into_iter().map(|row| row.0).collect())
    }
}
