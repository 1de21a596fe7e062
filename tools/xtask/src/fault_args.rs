//! The arguments of the fault harness, for `cargo xtask faults` and for the harness itself.

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
    /// A short run: audit 5,000 messages instead of 100,000
    #[arg(long)]
    pub smoke: bool,
    /// Other faults: the database's clock jumps ahead and back, by libfaketime
    #[arg(long, conflicts_with_all = ["inject_bug", "control", "inject_all_bugs"])]
    pub skew: bool,
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
        let mut arguments =
            vec!["--seed".to_owned(), self.seed.to_string(), "--minutes".to_owned(), self.minutes.to_string()];
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
