//! The cost of the steady state after a phase: it has no faults, only perhaps a held snapshot.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::Result;
use diesel_async::AsyncPgConnection;

use crate::app::now_ms;
use crate::truth;

/// A steady state, in milliseconds since 1970.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SteadyState {
    pub(crate) from_ms: u64,
    pub(crate) until_ms: u64,
    /// Index entries of the messages table that were read in it, by index.
    pub(crate) rows_read: BTreeMap<String, u64>,
    /// The dead rows that cannot be removed, if a snapshot is held.
    pub(crate) dead: Option<Dead>,
}

/// Dead rows of a topic, and the time of a scan over their index entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Dead {
    /// At least this many.
    pub(crate) rows: u64,
    pub(crate) walk: Duration,
}

impl SteadyState {
    /// Begins a steady state. `held` has the topic and number of the dead rows that a snapshot holds.
    pub(crate) async fn begin(connection: &mut AsyncPgConnection, held: Option<(&str, u64)>) -> Result<Self> {
        let dead = match held {
            Some((topic, rows)) => Some(Dead { rows, walk: truth::walk(connection, topic).await? }),
            None => None,
        };
        let rows_read = truth::rows_read(connection).await?;
        let from_ms = now_ms();
        Ok(Self { from_ms, until_ms: from_ms, rows_read, dead })
    }

    /// Ends it.
    pub(crate) async fn end(self, connection: &mut AsyncPgConnection) -> Result<Self> {
        let mut rows_read = truth::rows_read(connection).await?;
        for (index, rows) in &mut rows_read {
            *rows = rows.saturating_sub(self.rows_read.get(index).copied().unwrap_or(0));
        }
        Ok(Self { until_ms: now_ms(), rows_read, ..self })
    }
}
