//! Every log event at INFO and above: its id, level, fields, text, and what to do about it.
//!
//! Each event has its id in the field `event`, so that a log search or an alert does not depend on texts. A repeated WARN is logged once a
//! minute, and in between as DEBUG.

#![cfg_attr(
    not(feature = "_internals"),
    allow(unreachable_pub, dead_code, unused_imports, reason = "tests read the whole table")
)]

mod event;
mod table;

pub use event::Event;
pub(crate) use table::*;

/// Every event of the crate.
pub const ALL: &[Event] = EVERY;

/// Logs an event of the table with its fields, as `tracing::event!` does.
macro_rules! log_event {
    ($event:ident $(, $($field:tt)+)?) => {
        ::tracing::event!(
            $crate::events::$event.level,
            event = $crate::events::$event.id,
            $($($field)+,)?
            "{}",
            $crate::events::$event.text
        )
    };
}

pub(crate) use log_event;
