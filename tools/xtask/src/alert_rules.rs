//! The alert rules and their tests, checked by promtool.

use std::fs;
use std::process::Command;

use anyhow::{Context, Result};
use xtask::servers::install;

use crate::background::Job;
use crate::commands::workspace;
use crate::steps::{Steps, in_ci};

impl Steps<'_> {
    /// Jobs that check the rules of `ops/prometheus`, and run their tests; none without promtool.
    pub(crate) fn alert_rules(&mut self) -> Result<Vec<Job>> {
        let promtool = match install::promtool() {
            Ok(promtool) => promtool,
            Err(missing) => {
                self.report.skip("ops", &missing.reason, in_ci());
                return Ok(Vec::new());
            }
        };
        let folder = workspace().join("ops/prometheus");
        let mut check = Command::new(&promtool);
        check.args(["check", "rules"]).arg(folder.join("rules.yml"));
        let tests = fs::read_dir(folder.join("tests")).context("list the tests of the rules")?;
        let mut tests = tests.map(|test| Ok(test?.path())).collect::<Result<Vec<_>>>()?;
        tests.sort();
        let mut test = Command::new(&promtool);
        test.args(["test", "rules"]).args(tests);
        Ok(vec![Job::check("ops: rules", check), Job::check("ops: tests of the rules", test)])
    }
}
