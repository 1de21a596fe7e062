//! The arguments of the fault harness, for `cargo xtask faults` and for the harness itself.

use std::num::NonZeroUsize;

use clap::Args;

/// Which faults, and for how long.
#[derive(Debug, Clone, Args)]
pub struct FaultArgs {
    /// The same seed gives the same schedule
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// About how long the faults go on; a thousand of them take 38
    #[arg(long, default_value_t = 5.0)]
    pub minutes: f64,
    /// A short run on a machine that does other things as well: 10,000 messages are enough, and new rows belong to their process for 3 s
    #[arg(long)]
    pub smoke: bool,
    /// Other faults: the database's clock jumps ahead and back, by libfaketime
    #[arg(long, conflicts_with_all = ["inject_bug", "control", "inject_all_bugs"])]
    pub skew: bool,
    /// Other faults: this many applications die, each at a step of its relay
    #[arg(long, conflicts_with_all = ["minutes", "smoke", "skew", "inject_bug", "control", "inject_all_bugs"])]
    pub kills: Option<NonZeroUsize>,
    /// Inject this bug into the library, under the schedule that exposes it; the run must then fail
    #[arg(long)]
    pub inject_bug: Option<String>,
    /// Run the schedule that exposes this bug, without the bug
    #[arg(long, conflicts_with = "inject_bug")]
    pub control: Option<String>,
    /// Inject every bug, each after a control; fail if one is not found
    #[arg(long)]
    pub inject_all_bugs: bool,
    /// Print the schedule and do nothing
    #[arg(long)]
    pub dry: bool,
}

impl FaultArgs {
    /// Whether the library must be built with the injectable bugs.
    #[must_use]
    pub fn needs_injected_bugs(&self) -> bool {
        self.inject_all_bugs || self.inject_bug.is_some()
    }

    /// The same as command line arguments.
    #[must_use]
    pub fn to_arguments(&self) -> Vec<String> {
        let mut arguments = vec!["--seed".to_owned(), self.seed.to_string()];
        arguments.extend(match self.kills {
            Some(kills) => ["--kills".to_owned(), kills.to_string()],
            None => ["--minutes".to_owned(), self.minutes.to_string()],
        });
        for (flag, is_set) in [
            ("--smoke", self.smoke),
            ("--skew", self.skew),
            ("--inject-all-bugs", self.inject_all_bugs),
            ("--dry", self.dry),
        ] {
            arguments.extend(is_set.then(|| flag.to_owned()));
        }
        for (flag, bug) in [("--inject-bug", &self.inject_bug), ("--control", &self.control)] {
            arguments.extend(bug.iter().flat_map(|bug| [flag.to_owned(), bug.clone()]));
        }
        arguments
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Harness {
        #[command(flatten)]
        faults: FaultArgs,
    }

    fn parsed(arguments: &[&str]) -> Result<FaultArgs, clap::Error> {
        Harness::try_parse_from([&["faults"][..], arguments].concat()).map(|harness| harness.faults)
    }

    /// xtask parses them, and hands them to the harness.
    #[test]
    fn the_harness_gets_the_same_arguments() {
        for arguments in [
            vec![],
            vec!["--minutes", "1.5", "--seed", "3", "--smoke", "--skew"],
            vec!["--kills", "1000", "--seed", "7", "--dry"],
            vec!["--control", "settle-by-id"],
        ] {
            let first = parsed(&arguments).expect("they parse");
            let handed_over = first.to_arguments();
            let second = parsed(&handed_over.iter().map(String::as_str).collect::<Vec<_>>()).expect("they parse again");
            assert_eq!(format!("{first:?}"), format!("{second:?}"));
        }
    }

    #[test]
    fn kills_are_a_schedule_of_their_own() {
        for other in [
            vec!["--minutes", "5"],
            vec!["--smoke"],
            vec!["--skew"],
            vec!["--inject-bug", "settle-by-id"],
            vec!["--control", "settle-by-id"],
            vec!["--inject-all-bugs"],
        ] {
            let refused = parsed(&[vec!["--kills", "10"], other.clone()].concat()).expect_err("they conflict");
            assert_eq!(refused.kind(), clap::error::ErrorKind::ArgumentConflict, "{other:?}");
        }
        assert!(parsed(&["--kills", "0"]).is_err(), "a run without faults proves nothing");
        assert_eq!(parsed(&["--kills", "10"]).expect("they parse").kills, NonZeroUsize::new(10));
    }
}
