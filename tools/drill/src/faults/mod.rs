//! The fault of each alert.

mod broker;
mod consumer;
mod database;
mod messages;
mod process;

use anyhow::Result;

use crate::world::{Session, World};

/// What injects a fault. What it returns is held until the alert has cleared.
type Inject = fn(&World) -> Result<Vec<Session>>;

/// A fault, and the alert that it sets off.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Fault {
    pub(crate) alert: &'static str,
    /// For the report.
    pub(crate) what: &'static str,
    pub(crate) inject: Inject,
}

const fn fault(alert: &'static str, what: &'static str, inject: Inject) -> Fault {
    Fault { alert, what, inject }
}

/// Each alert once, those with the longest windows last.
pub(crate) const ALL: &[Fault] = &[
    fault("OutboxBrokerDown", "Kafka is stopped", broker::stopped),
    fault("OutboxTopicRefused", "somebody deletes the topic in Kafka", broker::topic_deleted),
    fault("OutboxMessagesRefused", "the receiver of webhooks answers 400", broker::receiver_refuses),
    fault("OutboxSendsFail", "the receiver of webhooks answers 500", broker::receiver_fails),
    fault("OutboxDatabaseDown", "PostgreSQL is stopped", database::stopped),
    fault("OutboxDatabaseRefuses", "the relay's role loses UPDATE and DELETE", database::no_right_to_write),
    fault("OutboxBacklogNotCounted", "the relay's role loses SELECT on the dead letters", database::no_right_to_count),
    fault("OutboxInFlightStuck", "a session holds locks on rows that are in flight", database::sent_rows_locked),
    fault("OutboxRowsOverdue", "a session holds row locks on due messages", database::rows_locked),
    fault("OutboxNoticesLost", "the role of the notice connection may not log in", database::no_login),
    fault("OutboxPruneFails", "the history belongs to another role", database::not_owner),
    fault("OutboxLanesUnowned", "the clock was ahead: leases of a dead node end tomorrow", database::lease_of_tomorrow),
    fault("OutboxDeadLettered", "a message cannot be decoded", messages::poisoned),
    fault("OutboxDeadLetters", "a message is too large for the broker", messages::too_large),
    fault("OutboxKeysBlocked", "a message of an ordered topic is too large", messages::too_large_in_a_lane),
    fault("OutboxTopicWithoutRelay", "messages of a topic that was renamed", messages::renamed_topic),
    fault("OutboxTopicPaused", "somebody pauses a topic", messages::paused),
    fault("OutboxNoRelay", "the process is killed", process::killed),
    fault("OutboxRelayTooSlow", "the queue is smaller than a burst of commits", process::small_queue),
    fault("OutboxHookMissing", "a release replaces the commit hook", process::no_hook),
    fault("OutboxDuplicates", "a job deletes rows that are in flight", process::cleanup),
    fault("OutboxCallPanicked", "a function of the transport panics", process::panicking_call),
    fault("OutboxTaskPanicked", "a task of the relay panics", process::panicking_task),
    fault("OutboxNoConsumer", "the consumer's role loses a right, and the process starts", consumer::no_right_to_begin),
    fault("OutboxConsumerStalled", "a session locks a table that the handlers write", consumer::table_locked),
    fault("OutboxConsumerLagging", "a release slows down the handler", consumer::slow_handler),
    fault("OutboxConsumerDatabaseAway", "the consumer's role may not log in", consumer::no_login),
    fault("OutboxHandlerFails", "a release fails for each record", consumer::failing_handler),
    fault("OutboxRecordsParked", "a release refuses the records of a key", consumer::refusing_handler),
    fault("OutboxBudgetBurnsFast", "a release keeps transactions open", process::slow_transactions),
    fault("OutboxBudgetBurnsSlowly", "a release keeps transactions open", process::slow_transactions),
];

/// The alerts that cannot be drilled in minutes, each with the reason.
pub(crate) const NOT_DRILLED: &[(&str, &str)] = &[];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::blocks;

    fn alerts() -> BTreeSet<String> {
        let rules = std::fs::read_to_string(crate::ops().join("prometheus/rules.yml")).expect("the rules");
        rules.lines().filter_map(|line| line.trim().strip_prefix("- alert: ")).map(str::to_owned).collect()
    }

    #[test]
    fn every_alert_has_a_fault_or_a_reason() {
        let drilled = ALL.iter().map(|fault| fault.alert).chain(NOT_DRILLED.iter().map(|(alert, _)| *alert));
        let drilled: Vec<_> = drilled.collect();
        assert_eq!(drilled.iter().map(|alert| (*alert).to_owned()).collect::<BTreeSet<_>>(), alerts());
        assert_eq!(drilled.len(), alerts().len(), "each once");
    }

    #[test]
    fn every_runbook_heals_by_a_command_that_the_drill_runs() {
        for Fault { alert, .. } in ALL {
            let blocks = blocks::of_alert(alert).expect("a runbook");
            assert!(blocks.iter().any(|block| block.section == "Remedy"), "{alert}");
            assert!(blocks.iter().all(|block| !block.text.is_empty()), "{alert}");
        }
    }
}
