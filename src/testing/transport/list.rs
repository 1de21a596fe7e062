use super::{Case, cases};

/// Hands the name of every case to a macro: the one place where they are listed.
#[doc(hidden)]
#[macro_export]
macro_rules! __transport_cases {
    ($callback:path $(, $($argument:tt)+)?) => {
        $callback! {
            $($($argument)+)?;
            prepares_and_probes,
            reports_one_outcome_each,
            keeps_the_order_of_a_key,
            stores_what_was_sent,
            flush_waits_for_every_outcome,
            refuses_what_is_too_large_and_nothing_else,
            an_unknown_topic_is_of_the_topic,
            a_full_queue_is_busy,
            who_is_not_let_in_hears_so_without_secrets,
            an_absent_broker_is_an_outage_until_it_is_back,
            a_silent_broker_keeps_no_message,
            send_never_blocks,
            a_dropped_transport_reports_what_it_held,
            a_fenced_lane_refuses_the_one_before_it,
            a_fenced_lane_keeps_the_order_of_a_run,
            a_refused_message_stops_its_run_and_no_other,
        }
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __transport_tests {
    ($open:expr; $($case:ident,)+) => {
        $(
            #[test]
            fn $case() {
                $crate::testing::transport::run_case($crate::testing::transport::cases::$case, $open)
            }
        )+
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __transport_tests_without {
    ($open:expr, [$($left_out:ident),+]; $($case:ident,)+) => {
        // What is no case does not compile.
        const _: () = {
            $(let _ = $crate::testing::transport::cases::$left_out;)+
        };
        macro_rules! __unless_left_out {
            $(($left_out, $opens:expr) => {};)+
            ($held:ident, $opens:expr) => {
                $crate::__transport_tests! { $opens; $held, }
            };
        }
        $(__unless_left_out! { $case, $open })+
    };
}

/// Makes a `#[test]` of every case of the transport conformance suite, in the module where it stands.
///
/// Takes what opens a broker: an `async fn() -> Option<impl TransportUnderTest>`. It is called for each test; `None`
/// passes the test over, and it is the opener's part to say so loudly. A case for which the broker lacks something fails;
/// leave it out by its name. See [`testing::transport`].
///
/// ```
/// use diesel_outbox::async_trait;
/// use diesel_outbox::testing::transport::{Stored, TransportUnderTest};
/// use diesel_outbox::transport::{MemoryTransport, Transport};
///
/// struct Memory(MemoryTransport);
///
/// #[async_trait]
/// impl TransportUnderTest for Memory {
///     fn transport(&self) -> Box<dyn Transport> {
///         Box::new(self.0.clone())
///     }
///     async fn stored(&self, topic: &str) -> Vec<Stored> {
///         self.0.delivered_to(topic).iter().map(Stored::of).collect()
///     }
/// }
///
/// async fn open() -> Option<Memory> {
///     Some(Memory(MemoryTransport::new()))
/// }
///
/// # mod all { use super::open;
/// diesel_outbox::transport_conformance_tests!(open);
/// # }
/// # mod all_but_two { use super::open;
/// diesel_outbox::transport_conformance_tests! { open; without a_full_queue_is_busy, a_silent_broker_keeps_no_message }
/// # }
/// # mod one { use super::open;
/// diesel_outbox::transport_conformance_tests! { open; keeps_the_order_of_a_key }
/// # }
/// # fn main() {}
/// ```
///
/// [`testing::transport`]: crate::testing::transport
#[macro_export]
macro_rules! transport_conformance_tests {
    ($open:expr) => {
        $crate::__transport_cases! { $crate::__transport_tests, $open }
    };
    ($open:expr; without $($case:ident),+ $(,)?) => {
        $crate::__transport_cases! { $crate::__transport_tests_without, $open, [$($case),+] }
    };
    ($open:expr; $($case:ident),+ $(,)?) => {
        $crate::__transport_tests! { $open; $($case,)+ }
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

__transport_cases! { case_list }
