//! The statements, a page for each concern: each statement with its versions for all three databases, one below the other.
//!
//! MySQL: groups come as JSON and drive the join (STRAIGHT_JOIN), so that rows are locked in the order in which they are named.
//! Indexes are forced: of a small table all rows would be read, and each of them locked or waited for. MySQL has no RETURNING, so a
//! SELECT locks the rows first, and the statements behind it write them by id.
//!
//! PostgreSQL: statements that write a group outside of a claim lock its rows in the order of their ids first. In the order of the list,
//! two relays that settle the same rows deadlocked in 13 of 40 rounds, and locked first in none.
//!
//! All: the epoch after the highest is 1, and counts stop at their maximum. Out of range, one row would fail its whole group.

pub(crate) mod claims;
pub(crate) mod due;
pub(crate) mod halves;
pub(crate) mod kept;
pub(crate) mod lane_rows;
pub(crate) mod lanes;
pub(crate) mod letters;
pub(crate) mod live;
pub(crate) mod notices;
mod parts;
pub(crate) mod pauses;
pub(crate) mod retention;
pub(crate) mod sent;
pub(crate) mod waiting;

use crate::naming::TableNames;
use crate::store::text::{Words, Writer};

/// The statements, under the names of one outbox.
#[derive(Debug)]
pub(crate) struct Texts {
    pub(crate) claims: claims::ClaimTexts,
    pub(crate) due: due::DueTexts,
    pub(crate) halves: halves::HalfTexts,
    pub(crate) kept: kept::KeptTexts,
    pub(crate) lane_rows: lane_rows::LaneRowTexts,
    pub(crate) lanes: lanes::LaneTexts,
    pub(crate) letters: letters::LetterTexts,
    pub(crate) live: live::LiveTexts,
    pub(crate) notices: notices::NoticeTexts,
    pub(crate) pauses: pauses::PauseTexts,
    pub(crate) retention: retention::RetentionTexts,
    pub(crate) sent: sent::SentTexts,
    pub(crate) waiting: waiting::WaitingTexts,
}

impl Texts {
    pub(crate) fn new(words: &'static Words, names: &TableNames) -> Self {
        let writer = Writer { words, names, parts: parts::of(words.database) };
        Self {
            claims: claims::ClaimTexts::new(&writer),
            due: due::DueTexts::new(&writer),
            halves: halves::HalfTexts::new(&writer),
            kept: kept::KeptTexts::new(&writer),
            lane_rows: lane_rows::LaneRowTexts::new(&writer),
            lanes: lanes::LaneTexts::new(&writer),
            letters: letters::LetterTexts::new(&writer),
            live: live::LiveTexts::new(&writer),
            notices: notices::NoticeTexts::new(&writer),
            pauses: pauses::PauseTexts::new(&writer),
            retention: retention::RetentionTexts::new(&writer),
            sent: sent::SentTexts::new(&writer),
            waiting: waiting::WaitingTexts::new(&writer),
        }
    }
}
