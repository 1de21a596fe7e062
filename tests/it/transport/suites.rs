//! Every case of the conformance suite is run against every transport, or is known not to be.

use std::collections::BTreeSet;
use std::process::Command;

use diesel_outbox::testing::transport::CASES;

struct Suite {
    /// The modules here that run cases against one transport.
    modules: &'static [&'static str],
    /// Cases that none of them runs, and why.
    left_out: &'static [(&'static str, &'static str)],
}

const NO_FENCES: &str = "its brokers fence nothing";

const SUITES: [Suite; 4] = [
    Suite {
        modules: &["kafka", "kafka_mock", "kafka_down"],
        left_out: &[("who_is_not_let_in_hears_so_without_secrets", "kafka_access has it, for every way to log in")],
    },
    Suite {
        modules: &["rocketmq", "rocketmq_down"],
        left_out: &[
            ("a_fenced_lane_refuses_the_one_before_it", NO_FENCES),
            ("a_fenced_lane_keeps_the_order_of_a_run", NO_FENCES),
            ("a_refused_message_stops_its_run_and_no_other", NO_FENCES),
        ],
    },
    Suite { modules: &["http"], left_out: &[] },
    Suite { modules: &["memory"], left_out: &[] },
];

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
