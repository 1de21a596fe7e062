//! The rows that wait in the outbox, by topic: enough to see what a stuck run waits for.

use std::fmt;

use anyhow::{Context, Result};
use diesel::prelude::*;
use diesel::sql_types::{BigInt, Bool, Integer, Nullable, Text};
use diesel_async::{AsyncPgConnection, RunQueryDsl};

/// A row of an ordered topic is due since 'epoch' unless a failure delays it. That says nothing, so such rows are only
/// counted.
const BACKLOG_SQL: &str = "
SELECT m.topic AS topic, m.lane >= 0 AS is_ordered, count(*) AS waiting,
  count(*) FILTER (WHERE m.due_at = timestamptz 'epoch') AS always_due,
  (min(extract(epoch FROM nullif(m.due_at, timestamptz 'epoch') - statement_timestamp())) * 1000)::bigint AS due_first_ms,
  (max(extract(epoch FROM nullif(m.due_at, timestamptz 'epoch') - statement_timestamp())) * 1000)::bigint AS due_last_ms,
  max(m.epoch) AS epoch_max,
  (SELECT count(*) FROM outbox_lanes l WHERE l.topic = m.topic) AS lanes,
  (SELECT count(*) FROM outbox_lanes l
   WHERE l.topic = m.topic AND l.owner IS NOT NULL AND l.expires_at > statement_timestamp()) AS lanes_owned,
  EXISTS (SELECT 1 FROM outbox_paused_topics p WHERE p.topic = m.topic) AS is_paused
FROM outbox_messages m WHERE m.id <= $1 GROUP BY 1, 2 ORDER BY 1, 2";

/// The unsettled rows of a topic.
#[derive(Debug, Clone, QueryableByName)]
pub(crate) struct TopicBacklog {
    #[diesel(sql_type = Text)]
    topic: String,
    #[diesel(sql_type = Bool)]
    is_ordered: bool,
    #[diesel(sql_type = BigInt)]
    pub(crate) waiting: i64,
    #[diesel(sql_type = BigInt)]
    always_due: i64,
    /// Relative to now; `None` if all are always due.
    #[diesel(sql_type = Nullable<BigInt>)]
    due_first_ms: Option<i64>,
    #[diesel(sql_type = Nullable<BigInt>)]
    due_last_ms: Option<i64>,
    #[diesel(sql_type = Integer)]
    epoch_max: i32,
    #[diesel(sql_type = BigInt)]
    lanes: i64,
    #[diesel(sql_type = BigInt)]
    lanes_owned: i64,
    #[diesel(sql_type = Bool)]
    is_paused: bool,
}

/// The rows with an id up to `id`, by topic.
pub(crate) async fn backlog(connection: &mut AsyncPgConnection, id: i64) -> Result<Vec<TopicBacklog>> {
    diesel::sql_query(BACKLOG_SQL).bind::<BigInt, _>(id).load(connection).await.context("read the backlog")
}

impl fmt::Display for TopicBacklog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { topic, waiting, always_due, lanes, lanes_owned, epoch_max, .. } = self;
        write!(f, "{waiting} of {topic}")?;
        if self.is_ordered {
            write!(f, ", ordered, {lanes_owned} lanes owned and {} not", lanes - lanes_owned)?;
        }
        if self.is_paused {
            write!(f, ", paused")?;
        }
        if *always_due > 0 {
            write!(f, ", {always_due} always due")?;
        }
        if let (Some(first), Some(last)) = (self.due_first_ms, self.due_last_ms) {
            write!(f, ", due in {first} to {last} ms")?;
        }
        write!(f, ", epoch at most {epoch_max}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_backlog_says_why_it_may_wait() {
        let plain = TopicBacklog {
            topic: "run.plain".to_owned(),
            is_ordered: false,
            waiting: 12,
            always_due: 0,
            due_first_ms: Some(-900),
            due_last_ms: Some(4_000),
            epoch_max: 3,
            lanes: 0,
            lanes_owned: 0,
            is_paused: true,
        };
        assert_eq!(plain.to_string(), "12 of run.plain, paused, due in -900 to 4000 ms, epoch at most 3");
        let ordered = TopicBacklog {
            topic: "run.ordered".to_owned(),
            is_ordered: true,
            always_due: 12,
            due_first_ms: None,
            due_last_ms: None,
            epoch_max: 0,
            lanes: 8,
            lanes_owned: 6,
            is_paused: false,
            ..plain
        };
        let text = "12 of run.ordered, ordered, 6 lanes owned and 2 not, 12 always due, epoch at most 0";
        assert_eq!(ordered.to_string(), text);
    }
}
