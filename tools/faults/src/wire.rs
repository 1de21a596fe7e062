//! What the driver and an application say to each other: its configuration by a variable, then a line of JSON each.

use serde::{Deserialize, Serialize};

/// The variable with the configuration; a process that has it is an application.
pub(crate) const CONFIG: &str = "OUTBOX_FAULTS_APPLICATION";

/// What an application is to be.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Config {
    /// Which life of which application: never twice in a run.
    pub(crate) process: u32,
    pub(crate) seed: u64,
    /// By way of the proxies.
    pub(crate) database_url: String,
    pub(crate) bootstrap: String,
    pub(crate) topics: Topics,
    pub(crate) times: Times,
    pub(crate) load: Load,
    /// The mistake to make, by its name.
    pub(crate) bug: Option<String>,
}

/// The names of a run's topics.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Topics {
    pub(crate) plain: String,
    pub(crate) ordered: String,
    pub(crate) fenced: String,
    /// Its messages are older than its retention when they are sent.
    pub(crate) aged: String,
}

/// Places in [`Topics::all`].
pub(crate) const PLAIN: i16 = 0;
pub(crate) const ORDERED: i16 = 1;
pub(crate) const FENCED: i16 = 2;
pub(crate) const AGED: i16 = 3;

impl Topics {
    pub(crate) fn of_run(name: &str) -> Self {
        let named = |topic| format!("{name}.{topic}");
        Self { plain: named("plain"), ordered: named("ordered"), fenced: named("fenced"), aged: named("aged") }
    }

    pub(crate) fn all(&self) -> [(i16, &str); 4] {
        [(PLAIN, &self.plain), (ORDERED, &self.ordered), (FENCED, &self.fenced), (AGED, &self.aged)]
    }

    pub(crate) fn name(&self, place: i16) -> &str {
        match place {
            PLAIN => &self.plain,
            ORDERED => &self.ordered,
            AGED => &self.aged,
            _ => &self.fenced,
        }
    }
}

/// `retention.ms` of the aged topic: far below the age of its messages, which is an hour, and far above what passes until a message that was
/// sent is read, an outage of the broker included. At 15 s an outage of 17 s took what the consumer had not read yet.
pub(crate) const AGED_RETENTION_MS: &str = "600000";

/// Connections of a relay's pool.
pub(crate) const RELAY_CONNECTIONS: i64 = 10;
/// What the database calls them, with the process behind it.
pub(crate) const RELAY_NAME: &str = "relay-";

/// The times that decide what a fault is to outlast, in milliseconds.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct Times {
    /// `message.timeout.ms`.
    pub(crate) delivery_ms: u64,
    /// Of a row; above the delivery time-out and what the client takes to notice.
    pub(crate) lease_ms: u64,
    pub(crate) lane_lease_ms: u64,
}

impl Default for Times {
    /// As short as they may be, so that a pause past all of them is short.
    fn default() -> Self {
        Self { delivery_ms: 2_000, lease_ms: 5_000, lane_lease_ms: 3_000 }
    }
}

/// How much an application does.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct Load {
    /// Pause between the transactions of one worker.
    pub(crate) pause_ms: u64,
    /// Whether it uses the ordered topic.
    pub(crate) ordered: bool,
    /// Whether it has delayed messages, some that are refused for a while only, a fenced topic, one of old messages, and a history.
    pub(crate) all_features: bool,
}

/// What the driver tells an application.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) enum Command {
    /// No transaction is begun any more.
    StopLoad,
    /// The clock of its relay jumps forward.
    Jump { by_ms: u64 },
    /// So many messages at once.
    Burst { messages: u64 },
    /// Acknowledgements that come within this time are lost, and reported as time-outs.
    LoseAcks { for_ms: u64 },
    /// Acknowledgements that come within this time are told so much later.
    LateAcks { for_ms: u64, by_ms: u64 },
    /// Half of the messages that are sent within this time fail, and the broker has none of these.
    FailSends { for_ms: u64 },
    /// Within this time the retry policies panic, and half of the messages fail, so that the policies are asked.
    PanicPolicies { for_ms: u64 },
    /// What is dead and would be taken by now is to be redriven.
    Redrive,
    /// A topic is to be paused, by its place.
    PauseTopic { topic: i16 },
    /// Every topic is to go on.
    ResumeTopics,
    /// An orderly end.
    End,
}

/// What an application tells the driver.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) enum Report {
    /// Its relay has started, and its transactions begin.
    Running,
    /// So far: transactions by kind, and what the library counted by metric.
    Counts { transactions: Vec<(String, u64)>, metrics: Vec<(String, u64)> },
    /// Messages failed by what the client said: whatever it had beside them may be sent again. Milliseconds since 1970.
    Failed { from_ms: u64, until_ms: u64 },
    /// It stood still without having been told to: the machine was busy. Milliseconds since 1970.
    Stalled { from_ms: u64, until_ms: u64 },
}
