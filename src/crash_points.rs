//! The steps between COMMIT and settle at which a process can die, named so that a test can die at each.
//!
//! They are compiled only with the private feature `_failpoints`; otherwise they are nothing.

macro_rules! crash_points {
    ($($name:ident = $text:literal, $help:literal;)+) => {
        // Some are of one transport.
        $(
            #[doc = $help]
            #[cfg_attr(not(all(feature = "kafka", feature = "rocketmq", feature = "sqlite", feature = "r2d2")), allow(dead_code))]
            pub(crate) const $name: &str = $text;
        )+

        /// Every crash point. A test kills a process at each and fails where one is never reached.
        #[cfg(feature = "_failpoints")]
        #[doc(hidden)]
        pub const ALL: &[&str] = &[$($text,)+];
    };
}

crash_points! {
    COMMITTED = "hook::committed", "After COMMIT answered, before the hook hands over.";
    HANDED_OVER = "hook::handed_over", "After the hook handed over.";
    CONFIRMED = "relay::confirmed", "After the confirm read, before the first send.";
    SENT = "relay::sent", "After a message was handed to the transport.";
    ACKNOWLEDGED = "relay::acknowledged", "When an acknowledgement arrives, before anything notes it.";
    SETTLING = "relay::settling", "Before the statement that removes delivered rows.";
    SETTLED = "relay::settled", "After that statement, before the process notes it.";
    EXTENDED = "relay::extended", "After leases were extended, before the process notes it.";
    FAILING = "relay::failing", "Before a failure is written.";
    DEAD_LETTERING = "relay::dead_lettering", "Before a message is moved to the dead letters.";
    CLAIMED = "sweeper::claimed", "After rows were claimed, before the first send.";
    CLOSING = "sweeper::closing", "Before a claim is closed.";
    HALF_SENT = "half::sent", "After the broker took a half message, before its transaction.";
    HALF_MARKED = "half::marked", "After the transaction of a half message wrote its mark, before COMMIT.";
    HALF_ENDING = "half::ending", "After the transaction of a half message, before anything is done about it.";
    HALF_DECIDED = "half::decided", "After the database said what became of it, before the broker is told.";
    HALF_FORGETTING = "half::forgetting", "After the broker was told, before the mark is removed.";
    CLOSED = "sweeper::closed", "After a claim was closed, before the process notes it.";
    LANE_RENEWED = "lane::renewed", "After lanes were taken or extended, before the process notes it.";
    LANE_FENCED = "lane::fenced", "After the broker fenced a lane, before the first message leaves by it.";
    LANE_RECOVERED = "lane::recovered", "After it was read what an exactly-once lane has delivered, before the lane opens.";
    LANE_LOADED = "lane::loaded", "After the rows of lanes whose turn it is were read, before the first send.";
    LANE_COMMITTING = "lane::committing", "After the broker took the messages of a fenced lane, before their transaction ends.";
    LANE_COMMITTED = "lane::committed", "After the broker committed the messages of a fenced lane, before an outcome is reported.";
    LANE_RELEASING = "lane::releasing", "Before lanes are handed over.";
    CONSUMER_CLAIMED = "consumer::claimed", "After a consumer claimed a record, before its handler.";
    CONSUMER_HANDLED = "consumer::handled", "After the handler, before anything else.";
    CONSUMER_COMMITTING = "consumer::committing", "Before COMMIT is sent.";
    CONSUMER_COMMITTED = "consumer::committed", "After COMMIT answered, before the process notes it.";
    CONSUMER_PARKED = "consumer::parked", "After a record was parked, before the process notes it.";
    CONSUMER_COMMITTING_OFFSETS = "consumer::committing_offsets", "Before offsets are committed.";
    CONSUMER_OFFSETS_COMMITTED = "consumer::offsets_committed", "After offsets were sent to the broker.";
    LANE_RELEASED = "lane::released", "After lanes were handed over, before the process notes it.";
}

/// Marks a step of the way from COMMIT to settle.
macro_rules! crash_point {
    ($name:ident) => {
        #[cfg(feature = "_failpoints")]
        fail::fail_point!($crate::crash_points::$name);
        #[cfg(not(feature = "_failpoints"))]
        let _ = $crate::crash_points::$name;
    };
}

pub(crate) use crash_point;
