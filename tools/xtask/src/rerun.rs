//! Tests with real servers, and their second chance.

use std::time::Instant;

use anyhow::Result;

use crate::report::{FailedSuite, TestRun};
use crate::steps::{List, Steps, cargo_test};

/// At most this many failed tests of a suite run once more, alone: two busy processors make one of them miss its deadline now and then.
/// The summary names them. More failures are no coincidence.
const RERUNS_MAX: usize = 3;

impl Steps<'_> {
    /// Runs tests that use servers. While another list of suites runs, a failed test is left to [`rerun`](Self::rerun).
    pub(crate) fn with_servers(
        &mut self,
        suite: &str,
        by_module: bool,
        targets: &'static [&'static str],
        arguments: &[&str],
    ) -> Result<()> {
        let start = Instant::now();
        let (output, succeeded) = self.run_tests(cargo_test(targets, arguments))?;
        let (skips, took) = (self.shared.take_skips(self.skips())?, start.elapsed());
        match output.named_failures().filter(|failed| (1..=RERUNS_MAX).contains(&failed.len())) {
            Some(failed) => {
                let suite = suite.to_owned();
                self.failed.push(FailedSuite { suite, by_module, targets, output, skips, took, failed });
            }
            None => {
                self.report.tests(suite, by_module, &TestRun { output: &output, skips: &skips, succeeded, took });
            }
        }
        if self.list == List::Only { self.rerun() } else { Ok(()) }
    }

    /// Runs the failed tests once more, and reports their suites.
    pub(crate) fn rerun(&mut self) -> Result<()> {
        for FailedSuite { suite, by_module, targets, mut output, skips, took, failed } in
            std::mem::take(&mut self.failed)
        {
            println!("running again: {}", failed.join(", "));
            let start = Instant::now();
            let exact: Vec<_> = ["--exact"].into_iter().chain(failed.iter().map(String::as_str)).collect();
            let (rerun, succeeded) = self.run_tests(cargo_test(targets, &exact))?;
            output.merge_rerun(&rerun);
            // Discarded: only the first run's skips count.
            self.shared.take_skips(self.skips())?;
            let run = TestRun { output: &output, skips: &skips, succeeded, took: took + start.elapsed() };
            self.report.tests(&suite, by_module, &run);
        }
        Ok(())
    }
}
