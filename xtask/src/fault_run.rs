//! What a run of the fault harness is told, by `cargo xtask faults` and from it.

use clap::Args;

/// Which faults, and for how long.
#[derive(Debug, Clone, Args)]
pub struct FaultRun {
    /// The same seed is the same schedule
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// How long the faults go on, about; a thousand of them take 38
    #[arg(long, default_value_t = 5.0)]
    pub minutes: f64,
    /// A short run: an audit of 5,000 messages is enough, in place of 100,000
    #[arg(long)]
    pub smoke: bool,
    /// Other faults: the database's clock goes ahead and back, by libfaketime
    #[arg(long, conflicts_with_all = ["plant", "control", "plants"])]
    pub skew: bool,
    /// Plant this mistake in the library, under the schedule that shows it; the run then has to fail
    #[arg(long)]
    pub plant: Option<String>,
    /// The schedule that shows this mistake, without the mistake
    #[arg(long, conflicts_with = "plant")]
    pub control: Option<String>,
    /// Plant every mistake, each after a control; fails where one is not found
    #[arg(long)]
    pub plants: bool,
    /// Print the schedule and do nothing
    #[arg(long)]
    pub dry: bool,
}

impl FaultRun {
    /// Whether the library has to be built with the mistakes in it.
    #[must_use]
    pub fn needs_mistakes(&self) -> bool {
        self.plants || self.plant.is_some()
    }

    /// The same as arguments of a command line.
    #[must_use]
    pub fn to_arguments(&self) -> Vec<String> {
        let mut arguments =
            vec!["--seed".to_owned(), self.seed.to_string(), "--minutes".to_owned(), self.minutes.to_string()];
        for (flag, is_set) in
            [("--smoke", self.smoke), ("--skew", self.skew), ("--plants", self.plants), ("--dry", self.dry)]
        {
            arguments.extend(is_set.then(|| flag.to_owned()));
        }
        for (flag, mistake) in [("--plant", &self.plant), ("--control", &self.control)] {
            arguments.extend(mistake.iter().flat_map(|mistake| [flag.to_owned(), mistake.clone()]));
        }
        arguments
    }
}
