//! Every case of the conformance suite is run against every transport, or is known not to be.

use std::collections::BTreeSet;
use std::panic::catch_unwind;
use std::process::Command;

use async_trait::async_trait;
use diesel_outbox::testing::{
    StoredMessage, TransportUnderTest,
    transport::{CASES, Case, run_case},
};
use diesel_outbox::transport::{MemoryTransport, Transport};

struct Suite {
    /// The modules here that run cases against one transport.
    modules: &'static [&'static str],
    /// Cases that none of them runs, and why.
    skipped: &'static [(&'static str, &'static str)],
}

const NO_FENCES: &str = "nothing can be fenced there";

const SUITES: [Suite; 5] = [
    Suite {
        modules: &["kafka", "kafka_down"],
        skipped: &[
            ("authentication_failure_hides_secrets", "kafka_access has it, for every way to log in"),
            ("send_never_blocks", IN_MOCK),
            ("dropping_the_transport_fails_held_messages", IN_MOCK),
        ],
    },
    Suite {
        modules: &["kafka_mock"],
        skipped: &[
            ("only_oversized_messages_are_refused", NO_LIMIT),
            ("authentication_failure_hides_secrets", "the mock cluster lets everybody in"),
            (
                "frozen_broker_times_out_every_message",
                "the mock cluster answers as long as it is there; kafka_down has it",
            ),
            ("fencing_a_lane_shuts_out_the_previous_owner", "the mock cluster takes what an earlier epoch sends"),
            ("refused_message_stops_only_its_own_sequence", NO_LIMIT),
            ("exactly_once_lane_sends_no_row_twice", "the mock cluster makes no compacted topic"),
        ],
    },
    Suite {
        modules: &["rocketmq", "rocketmq_down"],
        skipped: &[
            ("fencing_a_lane_shuts_out_the_previous_owner", NO_FENCES),
            ("fenced_lane_keeps_the_order_of_a_sequence", NO_FENCES),
            ("refused_message_stops_only_its_own_sequence", NO_FENCES),
            ("exactly_once_lane_sends_no_row_twice", NO_FENCES),
        ],
    },
    Suite {
        modules: &["http"],
        skipped: &[
            ("fencing_a_lane_shuts_out_the_previous_owner", NO_FENCES),
            ("fenced_lane_keeps_the_order_of_a_sequence", NO_FENCES),
            ("refused_message_stops_only_its_own_sequence", NO_FENCES),
            ("exactly_once_lane_sends_no_row_twice", NO_FENCES),
        ],
    },
    Suite { modules: &["memory"], skipped: &[] },
];

const IN_MOCK: &str =
    "kafka_mock has it: what the client does without a broker is the same, and a real one takes two starts";
const NO_LIMIT: &str = "the mock cluster takes a message of any size";

/// The names of all tests of this binary.
fn tests() -> BTreeSet<String> {
    let listed = Command::new(std::env::current_exe().expect("this binary")).arg("--list").output().expect("a list");
    let listed = String::from_utf8(listed.stdout).expect("UTF-8");
    listed.lines().filter_map(|line| line.strip_suffix(": test")).map(str::to_owned).collect()
}

#[test]
fn every_case_runs_against_every_transport_or_is_skipped_with_a_reason() {
    let tests = tests();
    for Suite { modules, skipped } in SUITES {
        let is_run = |case: &str| {
            let of = |module: &str, test: &str| {
                test.starts_with(&format!("transport::{module}::")) && test.ends_with(&format!("::{case}"))
            };
            tests.iter().any(|test| modules.iter().any(|module| of(module, test)))
        };
        for case in CASES {
            let why = skipped.iter().find(|(name, _)| *name == case.name).map(|(_, why)| why);
            match (is_run(case.name), why) {
                (true, Some(why)) => panic!("{} is run by {modules:?}, and was said not to be: {why}", case.name),
                (false, None) => panic!("no module of {modules:?} runs {}", case.name),
                (true, None) | (false, Some(_)) => {}
            }
        }
        let is_case = |name: &str| CASES.iter().any(|case| case.name == name);
        let unknown = skipped.iter().find(|of| !is_case(of.0));
        assert_eq!(unknown, None, "there is no such case");
    }
}

#[test]
fn the_documentation_lists_every_case() {
    let page = include_str!("../../../src/testing/transport/list.rs");
    let listed: Vec<_> = page.lines().filter_map(|line| line.strip_prefix("/// | `")?.split('`').next()).collect();
    let cases: Vec<_> = CASES.iter().map(|case| case.name).collect();
    assert_eq!(listed, cases);
}

/// A broker that cannot be made to do anything.
struct Plain(MemoryTransport);

#[async_trait]
impl TransportUnderTest for Plain {
    fn transport(&self) -> Box<dyn Transport> {
        Box::new(self.0.clone())
    }

    async fn stored(&self, topic: &str) -> Vec<StoredMessage> {
        self.0.delivered_to(topic).iter().map(StoredMessage::of).collect()
    }
}

/// Why a case fails with it.
fn failure(case: &Case) -> Option<String> {
    let panicked = catch_unwind(|| run_case(case.run, async || Some(Plain(MemoryTransport::new())))).err()?;
    Some(*panicked.downcast::<String>().expect("a text with something in it"))
}

#[test]
fn a_case_fails_if_the_broker_lacks_the_capability() {
    let mut without = Vec::new();
    for case in CASES {
        let Some(failure) = failure(case) else { continue };
        let remedy = format!("without {} }}", case.name);
        assert!(failure.contains("says nothing of this transport") && failure.contains(&remedy), "{failure}");
        without.push(case.name);
    }
    let expected = [
        "only_oversized_messages_are_refused",
        "unknown_topic_is_a_topic_failure",
        "full_queue_is_busy",
        "authentication_failure_hides_secrets",
        "stopped_broker_is_an_outage_until_restarted",
        "frozen_broker_times_out_every_message",
        "send_never_blocks",
        "dropping_the_transport_fails_held_messages",
        "refused_message_stops_only_its_own_sequence",
    ];
    assert_eq!(without, expected);
}
