//! The kinds of faults.

use serde::Serialize;

/// A kind of fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub(crate) enum Kind {
    KillApplication,
    /// `kill -9` of an application at a step of its relay, by its index in [`RELAY_STEPS`].
    CrashApplication,
    Pause,
    Restart,
    KillBroker,
    KillDatabase,
    CutDatabase,
    CutBroker,
    DelayDatabase,
    DelayBroker,
    LoseAcks,
    /// The broker stores messages, but its acknowledgements are late.
    LateAcks,
    /// Half of the messages fail before the broker stores them.
    FailSends,
    Jump,
    Burst,
    /// Ids are reused, and a settle is late.
    ReuseIds,
    /// A topic is paused, by its index.
    PauseTopic,
    /// Dead letters are redriven.
    Redrive,
    /// The database's clock is ahead of the machine's for a while.
    DatabaseAhead,
    /// The database's clock is behind.
    DatabaseBehind,
    /// Another session locks the messages table, like an `ALTER TABLE`.
    LockTable,
    /// Another session keeps a snapshot open, and many dead rows cannot be removed before it ends.
    HoldSnapshot,
    /// The application's retry policies panic.
    PanicPolicies,
    /// `kill -9` of a consumer at a step of its work, by its index in [`STEPS`].
    CrashConsumer,
    /// A consumer is stopped past its session, and continues.
    StopConsumer,
    RestartConsumer,
    CutConsumerDatabase,
    CutConsumerBroker,
    /// Members join the consumers' group and leave it again.
    RebalanceStorm,
    /// Copies of messages in two partitions at once, which two nodes have.
    DeliverTwice,
    /// Some records fail for good, and are parked.
    FailHandlers,
}

/// Steps of a consumer's work at which it is killed: the library's name, and that of the fault.
pub(crate) const STEPS: [(&str, &str); 7] = [
    ("consumer::claimed", "kill -9 consumer: claimed"),
    ("consumer::handled", "kill -9 consumer: handled"),
    ("consumer::committing", "kill -9 consumer: before COMMIT"),
    ("consumer::committed", "kill -9 consumer: committed"),
    ("consumer::parked", "kill -9 consumer: parked"),
    ("consumer::committing_offsets", "kill -9 consumer: before its offsets"),
    ("consumer::offsets_committed", "kill -9 consumer: offsets sent"),
];

/// The same for an application: each step that a relay passes with an ordered, fenced or exactly-once topic.
pub(crate) const RELAY_STEPS: [(&str, &str); 16] = [
    ("hook::committed", "kill -9 application: committed"),
    ("hook::handed_over", "kill -9 application: handed over"),
    ("lane::renewed", "kill -9 application: lanes taken, renewed"),
    ("lane::fenced", "kill -9 application: lane fenced"),
    ("lane::recovered", "kill -9 application: lane recovered"),
    ("lane::loaded", "kill -9 application: lane read"),
    ("relay::sent", "kill -9 application: sent"),
    ("lane::committing", "kill -9 application: before lane commits"),
    ("lane::committed", "kill -9 application: lane committed"),
    ("relay::acknowledged", "kill -9 application: acknowledged"),
    ("relay::settling", "kill -9 application: before the settle"),
    ("relay::settled", "kill -9 application: settled"),
    ("relay::failing", "kill -9 application: before a failure"),
    ("relay::dead_lettering", "kill -9 application: dead-lettering"),
    ("lane::releasing", "kill -9 application: before a hand-over"),
    ("lane::released", "kill -9 application: lanes handed over"),
];

impl Kind {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::KillApplication => "kill -9 application",
            Self::CrashApplication => "kill -9 application at a step",
            Self::Pause => "stop and continue past the lease",
            Self::Restart => "orderly restart",
            Self::KillBroker => "kill -9 broker",
            Self::KillDatabase => "kill -9 database",
            Self::CutDatabase => "cut from database",
            Self::CutBroker => "cut from broker",
            Self::DelayDatabase => "slow connection to database",
            Self::DelayBroker => "slow connection to broker",
            Self::LoseAcks => "acknowledgements lost",
            Self::LateAcks => "acknowledgements late",
            Self::FailSends => "sends fail",
            Self::Jump => "clock jumps",
            Self::Burst => "burst",
            Self::ReuseIds => "ids reused",
            Self::PauseTopic => "topic paused",
            Self::Redrive => "redrive",
            Self::DatabaseAhead => "database's clock ahead",
            Self::DatabaseBehind => "database's clock behind",
            Self::LockTable => "table locked",
            Self::HoldSnapshot => "snapshot held",
            Self::PanicPolicies => "retry policies panic",
            Self::CrashConsumer => "kill -9 consumer",
            Self::StopConsumer => "stop and continue consumer past its session",
            Self::RestartConsumer => "orderly restart of consumer",
            Self::CutConsumerDatabase => "cut consumer from database",
            Self::CutConsumerBroker => "cut consumer from broker",
            Self::RebalanceStorm => "rebalance storm",
            Self::DeliverTwice => "one id at two nodes at once",
            Self::FailHandlers => "handlers fail for good",
        }
    }

    /// Whether it may cause duplicates. What is only slow, late or large does not, nor what people are told is safe. A
    /// redriven message was refused, so the broker has no copy.
    pub(crate) fn may_duplicate(self) -> bool {
        match self {
            Self::Restart
            | Self::DelayDatabase
            | Self::DelayBroker
            | Self::LateAcks
            | Self::FailSends
            | Self::Burst
            | Self::PauseTopic
            | Self::Redrive
            | Self::HoldSnapshot
            | Self::PanicPolicies
            | Self::CrashConsumer
            | Self::StopConsumer
            | Self::RestartConsumer
            | Self::CutConsumerDatabase
            | Self::CutConsumerBroker
            | Self::RebalanceStorm
            | Self::DeliverTwice
            | Self::FailHandlers => false,
            Self::KillApplication
            | Self::CrashApplication
            | Self::Pause
            | Self::KillBroker
            | Self::KillDatabase
            | Self::CutDatabase
            | Self::CutBroker
            | Self::LoseAcks
            | Self::Jump
            | Self::DatabaseAhead
            | Self::DatabaseBehind
            | Self::LockTable
            | Self::ReuseIds => true,
        }
    }

    /// The steps at one of which it kills a process.
    pub(crate) fn steps(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::CrashApplication => &RELAY_STEPS,
            Self::CrashConsumer => &STEPS,
            _ => &[],
        }
    }

    /// Whether it makes the database's clock wrong.
    pub(crate) fn is_of_clock(self) -> bool {
        matches!(self, Self::DatabaseAhead | Self::DatabaseBehind)
    }

    /// Whether it hits a consumer. Consumers send nothing.
    pub(crate) fn is_of_consumer(self) -> bool {
        matches!(
            self,
            Self::CrashConsumer
                | Self::StopConsumer
                | Self::RestartConsumer
                | Self::CutConsumerDatabase
                | Self::CutConsumerBroker
                | Self::FailHandlers
        )
    }

    /// Whether the driver does it to the consumers' topics and group.
    pub(crate) fn is_of_topics(self) -> bool {
        matches!(self, Self::RebalanceStorm | Self::DeliverTwice)
    }

    /// Whether it may be a session's, or a lease's, end: a process is stopped past it.
    pub(crate) const STOPS: [Self; 2] = [Self::Pause, Self::StopConsumer];

    /// Whether another session does it to the database.
    pub(crate) fn is_of_other_session(self) -> bool {
        matches!(self, Self::LockTable | Self::HoldSnapshot)
    }

    pub(crate) fn is_of_server(self) -> bool {
        Self::OF_SERVERS.contains(&self)
    }

    /// `kill -9` of the broker or the database.
    pub(crate) const OF_SERVERS: [Self; 2] = [Self::KillBroker, Self::KillDatabase];
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use diesel_outbox::crash_points;

    use super::*;

    /// Whether the load never passes it with an ordered topic: half messages are of another broker.
    fn is_elsewhere(step: &str) -> bool {
        let of_unordered_topics = ["relay::confirmed", "relay::extended"];
        step.starts_with("half::") || step.starts_with("sweeper::") || of_unordered_topics.contains(&step)
    }

    #[test]
    fn every_step_of_the_library_is_one_of_a_kind() {
        let known: BTreeSet<_> = crash_points::ALL.iter().copied().filter(|step| !is_elsewhere(step)).collect();
        let steps = RELAY_STEPS.iter().chain(&STEPS);
        assert_eq!(known, steps.clone().map(|(step, _)| *step).collect());
        let names: BTreeSet<_> = steps.map(|(_, name)| *name).collect();
        assert_eq!(names.len(), RELAY_STEPS.len() + STEPS.len(), "the report tells them apart by their names");
    }
}
