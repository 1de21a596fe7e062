use super::{Case, cases};

/// Passes the name of every case to a macro: the one place where they are listed.
#[doc(hidden)]
#[macro_export]
macro_rules! __transport_cases {
    ($callback:path $(, $($argument:tt)+)?) => {
        $callback! {
            $($($argument)+)?;
            prepare_is_idempotent_and_probe_succeeds,
            each_message_gets_one_outcome,
            order_per_key_is_kept,
            stored_messages_match_sent_messages,
            flush_waits_for_every_outcome,
            only_oversized_messages_are_refused,
            unknown_topic_is_a_topic_failure,
            full_queue_is_busy,
            authentication_failure_hides_secrets,
            stopped_broker_is_an_outage_until_restarted,
            frozen_broker_times_out_every_message,
            send_never_blocks,
            dropping_the_transport_fails_held_messages,
            fencing_a_lane_shuts_out_the_previous_owner,
            fenced_lane_keeps_the_order_of_a_sequence,
            refused_message_stops_only_its_own_sequence,
            exactly_once_lane_sends_no_row_twice,
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
    ($open:expr, [$($skipped:ident),+]; $($case:ident,)+) => {
        // A name that is no case does not compile.
        const _: () = {
            $(let _ = $crate::testing::transport::cases::$skipped;)+
        };
        macro_rules! __unless_skipped {
            $(($skipped, $opens:expr) => {};)+
            ($held:ident, $opens:expr) => {
                $crate::__transport_tests! { $opens; $held, }
            };
        }
        $(__unless_skipped! { $case, $open })+
    };
}

/// Creates a `#[test]` for every case of the transport conformance suite, in the current module.
///
/// Takes the function that opens a broker: an `async fn() -> Option<impl TransportUnderTest>`. It is called for each test. `None`
/// skips the test; the function should then say so loudly. The [`TransportUnderTest`](crate::testing::TransportUnderTest) creates
/// transports, reads back what the broker holds, and causes faults.
///
/// Cases assert and panic. A case also panics, with the reason, if the broker or the transport lacks what it needs: leave it out by
/// name, so that the list says what is tested.
///
/// | Case | What it checks |
/// |---|---|
/// | `prepare_is_idempotent_and_probe_succeeds` | `prepare` may be called again; a running broker answers a probe |
/// | `each_message_gets_one_outcome` | a thousand messages are each delivered, and stored once |
/// | `order_per_key_is_kept` | messages of a key are stored in the order in which they were sent |
/// | `stored_messages_match_sent_messages` | key, payload, headers and times arrive as they are in the row |
/// | `flush_waits_for_every_outcome` | `flush` returns 0 when every outcome has arrived |
/// | `only_oversized_messages_are_refused` | a message that is too large fails for good; its neighbours are delivered |
/// | `unknown_topic_is_a_topic_failure` | an unknown topic is reported in time, stops no other, and works once it is there |
/// | `full_queue_is_busy` | a full client says so at once; it delivers what it took, and nothing else |
/// | `authentication_failure_hides_secrets` | the error of a refused client does not contain its password |
/// | `stopped_broker_is_an_outage_until_restarted` | without a broker messages fail as an outage, in time; then all works again |
/// | `frozen_broker_times_out_every_message` | the same for a broker that keeps its connections and does not answer |
/// | `send_never_blocks` | 20,000 calls without a broker return at once |
/// | `dropping_the_transport_fails_held_messages` | messages that a dropped transport held fail, once |
/// | `fencing_a_lane_shuts_out_the_previous_owner` | once another client has fenced a lane, messages of its previous owner fail |
/// | `fenced_lane_keeps_the_order_of_a_sequence` | many messages of one key in flight are stored in order |
/// | `refused_message_stops_only_its_own_sequence` | a message that fails stops the later ones of its key, and no others |
/// | `exactly_once_lane_sends_no_row_twice` | a row that a lane delivered is not sent again by its next owner |
///
/// ```
/// use diesel_outbox::async_trait;
/// use diesel_outbox::testing::{StoredMessage, TransportUnderTest};
/// use diesel_outbox::transport::{MemoryTransport, Transport};
///
/// struct Memory(MemoryTransport);
///
/// #[async_trait]
/// impl TransportUnderTest for Memory {
///     fn transport(&self) -> Box<dyn Transport> {
///         Box::new(self.0.clone())
///     }
///     async fn stored(&self, topic: &str) -> Vec<StoredMessage> {
///         self.0.delivered_to(topic).iter().map(StoredMessage::of).collect()
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
/// diesel_outbox::transport_conformance_tests! { open; without full_queue_is_busy, frozen_broker_times_out_every_message }
/// # }
/// # mod one { use super::open;
/// diesel_outbox::transport_conformance_tests! { open; order_per_key_is_kept }
/// # }
/// # fn main() {}
/// ```
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
