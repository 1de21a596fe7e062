//! The statements, one file per concern. Each statement has its versions for all three databases, one below the other.
//!
//! MySQL: batches are JSON and drive the join (STRAIGHT_JOIN), so that rows are locked in the order of the batch. Indexes are
//! forced: in a small table all rows would be read, and each of them locked or waited for. MySQL has no RETURNING, so a SELECT
//! locks the rows first, and the following statements write them by id.
//!
//! PostgreSQL: statements that write a batch outside of a claim first lock its rows in id order. In the order of the batch, two
//! relays that settled the same rows deadlocked in 13 of 40 runs; in id order in none.
//!
//! All: the epoch after the highest is 1, and counts stop at their maximum. Otherwise one row out of range would fail its whole batch.

pub(crate) mod audit;
pub(crate) mod claims;
pub(crate) mod dead_letters;
pub(crate) mod due;
pub(crate) mod halves;
pub(crate) mod history;
pub(crate) mod lane_rows;
pub(crate) mod lanes;
pub(crate) mod live;
pub(crate) mod live_pages;
pub(crate) mod notices;
pub(crate) mod parked;
mod parts;
pub(crate) mod pauses;
pub(crate) mod retention;
pub(crate) mod sent;
pub(crate) mod waiting;

use super::text::{SqlRenderer, Syntax};
use crate::naming::TableNames;

/// The statements, with the table names of one outbox.
#[derive(Debug)]
pub(crate) struct Sql {
    pub(crate) audit: audit::AuditSql,
    pub(crate) claims: claims::ClaimSql,
    pub(crate) due: due::DueSql,
    pub(crate) halves: halves::HalfSql,
    pub(crate) history: history::HistorySql,
    pub(crate) lane_rows: lane_rows::LaneRowSql,
    pub(crate) lanes: lanes::LaneSql,
    pub(crate) dead_letters: dead_letters::DeadLetterSql,
    pub(crate) live: live::LiveSql,
    pub(crate) live_pages: live_pages::LivePageSql,
    pub(crate) notices: notices::NoticeSql,
    pub(crate) parked: parked::ParkedSql,
    pub(crate) pauses: pauses::PauseSql,
    pub(crate) retention: retention::RetentionSql,
    pub(crate) sent: sent::SentSql,
    pub(crate) waiting: waiting::WaitingSql,
}

/// The statements about parked records alone, for consumers, which have no store.
#[allow(dead_code, reason = "only consumers use it")]
pub(crate) fn parked(syntax: &'static Syntax, names: &TableNames) -> parked::ParkedSql {
    parked::ParkedSql::new(&SqlRenderer { syntax, names, fragments: parts::of(syntax.database) })
}

impl Sql {
    pub(crate) fn new(syntax: &'static Syntax, names: &TableNames) -> Self {
        let renderer = SqlRenderer { syntax, names, fragments: parts::of(syntax.database) };
        Self {
            audit: audit::AuditSql::new(&renderer),
            claims: claims::ClaimSql::new(&renderer),
            due: due::DueSql::new(&renderer),
            halves: halves::HalfSql::new(&renderer),
            history: history::HistorySql::new(&renderer),
            lane_rows: lane_rows::LaneRowSql::new(&renderer),
            lanes: lanes::LaneSql::new(&renderer),
            dead_letters: dead_letters::DeadLetterSql::new(&renderer),
            live: live::LiveSql::new(&renderer),
            live_pages: live_pages::LivePageSql::new(&renderer),
            notices: notices::NoticeSql::new(&renderer),
            parked: parked::ParkedSql::new(&renderer),
            pauses: pauses::PauseSql::new(&renderer),
            retention: retention::RetentionSql::new(&renderer),
            sent: sent::SentSql::new(&renderer),
            waiting: waiting::WaitingSql::new(&renderer),
        }
    }
}
