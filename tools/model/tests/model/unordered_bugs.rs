//! Each injected bug is found, in the smallest scope that shows it.

use diesel_outbox_model::unordered::bugs::Bug;
use diesel_outbox_model::unordered::properties;
use diesel_outbox_model::unordered::{ClaimMode, Unordered};

use super::explore::assert_breaks;
use super::unordered::{correct, with_delays_and_redrives};

#[track_caller]
fn breaks(bug: Bug, broken: &'static str, claim_mode: ClaimMode, messages: usize, faults: u8) {
    let model = Unordered { bug: Some(bug), ..correct(claim_mode, messages, faults) };
    assert_breaks(&format!("{bug:?}, {claim_mode:?}"), model, broken);
}

#[track_caller]
fn breaks_both(bug: Bug, broken: &'static str, messages: usize, faults: u8) {
    breaks(bug, broken, ClaimMode::Locked, messages, faults);
    breaks(bug, broken, ClaimMode::Leased, messages, faults);
}

#[test]
fn send_without_confirm() {
    breaks_both(Bug::SendWithoutConfirm, properties::NO_PHANTOM, 1, 0);
}

#[test]
fn confirm_that_ignores_the_epoch() {
    breaks_both(Bug::ConfirmIgnoresEpoch, properties::HOLDER_OWNS, 1, 1);
    breaks_both(Bug::ConfirmIgnoresEpoch, properties::ONE_HOLDER, 1, 1);
}

#[test]
fn lease_that_is_not_checked() {
    breaks_both(Bug::LeaseNotChecked, properties::COPIES_EXPLAINED, 1, 0);
}

#[test]
fn clock_that_stops_in_suspend() {
    breaks_both(Bug::ClockStopsInSuspend, properties::ONE_HOLDER, 1, 1);
}

#[test]
fn lease_that_is_not_extended() {
    breaks_both(Bug::LeaseNotExtended, properties::COPIES_EXPLAINED, 1, 0);
}

#[test]
fn settle_by_id_alone() {
    breaks_both(Bug::SettleByIdAlone, properties::NOTHING_LOST, 2, 2);
}

#[test]
fn attempt_spent_in_an_outage() {
    breaks_both(Bug::AttemptSpentInOutage, properties::ATTEMPTS_EARNED, 1, 1);
}

/// By itself it breaks no send, because the hold before it raises the epoch: the write reveals it.
#[test]
fn failure_that_keeps_the_epoch() {
    breaks_both(Bug::FailKeepsEpoch, properties::EPOCHS_RISE, 1, 1);
}

#[test]
fn failure_that_ignores_the_epoch() {
    breaks_both(Bug::FailIgnoresEpoch, properties::EPOCHS_PROTECT, 1, 2);
    breaks_both(Bug::FailIgnoresEpoch, properties::HOLDER_OWNS, 1, 2);
}

/// On leased rows the claim has already raised it.
#[test]
fn hold_that_keeps_the_epoch() {
    breaks_both(Bug::HoldKeepsEpoch, properties::EPOCHS_RISE, 1, 1);
    breaks(Bug::HoldKeepsEpoch, properties::ONE_HOLDER, ClaimMode::Locked, 1, 1);
}

#[test]
fn release_before_flush() {
    breaks_both(Bug::ReleaseBeforeFlush, properties::COPIES_EXPLAINED, 1, 0);
}

#[test]
fn commit_that_was_answered_with_rollback() {
    breaks_both(Bug::CommitTagIgnored, properties::HOLDER_OWNS, 1, 1);
}

#[test]
fn failed_claim_that_is_forgotten() {
    breaks_both(Bug::ForgetsFailedClaim, properties::SENT_ONCE, 1, 1);
}

#[test]
fn outcome_after_the_close() {
    breaks_both(Bug::OutcomeAfterCloseLost, properties::EVERYTHING_ENDS, 1, 0);
}

/// Leased rows are not locked.
#[test]
fn claim_that_ignores_locks() {
    breaks(Bug::ClaimIgnoresLocks, properties::ONE_HOLDER, ClaimMode::Locked, 1, 0);
}

#[test]
fn watermark_that_passes_locked_rows() {
    breaks(Bug::WatermarkPassesLocked, properties::NOTHING_HIDDEN, ClaimMode::Locked, 2, 1);
}

#[test]
fn claim_that_ignores_a_delay() {
    for claim_mode in [ClaimMode::Locked, ClaimMode::Leased] {
        let model = Unordered { bug: Some(Bug::ClaimIgnoresDelay), ..with_delays_and_redrives(claim_mode, 1, 0) };
        assert_breaks(&format!("ClaimIgnoresDelay, {claim_mode:?}"), model, properties::NOT_BEFORE_DUE);
    }
}

#[test]
fn redrive_that_loses_the_row() {
    for claim_mode in [ClaimMode::Locked, ClaimMode::Leased] {
        let model = Unordered { bug: Some(Bug::RedriveLosesRow), ..with_delays_and_redrives(claim_mode, 1, 2) };
        assert_breaks(&format!("RedriveLosesRow, {claim_mode:?}"), model, properties::NOTHING_LOST);
    }
}

#[test]
fn settle_on_send() {
    breaks_both(Bug::SettleOnSend, properties::NOTHING_LOST, 1, 0);
}

#[test]
fn time_out_that_counts_as_delivery() {
    breaks_both(Bug::TimeOutIsDelivery, properties::NOTHING_LOST, 1, 1);
}

#[test]
fn dead_letter_that_is_dropped() {
    breaks_both(Bug::DeadLetterDropped, properties::NOTHING_LOST, 1, 2);
}
