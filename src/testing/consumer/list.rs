/// Passes the name of every case to a macro: the one place where they are listed.
#[doc(hidden)]
#[macro_export]
macro_rules! __consumer_cases {
    ($callback:path $(, $($argument:tt)+)?) => {
        $callback! {
            $($($argument)+)?;
            copies_have_one_effect,
            a_redelivery_after_a_crash_has_one_effect,
            copies_at_the_same_time_have_one_effect,
            each_key_is_in_order,
            a_failed_handler_leaves_nothing,
            what_is_too_old_is_refused,
            a_shutdown_loses_nothing,
        }
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __consumer_tests {
    ($open:expr; $($case:ident,)+) => {
        $(
            #[test]
            fn $case() {
                $crate::testing::consumer::run_case($crate::testing::consumer::cases::$case, $open)
            }
        )+
    };
}

/// Creates a `#[test]` for every rule of a consumer on top of an [`Inbox`](crate::inbox::Inbox), in the current module.
///
/// Takes the function that opens one: `fn() -> Option<impl ConsumerUnderTest>`. It is called for each test. `None` skips the test; the
/// function should then say so loudly. After a semicolon name the rules, if not all should be tested: a consumer that has no order, say.
/// [`ConsumerUnderTest`](crate::testing::ConsumerUnderTest) has an example.
///
/// | test | a consumer that fails it |
/// |---|---|
/// | `copies_have_one_effect` | does not claim |
/// | `a_redelivery_after_a_crash_has_one_effect` | remembers ids elsewhere than in the database |
/// | `copies_at_the_same_time_have_one_effect` | looks for the id, and writes it later |
/// | `each_key_is_in_order` | goes on with a key after a failure |
/// | `a_failed_handler_leaves_nothing` | claims in a transaction of its own, or keeps what a failed handler wrote |
/// | `what_is_too_old_is_refused` | handles what the inbox refuses, or stops there |
/// | `a_shutdown_loses_nothing` | acknowledges what it has not processed |
#[macro_export]
macro_rules! consumer_conformance_tests {
    ($open:expr) => {
        $crate::__consumer_cases! { $crate::__consumer_tests, $open }
    };
    ($open:expr; $($case:ident),+ $(,)?) => {
        $crate::__consumer_tests! { $open; $($case,)+ }
    };
}
