//! Limits of what people do by hand.

use std::time::Duration;

/// Characters of an actor's name that the audit keeps: what fits into an indexed column of MySQL.
pub const AUDIT_ACTOR_CHARS_MAX: usize = 255;

/// The steps of a canary redrive by default, before the rest: one message shows whether anything was mended, ten whether it was more
/// than luck, and a hundred whether the receiver bears it.
pub const CANARY_STEPS: [usize; 3] = [1, 10, 100];

/// How long a step of a canary redrive waits by default until each of its messages was sent or dead-lettered again. Longer than a
/// relay of another process takes to find them and a broker to answer; short, because somebody waits for it.
pub const CANARY_OUTCOME_TIMEOUT: Duration = Duration::from_secs(60);

/// How soon a canary redrive looks for the outcome of its messages. The relay of the same process sends them within milliseconds.
pub const CANARY_POLL_INTERVAL_MIN: Duration = Duration::from_millis(20);

/// How rarely it looks in the end: each look reads the rows by their ids.
pub const CANARY_POLL_INTERVAL_MAX: Duration = Duration::from_secs(1);

/// Dead letters, and ids of waiting messages, that the report of a canary redrive has at most: people look at the first few, and a
/// payload may have megabytes.
pub const CANARY_REPORTED_MAX: usize = 100;
