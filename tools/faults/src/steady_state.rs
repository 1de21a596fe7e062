//! What a steady state behind a phase costs: nothing is done to anybody in it, but that a snapshot may be held.

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
    /// Index entries of the table of messages that were read in it, by index.
    pub(crate) rows_read: BTreeMap<String, u64>,
    /// What is dead and cannot be removed, where a snapshot is held.
    pub(crate) dead: Option<Dead>,
}

/// Dead rows of a topic, and what it takes to walk over their index entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Dead {
    /// At least so many.
    pub(crate) rows: u64,
    pub(crate) walk: Duration,
}

impl SteadyState {
    /// A steady state that begins now. `held` are the dead rows that a snapshot holds: of which topic, and how many.
    pub(crate) async fn begin(connection: &mut AsyncPgConnection, held: Option<(&str, u64)>) -> Result<Self> {
        let dead = match held {
            Some((topic, rows)) => Some(Dead { rows, walk: truth::walk(connection, topic).await? }),
            None => None,
        };
        let rows_read = truth::rows_read(connection).await?;
        let from_ms = now_ms();
        Ok(Self { from_ms, until_ms: from_ms, rows_read, dead })
    }

    /// It ends now.
    pub(crate) async fn end(self, connection: &mut AsyncPgConnection) -> Result<Self> {
        let mut rows_read = truth::rows_read(connection).await?;
        for (index, rows) in &mut rows_read {
            *rows = rows.saturating_sub(self.rows_read.get(index).copied().unwrap_or(0));
        }
        Ok(Self { until_ms: now_ms(), rows_read, ..self })
    }
}
