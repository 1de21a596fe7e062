//! Every case of the conformance suite is run against every transport, or is known not to be.

use std::collections::BTreeSet;
use std::panic::catch_unwind;
use std::process::Command;

use async_trait::async_trait;
use diesel_outbox::testing::transport::{CASES, Case, Stored, TransportUnderTest, run_case};
use diesel_outbox::transport::{MemoryTransport, Transport};

struct Suite {
    /// The modules here that run cases against one transport.
    modules: &'static [&'static str],
    /// Cases that none of them runs, and why.
    left_out: &'static [(&'static str, &'static str)],
}

const NO_FENCES: &str = "nothing can be fenced there";

const SUITES: [Suite; 5] = [
    Suite {
        modules: &["kafka", "kafka_down"],
        left_out: &[
            ("who_is_not_let_in_hears_so_without_secrets", "kafka_access has it, for every way to log in"),
            ("send_never_blocks", IN_MOCK),
            ("a_dropped_transport_reports_what_it_held", IN_MOCK),
        ],
    },
    Suite {
        modules: &["kafka_mock"],
        left_out: &[
            ("refuses_what_is_too_large_and_nothing_else", NO_LIMIT),
            ("who_is_not_let_in_hears_so_without_secrets", "the mock cluster lets everybody in"),
            ("a_silent_broker_keeps_no_message", "the mock cluster answers as long as it is there; kafka_down has it"),
            ("a_fenced_lane_refuses_the_one_before_it", "the mock cluster takes what an earlier epoch sends"),
            ("a_refused_message_stops_its_run_and_no_other", NO_LIMIT),
        ],
    },
    Suite {
        modules: &["rocketmq", "rocketmq_down"],
        left_out: &[
            ("a_fenced_lane_refuses_the_one_before_it", NO_FENCES),
            ("a_fenced_lane_keeps_the_order_of_a_run", NO_FENCES),
            ("a_refused_message_stops_its_run_and_no_other", NO_FENCES),
        ],
    },
    Suite {
        modules: &["http"],
        left_out: &[
            ("a_fenced_lane_refuses_the_one_before_it", NO_FENCES),
            ("a_fenced_lane_keeps_the_order_of_a_run", NO_FENCES),
            ("a_refused_message_stops_its_run_and_no_other", NO_FENCES),
        ],
    },
    Suite { modules: &["memory"], left_out: &[] },
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
fn every_case_is_run_against_every_transport_or_left_out_knowingly() {
    let tests = tests();
    for Suite { modules, left_out } in SUITES {
        let is_run = |case: &str| {
            let of = |module: &str, test: &str| {
                test.starts_with(&format!("transport::{module}::")) && test.ends_with(&format!("::{case}"))
            };
            tests.iter().any(|test| modules.iter().any(|module| of(module, test)))
        };
        for case in CASES {
            let why = left_out.iter().find(|(name, _)| *name == case.name).map(|(_, why)| why);
            match (is_run(case.name), why) {
                (true, Some(why)) => panic!("{} is run by {modules:?}, and was said not to be: {why}", case.name),
                (false, None) => panic!("{} is run by none of {modules:?}", case.name),
                (true, None) | (false, Some(_)) => {}
            }
        }
        let is_case = |name: &str| CASES.iter().any(|case| case.name == name);
        let unknown = left_out.iter().find(|of| !is_case(of.0));
        assert_eq!(unknown, None, "there is no such case");
    }
}

/// A broker that cannot be made to do anything.
struct Plain(MemoryTransport);

#[async_trait]
impl TransportUnderTest for Plain {
    fn transport(&self) -> Box<dyn Transport> {
        Box::new(self.0.clone())
    }

    async fn stored(&self, topic: &str) -> Vec<Stored> {
        self.0.delivered_to(topic).iter().map(Stored::of).collect()
    }
}

/// Why a case fails with it.
fn failure(case: &Case) -> Option<String> {
    let panicked = catch_unwind(|| run_case(case.run, async || Some(Plain(MemoryTransport::new())))).err()?;
    Some(*panicked.downcast::<String>().expect("a text with something in it"))
}

#[test]
fn a_case_that_needs_what_the_broker_has_not_is_no_pass() {
    let mut without = Vec::new();
    for case in CASES {
        let Some(failure) = failure(case) else { continue };
        let remedy = format!("without {} }}", case.name);
        assert!(failure.contains("says nothing of this transport") && failure.contains(&remedy), "{failure}");
        without.push(case.name);
    }
    let expected = [
        "refuses_what_is_too_large_and_nothing_else",
        "an_unknown_topic_is_of_the_topic",
        "a_full_queue_is_busy",
        "who_is_not_let_in_hears_so_without_secrets",
        "an_absent_broker_is_an_outage_until_it_is_back",
        "a_silent_broker_keeps_no_message",
        "send_never_blocks",
        "a_dropped_transport_reports_what_it_held",
        "a_refused_message_stops_its_run_and_no_other",
    ];
    assert_eq!(without, expected);
}
