use super::{Case, cases};

/// Hands the name of every case to a macro: the one place where they are listed.
#[doc(hidden)]
#[macro_export]
macro_rules! __store_cases {
    ($callback:path $(, $argument:expr)?) => {
        $callback! {
            $($argument)?;
            confirm_finds_what_is_committed,
            confirm_sees_no_open_transaction,
            confirm_passes_over_a_claimed_row,
            confirm_passes_over_a_failed_row,
            confirm_passes_over_a_delayed_row,
            confirm_wants_id_and_message_id,
            confirm_tells_the_lease_left,
            confirm_reads_a_locked_row,
            remaining_rows_are_those_still_there,
            claim_takes_the_oldest_first,
            claim_takes_at_most_rows_max,
            claim_takes_at_most_bytes_max,
            claim_takes_one_row_above_bytes_max,
            claim_leaves_what_is_not_due,
            claim_takes_a_delayed_row_in_time,
            claim_takes_only_its_topic,
            claims_share_no_row,
            concurrent_claims_share_no_row,
            claim_passes_over_locked_rows,
            claim_holds_as_it_says,
            open_claim_blocks_no_insert,
            dropped_claim_gives_its_rows_back,
            forgotten_claim_ends_by_itself,
            close_removes_what_was_delivered,
            close_leases_what_is_held,
            close_gives_the_rest_back,
            close_gives_back_no_row_of_another_holder,
            close_treats_each_row_by_itself,
            close_without_rows_does_nothing,
            settle_removes_whatever_the_epoch,
            settle_returns_what_it_removed,
            settle_wants_id_and_message_id,
            settle_passes_over_locked_rows,
            settle_waits_for_locked_rows,
            settle_dead_removes_dead_letters,
            settle_dead_wants_id_and_message_id,
            extend_prolongs_the_lease,
            extend_wants_its_epoch,
            extend_passes_over_locked_rows,
            fail_counts_and_waits,
            fail_spends_an_attempt_only_if_told,
            fail_notes_each_row_by_itself,
            fail_waits_no_longer_than_it_may,
            fail_keeps_the_last_errors,
            fail_keeps_any_text,
            fail_makes_a_suspect_by_a_refusal,
            fail_wants_its_epoch,
            dead_moves_with_reason_and_history,
            dead_meets_a_dead_letter,
            dead_keeps_any_reason,
            dead_wants_its_epoch,
            dead_takes_a_poisoned_row,
            look_tells_each_topic,
            look_tells_of_years,
            look_tells_what_comes_later,
            look_keeps_to_its_range,
            look_goes_back_as_far_as_is_said,
            look_watermark_hides_no_locked_row,
            look_watermark_hides_no_late_commit,
            backlog_counts_each_topic,
            backlog_counts_what_is_held,
            backlog_tells_topics_with_dead_letters_only,
            backlog_stops_at_count_max,
            backlog_sees_no_open_transaction,
            backlog_counts_rows_in_lanes,
            due_is_never_set_to_the_past,
            watermark_hides_no_later_row,
            watermark_hides_no_row_left,
            watermark_hides_no_row_given_back,
            pass_takes_every_row_once,
            pass_goes_on_while_its_claims_are_open,
            watermark_hides_no_locked_row,
            watermark_hides_no_late_commit,
            message_comes_back_whole,
            key_of_any_text_comes_back,
            bare_message_comes_back,
            tombstone_is_no_empty_payload,
            payload_of_900_kb_comes_back,
            poisoned_row_stops_no_other,
            a_thousand_rows_go_in_one_call,
            a_thousand_rows_die_in_one_call,
            empty_calls_do_nothing,
            check_finds_nothing_wrong,
            lanes_keep_their_number,
            lanes_are_made_by_one_node,
            lanes_fit_the_rows_that_wait,
            lanes_fit_the_last_rows_too,
            lanes_are_shared_fairly,
            concurrent_keeps_share_no_lane,
            lane_is_taken_over_when_its_lease_ends,
            what_a_keep_tells_as_owned_is_leased_anew,
            leaving_node_is_no_longer_counted,
            lane_entries_come_by_id,
            lane_horizon_follows_open_transactions,
            lane_rows_are_those_still_there,
            lane_rows_are_no_claims,
            lane_failure_leaves_the_row_in_its_place,
            lane_failures_at_once_are_all_noted,
            lane_writes_want_owner_and_fence,
            lane_row_becomes_a_dead_letter,
            empty_lane_calls_do_nothing,
            half_is_what_its_transaction_became,
            half_of_an_open_transaction_is_open,
            half_of_a_lost_savepoint_is_rolled_back,
            half_without_a_mark_is_void_for_good,
            half_is_decided_once_for_all_who_ask,
            half_of_a_dead_process_is_rolled_back,
            half_marks_are_removed,
            cancel_takes_a_delayed_row_back,
            cancel_knows_only_delayed_rows,
            cancel_leaves_what_a_claim_has,
            send_now_makes_a_waiting_row_due,
            send_now_takes_nothing_from_its_holder,
            letter_tells_all_that_is_known,
            letters_come_in_pages,
            letters_are_found_by_filter,
            letters_are_counted,
            redrive_brings_letters_back,
            redrive_goes_to_the_tail_of_a_lane,
            edited_letter_takes_the_place_of_the_old,
            edited_letter_goes_to_the_tail_of_a_lane,
            edit_wants_a_dead_letter,
            pause_is_seen_by_every_look,
            pause_begins_once_and_ends_once,
            paused_rows_stay_as_they_are,
            settle_kept_moves_a_message_whole,
            settle_kept_again_changes_nothing,
            settle_kept_wants_id_and_message_id,
            settle_kept_respects_locks,
            close_keeps_what_was_delivered,
            what_is_not_kept_is_deleted,
            settle_dead_kept_moves_dead_letters,
            a_thousand_rows_are_kept_in_one_call,
            sent_of_key_comes_in_pages,
            sent_is_counted,
            lane_row_is_kept,
            prune_removes_what_is_kept_no_longer,
            prune_is_bounded,
            concurrent_prunes_share_the_work,
            room_is_made_again_and_again,
            old_dead_letters_go,
            mark_stands_once_it_is_made,
            mark_waits_for_its_message,
            mark_beside_a_settle_is_not_lost,
            old_marks_go_to_their_messages,
            unprocessed_comes_in_pages,
            send_again_brings_messages_back,
            send_again_outlives_a_late_settle,
            send_again_goes_to_the_tail_of_a_lane,
            redrive_goes_to_the_lane_that_is_said,
            send_again_goes_to_the_lane_that_is_said,
        }
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __store_tests {
    ($open:expr; $($case:ident,)+) => {
        $(
            #[test]
            fn $case() {
                $crate::testing::store::run_case($crate::testing::store::cases::$case, $open)
            }
        )+
    };
}

/// Makes a `#[test]` of every case of the store conformance suite, in the module where it stands.
///
/// Takes what opens a store over empty tables: an `async fn() -> Option<impl StoreUnderTest>`. It is called for each
/// test; `None` passes the test over, and it is the opener's part to say so loudly. See [`testing::store`].
///
/// [`testing::store`]: crate::testing::store
#[macro_export]
macro_rules! store_conformance_tests {
    ($open:expr) => {
        $crate::__store_cases! { $crate::__store_tests, $open }
    };
}

macro_rules! case_list {
    (; $($case:ident,)+) => {
        /// Every case of the suite.
        pub const CASES: &[Case] = &[
            $(Case { name: stringify!($case), run: |under_test| Box::pin(cases::$case(under_test)) },)+
        ];
    };
}

__store_cases! { case_list }
