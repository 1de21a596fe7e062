//! The protocol between driver and application: the configuration in a variable, then a line of JSON for each command
//! and report.

use serde::{Deserialize, Serialize};

/// The variable with the configuration; a process that has it is an application.
pub(crate) const CONFIG: &str = "OUTBOX_FAULTS_APPLICATION";

/// An application's configuration.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Config {
    pub(crate) role: Role,
    /// The number of the process: never reused in a run.
    pub(crate) process: u32,
    pub(crate) seed: u64,
    /// Through the proxies.
    pub(crate) database_url: String,
    pub(crate) bootstrap: String,
    pub(crate) topics: Topics,
    pub(crate) times: Times,
    pub(crate) load: Load,
    /// The name of the run, and of its database.
    pub(crate) run: String,
    /// The name of the injected bug.
    pub(crate) bug: Option<String>,
}

/// What a process does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Role {
    /// Commits messages, and relays them.
    Application,
    /// Processes the records of [`Topics::consumed`].
    Consumer,
}

/// The names of a run's topics.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Topics {
    pub(crate) plain: String,
    pub(crate) ordered: String,
    pub(crate) fenced: String,
    /// Its messages are older than its retention when they are sent.
    pub(crate) aged: String,
    /// No outbox sends to it: the driver does, each message twice.
    pub(crate) twice: String,
}

/// A group of consumers. Each consumer process has one of each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Group {
    /// Knows what it has processed by its inbox.
    Inbox,
    /// Knows it by offsets in the database, so it reads only topics without second copies.
    Offsets,
}

impl Group {
    pub(crate) const ALL: [Self; 2] = [Self::Inbox, Self::Offsets];

    /// Its number in the ledger.
    pub(crate) fn number(self) -> i16 {
        match self {
            Self::Inbox => 0,
            Self::Offsets => 1,
        }
    }

    pub(crate) fn topics(self) -> &'static [i16] {
        match self {
            Self::Inbox => &[ORDERED, FENCED, TWICE],
            Self::Offsets => &[FENCED],
        }
    }

    /// Its name in a run's database and broker.
    pub(crate) fn name(self, run: &str) -> String {
        match self {
            Self::Inbox => format!("{run}.inbox"),
            Self::Offsets => format!("{run}.offsets"),
        }
    }
}

/// The session of a consumer in its group, in milliseconds: the shortest that the broker allows.
pub(crate) const SESSION_MS: u64 = 6_000;

/// Indexes in [`Topics::all`].
pub(crate) const PLAIN: i16 = 0;
pub(crate) const ORDERED: i16 = 1;
pub(crate) const FENCED: i16 = 2;
pub(crate) const AGED: i16 = 3;
/// The place of the topic to which the driver sends.
pub(crate) const TWICE: i16 = 4;

impl Topics {
    pub(crate) fn of_run(name: &str) -> Self {
        let named = |topic| format!("{name}.{topic}");
        let (plain, ordered, fenced, aged) = (named("plain"), named("ordered"), named("fenced"), named("aged"));
        Self { plain, ordered, fenced, aged, twice: named("twice") }
    }

    pub(crate) fn all(&self) -> [(i16, &str); 4] {
        [(PLAIN, &self.plain), (ORDERED, &self.ordered), (FENCED, &self.fenced), (AGED, &self.aged)]
    }

    /// The index of a topic.
    pub(crate) fn place(&self, name: &str) -> Option<i16> {
        (PLAIN..=TWICE).find(|place| self.name(*place) == name)
    }

    /// What a consumer of the run reads.
    pub(crate) fn consumed(&self, group: Group) -> impl Iterator<Item = (i16, &str)> {
        group.topics().iter().map(|place| (*place, self.name(*place)))
    }

    pub(crate) fn name(&self, place: i16) -> &str {
        match place {
            PLAIN => &self.plain,
            ORDERED => &self.ordered,
            AGED => &self.aged,
            TWICE => &self.twice,
            _ => &self.fenced,
        }
    }
}

/// `retention.ms` of the aged topic. It is far below the age of its messages, which is an hour, and far above the time
/// until a sent message is read, including an outage of the broker. At 15 s, an outage of 17 s removed what the
/// consumer had not read yet.
pub(crate) const AGED_RETENTION_MS: &str = "600000";

/// The size of a relay's pool.
pub(crate) const RELAY_CONNECTIONS: i64 = 10;
/// The prefix of their name in the database; the process number follows.
pub(crate) const RELAY_NAME: &str = "relay-";

/// The times that a fault must exceed, in milliseconds.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct Times {
    /// `message.timeout.ms`.
    pub(crate) delivery_ms: u64,
    /// The lease of a row: above the delivery time-out and the time the client takes to notice.
    pub(crate) lease_ms: u64,
    pub(crate) lane_lease_ms: u64,
    /// For how long a new row belongs to its process.
    pub(crate) staleness_ms: u64,
}

impl Default for Times {
    /// As short as possible, so that a pause past all of them is short.
    fn default() -> Self {
        Self { delivery_ms: 2_000, lease_ms: 5_000, lane_lease_ms: 3_000, staleness_ms: 2_000 }
    }
}

impl Times {
    /// For a machine that does other things as well. A lease is extended in its last third. Beside builds, a third of
    /// 2 s was too short: copies came that no fault explained.
    pub(crate) fn on_a_busy_machine() -> Self {
        Self { staleness_ms: 3_000, ..Self::default() }
    }

    /// How long the longest transaction is open: its rows are due when they are committed.
    pub(crate) fn long_transaction_ms(self) -> u64 {
        self.staleness_ms + 300
    }

    /// How long a message may take in a steady state, counted from when it is written: that transaction, a sweep each
    /// second, and a slow machine.
    pub(crate) fn late_ms(self) -> u64 {
        self.long_transaction_ms() + 2_700
    }
}

/// The load of an application.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct Load {
    /// The pause between the transactions of one worker.
    pub(crate) pause_ms: u64,
    /// Whether it uses the ordered topic.
    pub(crate) ordered: bool,
    /// Whether it has delayed messages, some that are refused for a while, a fenced topic, an aged topic, and a
    /// history.
    pub(crate) all_features: bool,
    /// Whether consumers process what arrives, and how long each record takes their handlers at least.
    pub(crate) consumers: bool,
    pub(crate) handler_ms: u64,
}

/// A command of the driver to an application.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) enum Command {
    /// Begin no more transactions.
    StopLoad,
    /// Jump the relay's clock forward.
    Jump { by_ms: u64 },
    /// Send this many messages at once.
    Burst { messages: u64 },
    /// Lose acknowledgements within this time, and report them as time-outs.
    LoseAcks { for_ms: u64 },
    /// Delay acknowledgements within this time.
    LateAcks { for_ms: u64, by_ms: u64 },
    /// Fail half of the sends within this time, before the broker stores them.
    FailSends { for_ms: u64 },
    /// Make the retry policies panic within this time, and half of the messages fail, so that the policies are called.
    PanicPolicies { for_ms: u64 },
    /// Redrive the dead letters that would be accepted by now.
    Redrive,
    /// Pause the topic of this index.
    PauseTopic { topic: i16 },
    /// Resume every topic.
    ResumeTopics,
    /// Die at the next hit of this step of [`STEPS`](crate::kinds::STEPS), or of an application's
    /// [`RELAY_STEPS`](crate::kinds::RELAY_STEPS).
    CrashAt { step: usize },
    /// Within this time, every fifth record fails for good.
    FailHandlers { for_ms: u64 },
    /// Shut down in order.
    End,
}

/// A report of an application to the driver.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) enum Report {
    /// Its relay has started, and its transactions begin.
    Running,
    /// The counts so far: transactions by kind, and the library's counters by metric.
    Counts { transactions: Vec<(String, u64)>, metrics: Vec<(String, u64)> },
    /// It is at the step at which it was told to die, and kills itself. Milliseconds since 1970.
    Dies { at_ms: u64 },
    /// The client reported failed messages: others that it held may be sent again. Milliseconds since 1970.
    Failed { from_ms: u64, until_ms: u64 },
    /// It stalled without a command: the machine was busy. Milliseconds since 1970.
    Stalled { from_ms: u64, until_ms: u64 },
}
