//! The arguments of the drill, for `cargo xtask drill` and for the drill itself.

use clap::Args;

/// Which alerts.
#[derive(Debug, Clone, Args)]
pub struct DrillArgs {
    /// Drill only this alert, without the board; may be given several times
    #[arg(long)]
    pub only: Vec<String>,
    /// List the alerts, each with its fault, and do nothing
    #[arg(long)]
    pub list: bool,
}

impl DrillArgs {
    /// The same as command line arguments.
    #[must_use]
    pub fn to_arguments(&self) -> Vec<String> {
        let only = self.only.iter().flat_map(|alert| ["--only".to_owned(), alert.clone()]);
        only.chain(self.list.then(|| "--list".to_owned())).collect()
    }
}
