//! What a calm behind a phase costs: nothing is done to anybody in it, but that a snapshot may be held.

use anyhow::Result;
use diesel_async::AsyncPgConnection;

use crate::app::now_ms;
use crate::truth;

/// A calm, in milliseconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Calm {
    pub(crate) from_ms: u64,
    pub(crate) until_ms: u64,
    /// Index entries of the table of messages that were read in it.
    pub(crate) rows_read: u64,
    /// Rows that are dead and cannot be removed, where a snapshot is held: at least so many.
    pub(crate) dead_rows: Option<u64>,
}

impl Calm {
    /// A calm that begins now.
    pub(crate) async fn begin(connection: &mut AsyncPgConnection, dead_rows: Option<u64>) -> Result<Self> {
        let rows_read = truth::rows_read(connection).await?;
        let from_ms = now_ms();
        Ok(Self { from_ms, until_ms: from_ms, rows_read, dead_rows })
    }

    /// It ends now.
    pub(crate) async fn end(self, connection: &mut AsyncPgConnection) -> Result<Self> {
        let rows_read = truth::rows_read(connection).await?.saturating_sub(self.rows_read);
        Ok(Self { until_ms: now_ms(), rows_read, ..self })
    }
}
