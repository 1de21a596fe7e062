//! Each case finds the mistake that it is there for.

use std::panic::{AssertUnwindSafe, catch_unwind};

use diesel_outbox::testing::consumer::{cases, run_case};

use super::own::{Mistake, Own};

/// Why a case fails; `None` if it passes.
fn failure(case: impl FnOnce(&Own), mistake: Mistake) -> Option<String> {
    let run = AssertUnwindSafe(|| run_case(case, || Some(Own::making(mistake))));
    let panicked = catch_unwind(run).err()?;
    Some(*panicked.downcast::<String>().expect("a text with something in it"))
}

macro_rules! mistakes {
    ($($test:ident: $mistake:ident fails $case:ident, $says:literal;)+) => {
        $(#[test]
        fn $test() {
            let failure = failure(cases::$case, Mistake::$mistake).expect("the case finds it");
            assert!(failure.contains($says), "{failure}");
        })+

        const FAILED: &[&str] = &[$(stringify!($case)),+];
    };
}

mistakes! {
    a_consumer_that_claims_nothing_sqlite: ClaimsNothing fails copies_have_one_effect, "a copy had an effect";
    a_consumer_that_remembers_in_memory_sqlite: RemembersInMemory fails a_redelivery_after_a_crash_has_one_effect,
        "an effect in two processes";
    a_consumer_that_looks_first_sqlite: LooksFirst fails copies_at_the_same_time_have_one_effect,
        "two that got one message at the same time";
    a_consumer_that_retries_later_sqlite: RetriesLater fails each_key_is_in_order, "not handled in order";
    a_consumer_that_claims_apart_sqlite: ClaimsApart fails a_failed_handler_leaves_nothing, "the claim of a failed handler";
    a_consumer_that_ignores_errors_sqlite: IgnoresErrors fails a_failed_handler_leaves_nothing, "was ignored";
    a_consumer_that_handles_what_is_too_old_sqlite: HandlesTooOld fails what_is_too_old_is_refused, "refuses as too old";
    a_consumer_that_acknowledges_first_sqlite: AcknowledgesFirst fails a_shutdown_loses_nothing,
        "acknowledged before it was processed";
}

macro_rules! names {
    (; $($case:ident,)+) => {
        const CASES: &[&str] = &[$(stringify!($case)),+];
    };
}

diesel_outbox::__consumer_cases! { names }

#[test]
fn each_case_has_a_mistake_that_it_finds() {
    let mut failed = FAILED.to_vec();
    failed.dedup();
    assert_eq!(CASES, failed);
}
