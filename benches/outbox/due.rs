//! When delayed messages are due, by the bench's own clock.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use diesel::sql_types::{BigInt, Uuid};
use diesel::{QueryableByName, sql_query};
use diesel_async::{AsyncPgConnection, RunQueryDsl};

use crate::database;
use crate::timed::Instants;

/// How often the two clocks are compared; the quickest answer is the most precise.
const COMPARISONS: usize = 100;

#[derive(QueryableByName)]
struct Due {
    #[diesel(sql_type = Uuid)]
    message_id: uuid::Uuid,
    #[diesel(sql_type = BigInt)]
    micros: i64,
}

/// For every delayed message that is still in the table.
pub(crate) async fn instants(conn: &mut AsyncPgConnection) -> Result<Instants> {
    let (now, micros) = compared(conn).await?;
    let query = "SELECT message_id, (extract(epoch FROM deliver_at) * 1000000)::bigint AS micros \
                 FROM outbox_messages WHERE deliver_at IS NOT NULL";
    let instants = Instants::default();
    for due in sql_query(query).load::<Due>(conn).await? {
        let later = u64::try_from(due.micros - micros).context("a message is due already")?;
        instants.note(due.message_id.into(), now + Duration::from_micros(later));
    }
    Ok(instants)
}

/// One moment, by our clock and by the database's.
async fn compared(conn: &mut AsyncPgConnection) -> Result<(Instant, i64)> {
    let mut best: Option<(Duration, Instant, i64)> = None;
    for _ in 0..COMPARISONS {
        let asked_at = Instant::now();
        let query = "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS count";
        let micros = database::count(conn, query).await?;
        let took = asked_at.elapsed();
        if best.is_none_or(|(least, ..)| took < least) {
            best = Some((took, asked_at + took / 2, micros));
        }
    }
    best.map(|(_, at, micros)| (at, micros)).context("the clocks were compared")
}
