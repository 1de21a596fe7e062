//! Each injected bug is found, in the smallest scope that shows it.

use diesel_outbox_model::lanes::bugs::Bug;
use diesel_outbox_model::lanes::properties;
use diesel_outbox_model::lanes::{Lanes, Policy};

use super::explore::assert_breaks;
use super::lanes::{ONE_KEY, TWO_KEYS, correct};

#[track_caller]
fn breaks(bug: Bug, broken: &'static str, keys: &'static [u8], policy: Policy, faults: u8, moves: u8) {
    let model = Lanes { bug: Some(bug), ..correct(keys, policy, faults, moves) };
    assert_breaks(&format!("{bug:?}"), model, broken);
}

#[track_caller]
fn breaks_both(bug: Bug, broken: &'static str, keys: &'static [u8], faults: u8, moves: u8) {
    breaks(bug, broken, keys, Policy::BlockKey, faults, moves);
    breaks(bug, broken, keys, Policy::DeadLetter, faults, moves);
}

#[test]
fn lane_that_is_kept_past_its_lease() {
    breaks_both(Bug::KeepsLanePastLease, properties::ONE_OWNER, &ONE_KEY[..1], 1, 0);
    breaks_both(Bug::KeepsLanePastLease, properties::COPIES_EXPLAINED, &ONE_KEY[..1], 1, 0);
}

#[test]
fn clock_that_stops_in_suspend() {
    breaks_both(Bug::ClockStopsInSuspend, properties::ONE_OWNER, &ONE_KEY[..1], 1, 0);
}

#[test]
fn lease_that_is_not_checked_at_the_send() {
    breaks_both(Bug::LeaseNotCheckedAtSend, properties::COPIES_EXPLAINED, &ONE_KEY[..1], 1, 0);
}

#[test]
fn take_over_before_the_lease_ends() {
    breaks_both(Bug::TakesBeforeLeaseEnds, properties::ONE_OWNER, &ONE_KEY[..1], 0, 0);
    breaks_both(Bug::TakesBeforeLeaseEnds, properties::COPIES_EXPLAINED, &ONE_KEY[..1], 0, 0);
}

#[test]
fn take_over_without_a_quiet_period() {
    breaks_both(Bug::NoQuietPeriod, properties::ONE_SENDER, &ONE_KEY[..1], 1, 0);
}

#[test]
fn lane_that_is_handed_over_before_it_is_drained() {
    breaks_both(Bug::HandsOverUndrained, properties::COPIES_EXPLAINED, &ONE_KEY[..1], 0, 1);
}

#[test]
fn lane_that_is_handed_over_before_it_is_settled() {
    breaks_both(Bug::HandsOverUnsettled, properties::COPIES_EXPLAINED, &ONE_KEY[..1], 0, 1);
}

#[test]
fn lane_that_is_handed_over_with_older_rows_in_flight() {
    breaks_both(Bug::HandsOverOlderInFlight, properties::ONE_SENDER, &ONE_KEY[..1], 1, 1);
}

/// Only a dead letter changes the modelled part of a row; an attempt that is spent twice is the same bug.
#[test]
fn failure_without_the_lanes_fence() {
    breaks(Bug::FailureWithoutFence, properties::FENCED, &ONE_KEY[..1], Policy::DeadLetter, 2, 0);
}

#[test]
fn next_message_before_the_outcome_of_the_one_before() {
    breaks_both(Bug::NextBeforeOutcome, properties::ONE_IN_FLIGHT, &ONE_KEY[..2], 0, 0);
    breaks_both(Bug::NextBeforeOutcome, properties::IN_ORDER, &ONE_KEY[..2], 0, 0);
}

#[test]
fn key_that_goes_on_behind_a_failed_message() {
    breaks_both(Bug::FailedKeyGoesOn, properties::IN_ORDER, &ONE_KEY[..2], 1, 0);
}

#[test]
fn retake_that_forgets_rows_in_flight() {
    breaks_both(Bug::RetakeForgetsInFlight, properties::ONE_IN_FLIGHT, &ONE_KEY[..2], 1, 0);
    breaks_both(Bug::RetakeForgetsInFlight, properties::IN_ORDER, &ONE_KEY[..2], 1, 0);
}

#[test]
fn retake_that_forgets_delivered_rows() {
    breaks_both(Bug::RetakeForgetsDelivered, properties::SENT_ONCE, &ONE_KEY[..1], 1, 0);
}

#[test]
fn read_of_rows_in_flight() {
    breaks_both(Bug::LoadsRowsInFlight, properties::SENT_ONCE, &ONE_KEY[..1], 1, 0);
}

/// Another key's row lies between the skipped row and the next one of its key: no two of its key ran at once.
#[test]
fn front_that_passes_open_transactions() {
    breaks_both(Bug::FrontPassesOpen, properties::IN_ORDER, TWO_KEYS, 0, 0);
}

#[test]
fn held_key_that_is_dead_lettered() {
    breaks(Bug::DeadLettersHeldKey, properties::HELD, &ONE_KEY[..1], Policy::BlockKey, 1, 0);
}

#[test]
fn late_rows_that_are_never_read() {
    breaks_both(Bug::NoLateRead, properties::EVERYTHING_ENDS, &ONE_KEY[..2], 1, 0);
}
