use super::{Case, cases};

/// Passes the name of every case to a macro: the one place where they are listed.
#[doc(hidden)]
#[macro_export]
macro_rules! __store_cases {
    ($callback:path $(, $argument:expr)?) => {
        $callback! {
            $($argument)?;
            confirm_finds_committed_rows,
            confirm_sees_no_open_transaction,
            confirm_skips_a_claimed_row,
            confirm_skips_a_failed_row,
            confirm_skips_a_delayed_row,
            confirm_requires_id_and_message_id,
            confirm_reports_the_remaining_lease,
            confirm_reads_a_locked_row,
            remaining_rows_are_those_still_there,
            claim_takes_the_oldest_first,
            claim_takes_at_most_rows_max,
            claim_takes_at_most_bytes_max,
            claim_takes_one_row_above_bytes_max,
            claim_leaves_rows_that_are_not_due,
            claim_takes_a_delayed_row_in_time,
            claim_takes_only_its_topic,
            claims_share_no_row,
            concurrent_claims_share_no_row,
            claim_skips_locked_rows,
            claim_holds_rows_by_its_mode,
            open_claim_blocks_no_insert,
            dropped_claim_releases_its_rows,
            stalled_claim_is_ended_by_the_database,
            close_removes_delivered_rows,
            close_leases_held_rows,
            close_releases_unused_rows,
            close_releases_no_row_of_another_holder,
            close_treats_each_row_by_itself,
            close_without_rows_does_nothing,
            settle_removes_whatever_the_epoch,
            settle_returns_what_it_removed,
            settle_requires_id_and_message_id,
            settle_skips_locked_rows,
            settle_waits_for_locked_rows,
            settle_dead_letters_removes_them,
            settle_dead_letters_requires_id_and_message_id,
            extend_renews_the_lease,
            extend_requires_its_epoch,
            extend_skips_locked_rows,
            fail_counts_and_backs_off,
            fail_spends_an_attempt_only_if_requested,
            fail_records_each_row_separately,
            fail_bounds_the_wait,
            fail_keeps_the_last_errors,
            fail_keeps_any_text,
            fail_makes_a_suspect_by_a_refusal,
            fail_requires_its_epoch,
            dead_letter_keeps_reason_and_failures,
            dead_letter_of_an_existing_dead_letter_removes_the_row,
            dead_letter_stores_any_reason,
            dead_letter_requires_its_epoch,
            dead_letter_accepts_a_poisoned_row,
            poll_reports_each_topic,
            poll_reports_delays_of_years,
            poll_reports_the_next_row_not_due,
            poll_stays_in_its_range,
            poll_goes_back_as_far_as_requested,
            poll_watermark_hides_no_locked_row,
            poll_watermark_hides_no_late_commit,
            backlog_counts_each_topic,
            backlog_counts_held_rows,
            backlog_reports_topics_with_dead_letters_only,
            backlog_stops_at_count_max,
            backlog_sees_no_open_transaction,
            backlog_counts_rows_in_lanes,
            due_is_never_set_to_the_past,
            watermark_hides_no_later_row,
            watermark_hides_no_row_left,
            watermark_hides_no_released_row,
            successive_claims_take_every_row_once,
            successive_claims_may_be_open_at_once,
            watermark_hides_no_locked_row,
            watermark_hides_no_late_commit,
            message_comes_back_whole,
            key_of_any_text_comes_back,
            bare_message_comes_back,
            tombstone_is_no_empty_payload,
            payload_of_900_kb_comes_back,
            poisoned_row_stops_no_other,
            a_thousand_rows_are_settled_in_one_call,
            a_thousand_rows_are_dead_lettered_in_one_call,
            empty_calls_do_nothing,
            check_finds_nothing_wrong,
            lanes_keep_their_number,
            lanes_are_made_by_one_node,
            lanes_are_checked_against_existing_rows,
            lanes_are_checked_against_the_last_rows_too,
            lanes_are_shared_fairly,
            concurrent_balances_share_no_lane,
            lane_is_taken_over_when_its_lease_ends,
            owned_lanes_are_renewed_by_each_balance,
            leaving_node_is_no_longer_counted,
            lane_entries_come_by_id,
            lane_horizon_follows_open_transactions,
            lane_rows_are_those_still_there,
            lane_rows_are_no_claims,
            lane_failure_leaves_the_row_in_its_place,
            concurrent_lane_failures_are_all_recorded,
            lane_writes_require_owner_and_fence,
            lane_row_becomes_a_dead_letter,
            empty_lane_calls_do_nothing,
            half_message_follows_its_transaction,
            half_message_of_an_open_transaction_is_open,
            half_message_of_a_rolled_back_savepoint_is_rolled_back,
            half_message_without_a_mark_is_void_for_good,
            half_message_is_decided_once_for_concurrent_checks,
            half_message_of_a_dead_process_is_rolled_back,
            half_marks_are_removed,
            cancel_removes_a_delayed_row,
            cancel_finds_only_delayed_rows,
            cancel_leaves_claimed_rows,
            send_now_makes_a_waiting_row_due,
            send_now_leaves_held_rows,
            cancel_waiting_removes_what_nobody_holds,
            cancel_waiting_leaves_held_rows,
            live_message_has_the_whole_message,
            live_messages_have_their_states,
            live_messages_come_in_pages,
            live_scans_are_bounded,
            live_messages_are_found_by_condition,
            live_messages_are_counted,
            live_messages_are_counted_by_time,
            live_topics_and_lanes_are_found,
            live_lane_is_read_by_row_id,
            failed_key_has_its_neighbours,
            dead_letter_has_the_whole_message,
            dead_letters_come_in_pages,
            dead_letters_are_found_up_to_the_end_of_a_scan,
            dead_letters_are_found_by_filter,
            dead_letters_are_counted,
            dead_letters_are_grouped,
            redrive_requeues_dead_letters,
            redrive_goes_to_the_tail_of_a_lane,
            edited_message_replaces_its_dead_letter,
            edited_message_goes_to_the_tail_of_a_lane,
            edit_requires_a_dead_letter,
            tables_have_no_problems,
            lanes_are_counted_by_topic,
            pause_is_seen_by_every_poll,
            pause_begins_once_and_ends_once,
            paused_rows_stay_as_they_are,
            settle_into_history_moves_the_whole_message,
            settle_into_history_again_changes_nothing,
            settle_into_history_requires_id_and_message_id,
            settle_into_history_respects_locks,
            close_moves_delivered_rows_into_history,
            rows_without_history_are_deleted,
            settle_dead_letters_into_history_moves_them,
            a_thousand_rows_move_into_history_in_one_call,
            sent_of_key_comes_in_pages,
            sent_is_counted,
            lane_row_moves_into_history,
            sent_message_knows_its_row,
            sent_scan_reads_a_topic_and_a_period,
            sent_scans_are_bounded,
            prune_removes_expired_messages,
            prune_is_bounded,
            concurrent_prunes_share_the_work,
            ensure_partitions_can_be_repeated,
            old_dead_letters_are_pruned,
            processed_report_is_recorded_once,
            processed_report_waits_for_its_message,
            processed_report_concurrent_with_a_settle_is_not_lost,
            old_processed_reports_are_applied_to_their_messages,
            unprocessed_comes_in_pages,
            resend_requeues_messages,
            resend_survives_a_late_settle,
            resend_goes_to_the_tail_of_a_lane,
            redrive_requeues_into_the_given_lane,
            resend_requeues_into_the_given_lane,
            redriven_messages_are_found_where_redrive_says,
            audit_entry_has_the_whole_record,
            each_admin_write_is_recorded,
            each_write_to_dead_letters_is_recorded,
            each_write_to_the_history_is_recorded,
            audit_entry_of_several_writes_counts_up,
            audit_notes_what_changes_nothing,
            audit_comes_in_pages,
            audit_entries_are_found_by_filter,
            old_audit_entries_are_pruned,
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
                $crate::internals::store_suite::run_case($crate::internals::store_suite::cases::$case, $open)
            }
        )+
    };
}

/// Creates a `#[test]` for every case of the store conformance suite, in the current module.
///
/// Takes the function that opens a store over empty tables: an `async fn() -> Option<impl StoreUnderTest>`. It is called for each
/// test. `None` skips the test; the function should then print why.
#[doc(hidden)]
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
