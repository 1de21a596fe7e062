//! The rows of the table, and the servers that each needs.

use std::process::Command;

use anyhow::Result;
use clap::ValueEnum;
use xtask::servers::{Postgres, postgres};

use crate::commands::cargo;

/// A row of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Row {
    /// Business transactions per second, with and without outbox
    Business,
    /// The same with sent messages kept, against deleted
    History,
    /// The same with traces: without a provider, and with spans that are dropped
    Traces,
    /// The same with messages that go to Kafka as CloudEvents, against plain ones
    CloudEvents,
    /// The same with receipts: one open for another message, and one for each message
    Receipts,
    /// The same with a hand-written message table, and with a hundred messages in each transaction
    ByHand,
    /// The same with 1 ms more of round trip to the database
    Network,
    /// A backlog into Kafka, against bare rdkafka
    Drain,
    /// A backlog of a million into Kafka, against bare rdkafka; takes four minutes and some GB
    DrainMillion,
    /// Single messages to a broker 3 ms away that leads 48 partitions, by the requests in flight
    DistantBroker,
    /// The same backlog from one server into one broker, by Debezium and by a relay, in turns
    Debezium,
    /// Several relays on one table: a backlog, and business transactions meanwhile
    Relays,
    /// A backlog of an ordered topic, against an unordered one
    Ordered,
    /// A backlog of an ordered topic while every tenth key is blocked
    Blocked,
    /// From COMMIT to the broker's acknowledgement, against bare rdkafka
    Latency,
    /// The same on an ordered topic, against an unordered one
    OrderedLatency,
    /// How late delayed messages are, compared with plain ones
    Delayed,
    /// The time from killing a relay until another one sends in its lanes; the same with fenced lanes
    Takeover,
    /// A minute without a broker, and the backlog after it
    Recovery,
    /// Pages that one claim reads with delayed messages, a history and a held transaction; takes ten minutes and some GB
    Claim,
    /// Statements per message, and bytes of the database's log
    Cost,
    /// The relay's memory during a drain
    Memory,
    /// Statements of an idle relay
    Idle,
    /// A consumer's transactions with an inbox, against those without it; batches and copies
    Inbox,
    /// The same with twenty million entries and old ones being removed, against an empty inbox; takes ten minutes and some GB
    InboxLarge,
    /// Records processed by a consumer, against a loop by hand: with offsets in the database, with the inbox, with both
    Consumer,
    /// Copies that a consumer recognises, which reads again what was handled
    ConsumerCopies,
    /// Records of 64 keys in one partition, whose handler waits for 5 ms: 64 at a time, against one
    ConsumerKeys,
    /// Records processed by a consumer with 16 in a transaction, against loops by hand with one and with as many
    ConsumerBatches,
    /// A history of ten million messages compared with its topic: memory, and time against reading both; takes ten minutes and some GB
    Verify,
    /// Business transactions on MariaDB, with and without outbox
    Mariadb,
    /// Business transactions on SQLite, with and without outbox
    Sqlite,
    /// A backlog and single messages into RocketMQ, against its bare client; builds two hundred more crates
    Rocketmq,
    /// Messages by HTTP, 64 at once, against bare reqwest
    Http,
}

impl Row {
    pub(crate) fn name(self) -> String {
        self.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
    }

    /// A one-line description of what it measures.
    pub(crate) fn about(self) -> String {
        let help = self.to_possible_value().and_then(|value| value.get_help().map(ToString::to_string));
        help.unwrap_or_default()
    }

    /// The bench's program with these arguments.
    pub(crate) fn program(self, arguments: &[&str]) -> Command {
        let mut command = cargo(&["bench", "--quiet", "--package", "diesel-outbox"]);
        match self {
            Self::Rocketmq => command.args(["--bench", "rocketmq", "--features", "rocketmq"]),
            Self::Http => command.args(["--bench", "http_endpoint"]),
            _ => command.args(["--bench", "outbox"]),
        };
        command.args(arguments);
        command
    }

    /// Whether its legs last as long as `--seconds` says: others end at some event.
    pub(crate) fn is_timed(self) -> bool {
        let untimed = [
            Self::Drain,
            Self::DrainMillion,
            Self::Debezium,
            Self::Ordered,
            Self::Blocked,
            Self::Takeover,
            Self::Memory,
            Self::Verify,
            Self::Rocketmq,
            Self::Http,
        ];
        !untimed.contains(&self)
    }

    /// Whether its legs run as often as `--rounds` says.
    pub(crate) fn has_rounds(self) -> bool {
        !matches!(self, Self::Rocketmq | Self::Http)
    }

    /// Whether its backlog has as many messages as `--messages` says.
    pub(crate) fn has_backlog(self) -> bool {
        let with = [
            Self::Drain,
            Self::DrainMillion,
            Self::Debezium,
            Self::Relays,
            Self::Ordered,
            Self::Blocked,
            Self::Claim,
            Self::InboxLarge,
            Self::Consumer,
            Self::ConsumerCopies,
            Self::ConsumerKeys,
            Self::ConsumerBatches,
            Self::Verify,
        ];
        with.contains(&self)
    }

    /// Whether it needs the Kafka that all rows share.
    pub(crate) fn needs_kafka(self) -> bool {
        let without = [
            Self::Recovery,      // kills one of its own
            Self::DistantBroker, // has a mock cluster
            Self::Traces,
            Self::Claim,
            Self::Cost,
            Self::Idle,
            Self::Inbox,
            Self::InboxLarge,
            Self::Mariadb,
            Self::Sqlite,
            Self::Rocketmq,
            Self::Http,
        ];
        !without.contains(&self)
    }

    fn counts_statements(self) -> bool {
        matches!(self, Self::Idle | Self::Cost)
    }

    fn database(self) -> postgres::Options {
        let mut settings = vec![
            // One checkpoint before each leg, and none of the server's own during one.
            ("max_wal_size", "16GB"),
            ("checkpoint_timeout", "1d"),
        ];
        if self.counts_statements() {
            settings.push(("shared_preload_libraries", "pg_stat_statements"));
        }
        if self == Self::Debezium {
            settings.push(("wal_level", "logical"));
        }
        let settings = settings.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        postgres::Options { fsync: true, settings, ..postgres::Options::default() }
    }

    /// A new server for each row, so that no bloat or full logs of an earlier row affect the next.
    pub(crate) fn start_database(self) -> Result<Postgres> {
        let mut options = self.database();
        match Postgres::start(&options) {
            // Some distributions' server packages lack the extension; the row then counts transactions.
            Err(_) if self.counts_statements() => {
                options.settings.retain(|(name, _)| name != "shared_preload_libraries");
                Postgres::start(&options)
            }
            started => started,
        }
    }
}
