//! The steps between COMMIT and settle at which a process can die, named so that a test can die at each.
//!
//! They are compiled only with the private feature `_failpoints`; otherwise they are nothing.

macro_rules! crash_points {
    ($($name:ident = $text:literal, $help:literal;)+) => {
        $(#[doc = $help] pub(crate) const $name: &str = $text;)+

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
    EXTENDED = "relay::extended", "After leases were prolonged, before the process notes it.";
    FAILING = "relay::failing", "Before a failure is written.";
    DYING = "relay::dying", "Before a message is moved to the dead letters.";
    CLAIMED = "sweeper::claimed", "After rows were claimed, before the first send.";
    CLOSING = "sweeper::closing", "Before a claim is closed.";
    CLOSED = "sweeper::closed", "After a claim was closed, before the process notes it.";
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
