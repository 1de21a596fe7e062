//! Each injected bug is found, in the smallest scope that shows it.

use diesel_outbox_model::consumers::bugs::Bug;
use diesel_outbox_model::consumers::properties;
use diesel_outbox_model::consumers::{Consumers, Progress};

use super::consumers::{ALL, COPY, KEYS, SPREAD, TWO, aging, correct};
use super::explore::assert_breaks;

const WITH_INBOX: [Progress; 2] = [Progress::Inbox, Progress::InboxAndOffsets];
const WITH_OFFSETS: [Progress; 2] = [Progress::Offsets, Progress::InboxAndOffsets];

#[track_caller]
fn breaks(bug: Bug, broken: &'static str, model: Consumers) {
    let name = format!("{bug:?}, {:?}", model.progress);
    assert_breaks(&name, Consumers { bug: Some(bug), ..model }, broken);
}

#[test]
fn offset_that_is_committed_before_the_work() {
    for progress in ALL {
        breaks(Bug::OffsetBeforeCommit, properties::BROKER_BEHIND, correct(progress, &TWO[..1], 0, 0));
    }
    breaks(Bug::OffsetBeforeCommit, properties::EVERYTHING_ENDS, correct(Progress::Inbox, &TWO[..1], 1, 0));
}

/// With offsets in the database a partition's records run one after the other.
#[test]
fn offset_that_passes_an_unfinished_record() {
    breaks(Bug::OffsetPassesGap, properties::BROKER_BEHIND, correct(Progress::Inbox, &KEYS[..2], 0, 0));
}

#[test]
fn partition_that_is_handed_over_unfinished() {
    for progress in ALL {
        breaks(Bug::HandsOverUnfinished, properties::BROKER_BEHIND, correct(progress, &TWO[..1], 0, 1));
    }
}

#[test]
fn answer_that_is_lost_and_counts() {
    for progress in ALL {
        breaks(Bug::LostAnswerIsDone, properties::BROKER_BEHIND, correct(progress, &TWO[..1], 1, 0));
    }
}

/// With both, the inbox still recognises what the zombie processes.
#[test]
fn offset_that_is_not_compared() {
    breaks(Bug::OffsetNotCompared, properties::ONCE, correct(Progress::Offsets, &TWO[..1], 1, 0));
    breaks(Bug::OffsetNotCompared, properties::RECOGNISED, correct(Progress::Offsets, &TWO[..1], 1, 0));
    for progress in WITH_OFFSETS {
        breaks(Bug::OffsetNotCompared, properties::NEVER_BACK, correct(progress, TWO, 1, 0));
    }
}

#[test]
fn opening_that_overwrites_the_offset() {
    breaks(Bug::OpeningOverwritesOffset, properties::ONCE, correct(Progress::Offsets, &TWO[..1], 1, 0));
    for progress in WITH_OFFSETS {
        breaks(Bug::OpeningOverwritesOffset, properties::NEVER_BACK, correct(progress, &TWO[..1], 1, 0));
    }
}

#[test]
fn claim_outside_of_the_transaction() {
    breaks(Bug::ClaimOutsideTransaction, properties::BROKER_BEHIND, correct(Progress::Inbox, &TWO[..1], 1, 0));
    for progress in WITH_OFFSETS {
        breaks(Bug::ClaimOutsideTransaction, properties::DATABASE_BEHIND, correct(progress, &TWO[..1], 0, 0));
    }
    for progress in ALL {
        breaks(Bug::ClaimOutsideTransaction, properties::EVERYTHING_ENDS, correct(progress, &TWO[..1], 1, 0));
    }
}

/// The claim fails, and the record is read again after a crash.
#[test]
fn error_of_a_claim_that_is_swallowed() {
    for progress in WITH_INBOX {
        breaks(Bug::ClaimErrorSwallowed, properties::ONCE, correct(progress, &TWO[..1], 2, 0));
    }
}

#[test]
fn entry_that_names_the_place() {
    for progress in WITH_INBOX {
        breaks(Bug::EntryOfPlace, properties::ONCE, correct(progress, COPY, 0, 0));
    }
}

#[test]
fn prune_above_the_start() {
    breaks(Bug::PrunesEarly, properties::ONCE, correct(Progress::Inbox, &TWO[..1], 1, 0));
    for progress in WITH_INBOX {
        breaks(Bug::PrunesEarly, properties::ONCE, correct(progress, SPREAD, 0, 0));
    }
}

#[test]
fn prune_that_moves_the_start_last() {
    breaks(Bug::StartMovesLast, properties::ONCE, aging(Progress::Inbox, &TWO[..1], 1, 0, 1));
    breaks(Bug::StartMovesLast, properties::ONCE, aging(Progress::Inbox, SPREAD, 0, 0, 1));
}

/// The claim waits for its locks while the start moves and the entry goes.
#[test]
fn start_that_is_read_first() {
    for progress in WITH_INBOX {
        breaks(Bug::StartReadFirst, properties::ONCE, aging(progress, SPREAD, 0, 0, 1));
    }
    breaks(Bug::StartReadFirst, properties::ONCE, aging(Progress::Inbox, &TWO[..1], 1, 0, 1));
}

#[test]
fn message_that_is_too_old_and_counts_as_processed() {
    breaks(Bug::TooOldIsDuplicate, properties::BROKER_BEHIND, aging(Progress::Inbox, &TWO[..1], 0, 0, 1));
    breaks(Bug::TooOldIsDuplicate, properties::DATABASE_BEHIND, aging(Progress::InboxAndOffsets, &TWO[..1], 0, 0, 1));
}

#[test]
fn message_that_is_too_old_and_counts_as_new() {
    breaks(Bug::TooOldIsNew, properties::ONCE, aging(Progress::Inbox, &TWO[..1], 1, 0, 1));
}

#[test]
fn two_records_of_a_key_at_once() {
    breaks(Bug::TwoOfKey, properties::IN_ORDER, correct(Progress::Inbox, TWO, 0, 0));
    breaks(Bug::TwoOfKey, properties::ONE_OF_KEY, correct(Progress::Inbox, TWO, 0, 0));
}
