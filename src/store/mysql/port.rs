use std::collections::{HashMap, HashSet};
use std::iter;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use diesel::mysql::Mysql;

use super::MysqlStore;
use super::admin_texts::AdminTexts;
use super::bind::Bind;
use super::half_texts::half_texts;
use super::history_texts::HistoryTexts;
use super::lane_texts::LaneTexts;
use super::rows::{ConfirmRow, KeyRow, LookRow};
use super::texts::Texts;
use crate::message::MessageId;
use crate::naming::TableNames;
use crate::retry::bounded;
use crate::store::lanes::{SCAN_COUNTS, scan_groups};
use crate::store::session::Sessions;
use crate::store::statement::{Statement, micros};
use crate::store::stored::kept_text;
use crate::store::{
    AdminStore, Claim, ClaimSpec, Confirmed, Dead, Failed, HalfStore, Held, HistoryStore, LaneStore, Locking, Look,
    LookAt, LookFrom, LookSpec, RowKey, RowRef, Store, StoreError, StoreWarning, TopicBacklog,
};

#[async_trait]
impl<P: Sessions<Mysql>> Store for MysqlStore<P> {
    fn use_tables(&mut self, names: &TableNames) {
        self.texts = Texts::new(names);
        self.lane_texts = LaneTexts::new(names);
        self.half_texts = half_texts(names);
        self.admin_texts = AdminTexts::new(names);
        self.history_texts = Arc::new(HistoryTexts::new(names));
        self.names = names.clone();
    }

    async fn check(&self) -> Result<Vec<StoreWarning>, StoreError> {
        self.connections.within(self.check_database()).await
    }

    async fn confirm(&self, refs: &[RowRef]) -> Result<Vec<Confirmed>, StoreError> {
        if refs.is_empty() {
            return Ok(Vec::new());
        }
        let is_one = is_one_of(refs);
        let messages = Bind::message_ids(refs.iter().map(|row| row.message_id));
        let found: Vec<ConfirmRow> = self.connections.load(Statement::new(&self.texts.confirm, [messages])).await?;
        let ours = found.into_iter().filter(|found| is_one(&found.row.key));
        Ok(ours.map(|found| Confirmed { row: found.row.decode(&found.topic), lease_left: found.lease_left }).collect())
    }

    async fn remaining(&self, refs: &[RowRef]) -> Result<Vec<RowKey>, StoreError> {
        if refs.is_empty() {
            return Ok(Vec::new());
        }
        let messages = Bind::message_ids(refs.iter().map(|row| row.message_id));
        let found: Vec<KeyRow> = self.connections.load(Statement::new(&self.texts.remaining, [messages])).await?;
        Ok(found.into_iter().map(|row| row.0).filter(is_one_of(refs)).collect())
    }

    async fn claim(&self, spec: &ClaimSpec) -> Result<Claim, StoreError> {
        self.connections.within(self.open_claim(spec)).await
    }

    async fn settle(&self, rows: &[RowKey], locking: Locking) -> Result<Vec<RowKey>, StoreError> {
        if rows.is_empty() {
            return Ok(Vec::new());
        }
        let lock = match locking {
            Locking::Skip => &self.texts.lock,
            Locking::Wait => &self.texts.lock_waiting,
        };
        let delete = |locked: &[RowKey]| vec![(&self.texts.delete, vec![Bind::ids(locked.iter().copied())])];
        self.write(lock, [Bind::keys(rows.iter().copied())], delete).await
    }

    async fn settle_dead(&self, rows: &[RowKey]) -> Result<usize, StoreError> {
        if rows.is_empty() {
            return Ok(0);
        }
        let group = Bind::letters(rows.iter().copied());
        self.connections.execute(Statement::new(&self.texts.settle_dead, [group])).await
    }

    async fn extend(&self, held: &[Held], lease: Duration) -> Result<Vec<RowKey>, StoreError> {
        let extend = |locked: &[RowKey]| {
            vec![(&self.texts.extend, vec![Bind::ids(locked.iter().copied()), Bind::BigInt(micros(lease))])]
        };
        self.write_held(held, extend).await
    }

    async fn fail(&self, failed: &[Failed]) -> Result<Vec<RowKey>, StoreError> {
        let by_key: HashMap<RowKey, &Failed> = failed.iter().map(|row| (row.held.key, row)).collect();
        let fail = |locked: &[RowKey]| {
            let notes = locked.iter().filter_map(|key| by_key.get(key)).map(|row| {
                let (wait, spends) = (micros(bounded(row.wait)), i32::from(row.spends_attempt));
                (row.held.key.id, wait, spends, row.class, kept_text(&row.error))
            });
            vec![(&self.texts.fail, vec![Bind::json(notes)])]
        };
        let held: Vec<Held> = failed.iter().map(|row| row.held).collect();
        self.write_held(&held, fail).await
    }

    async fn dead(&self, dead: &[Dead]) -> Result<Vec<RowKey>, StoreError> {
        let by_key: HashMap<RowKey, &Dead> = dead.iter().map(|row| (row.held.key, row)).collect();
        let bury = |locked: &[RowKey]| {
            let reasons = locked.iter().filter_map(|key| by_key.get(key));
            let reasons = Bind::json(reasons.map(|row| (row.held.key.id, kept_text(&row.reason))));
            let ids = Bind::ids(locked.iter().copied());
            vec![(&self.texts.bury, vec![reasons]), (&self.texts.delete, vec![ids])]
        };
        let held: Vec<Held> = dead.iter().map(|row| row.held).collect();
        self.write_held(&held, bury).await
    }

    async fn look(&self, spec: &LookSpec) -> Result<Look, StoreError> {
        if spec.topics.is_empty() {
            return Ok(Look::default());
        }
        let has_pauses = self.pause_table.is_there(self.check_pause_table()).await?;
        let texts = if has_pauses { &self.texts.look_with_pauses } else { &self.texts.look };
        let mut topics = Vec::with_capacity(spec.topics.len());
        for (_, group, text) in scan_groups(&spec.topics) {
            let nothing = LookAt { topic: "".into(), from: LookFrom::Beginning };
            let filled_up = group.iter().chain(iter::repeat(&nothing)).take(SCAN_COUNTS[text]);
            let binds: Vec<Bind> = filled_up.flat_map(|at| Bind::look(at, spec, has_pauses)).collect();
            let found = self.connections.poll(Statement::new(&texts[text], binds)).await;
            self.pause_table.note(&found);
            let found: Vec<LookRow> = found?;
            let slack = spec.watermark_slack_duration;
            topics.extend(
                found
                    .into_iter()
                    .filter_map(|row| Some((group.get(row.place)?, row)))
                    .map(|(at, row)| row.of(at, slack)),
            );
        }
        Ok(Look::of(topics))
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

    fn admin(&self) -> Option<&dyn AdminStore> {
        Some(self)
    }
}

/// Whether a row is one of `refs`. Some of them know their id, and then it must be that row.
fn is_one_of(refs: &[RowRef]) -> impl Fn(&RowKey) -> bool {
    let with_ids: HashSet<RowKey> = refs.iter().filter_map(RowRef::key).collect();
    let known: HashSet<MessageId> = with_ids.iter().map(|key| key.message_id).collect();
    move |key| !known.contains(&key.message_id) || with_ids.contains(key)
}
