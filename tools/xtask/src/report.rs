//! The summary at the end of a run.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use crate::libtest::{Output, Verdict};

/// The result of one suite.
#[derive(Debug, Default, Clone, PartialEq)]
struct Row {
    suite: String,
    passed: usize,
    failed: usize,
    skipped: usize,
    took: Option<Duration>,
}

/// Something that did not run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Skip {
    /// The test, example or check.
    pub(crate) name: String,
    /// Why, and what to do about it.
    pub(crate) reason: String,
}

/// Everything that ran; its `Display` is the closing table.
#[derive(Debug, Default)]
pub(crate) struct Report {
    rows: Vec<Row>,
    failures: Vec<String>,
    skips: Vec<Skip>,
    /// Tests that failed the first time and passed the second.
    passed_on_rerun: Vec<String>,
    /// The steps that a quick run leaves out.
    left_out: Vec<&'static str>,
}

impl Report {
    /// Adds a check that passes or fails as a whole.
    pub(crate) fn check(&mut self, suite: &str, passed: bool, took: Duration) {
        let (passed, failed) = (usize::from(passed), usize::from(!passed));
        if failed > 0 {
            self.failures.push(suite.to_owned());
        }
        self.rows.push(Row { suite: suite.to_owned(), passed, failed, skipped: 0, took: Some(took) });
    }

    /// Adds a check that could not run, which CI counts as a failure.
    pub(crate) fn skip(&mut self, suite: &str, reason: &str, in_ci: bool) {
        let (failed, skipped) = (usize::from(in_ci), usize::from(!in_ci));
        if in_ci {
            self.failures.push(format!("{suite}: could not run: {reason}"));
        } else {
            self.skips.push(Skip { name: suite.to_owned(), reason: reason.to_owned() });
        }
        self.rows.push(Row { suite: suite.to_owned(), passed: 0, failed, skipped, took: None });
    }

    /// Adds the tests of one Cargo command. `skips` are tests that skipped themselves: libtest counts them as passed. With
    /// `by_module`, each top-level module gets a row.
    pub(crate) fn tests(&mut self, suite: &str, by_module: bool, run: &TestRun<'_>) {
        let mut rows: BTreeMap<String, Row> = BTreeMap::new();
        let name_of = |test: &str| match test.split_once("::") {
            Some((module, _)) if by_module => format!("{suite}: {module}"),
            _ => suite.to_owned(),
        };
        for (test, verdict) in &run.output.tests {
            let row = rows.entry(name_of(test)).or_default();
            match verdict {
                _ if run.skips.iter().any(|skip| skip.name == *test) => row.skipped += 1,
                Verdict::Passed => row.passed += 1,
                Verdict::PassedOnRerun => {
                    row.passed += 1;
                    self.passed_on_rerun.push(format!("{suite}: {test}"));
                }
                Verdict::Failed => {
                    row.failed += 1;
                    self.failures.push(format!("{suite}: {test}"));
                }
                Verdict::Ignored(reason) => {
                    row.skipped += 1;
                    self.skips.push(Skip { name: test.clone(), reason: reason.clone() });
                }
            }
        }
        let counted = |verdict: fn(&Verdict) -> bool| run.output.tests.iter().filter(|(_, v)| verdict(v)).count();
        let rest = rows.entry(suite.to_owned()).or_default();
        rest.passed += run
            .output
            .passed
            .saturating_sub(counted(|verdict| matches!(verdict, Verdict::Passed | Verdict::PassedOnRerun)));
        let torn = run.output.failed.saturating_sub(counted(|verdict| *verdict == Verdict::Failed));
        rest.failed += torn;
        // A binary that does not build, or dies midway, counts as a failure although no test reports one.
        if !run.succeeded && run.output.failed == 0 {
            rest.failed += 1;
            self.failures.push(format!("{suite}: did not build, or died"));
        }
        rest.took = Some(run.took);
        self.skips.extend(run.skips.iter().cloned());
        self.rows.extend(rows.into_iter().map(|(suite, row)| Row { suite, ..row }));
    }

    /// Adds the results of another run.
    pub(crate) fn add(&mut self, other: Self) {
        self.rows.extend(other.rows);
        self.failures.extend(other.failures);
        self.skips.extend(other.skips);
        self.passed_on_rerun.extend(other.passed_on_rerun);
    }

    /// Names the steps that were not requested, so that nobody takes a part for the whole.
    pub(crate) fn set_left_out(&mut self, steps: Vec<&'static str>) {
        self.left_out = steps;
    }

    /// How many tests and checks failed.
    pub(crate) fn failed(&self) -> usize {
        self.rows.iter().map(|row| row.failed).sum()
    }
}

/// One `cargo test`.
#[derive(Debug)]
pub(crate) struct TestRun<'a> {
    pub(crate) output: &'a Output,
    pub(crate) skips: &'a [Skip],
    pub(crate) succeeded: bool,
    pub(crate) took: Duration,
}

/// A suite in which a few tests failed, which run once more before it is reported.
#[derive(Debug)]
pub(crate) struct FailedSuite {
    pub(crate) suite: String,
    /// As in [`Report::tests`].
    pub(crate) by_module: bool,
    /// What selects its test binaries.
    pub(crate) targets: &'static [&'static str],
    pub(crate) output: Output,
    pub(crate) skips: Vec<Skip>,
    pub(crate) took: Duration,
    /// The names of the failed tests.
    pub(crate) failed: Vec<String>,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sum = |field: fn(&Row) -> usize| self.rows.iter().map(field).sum::<usize>();
        let (passed, failed, skipped) = (sum(|row| row.passed), sum(|row| row.failed), sum(|row| row.skipped));
        let width = self.rows.iter().map(|row| row.suite.len()).max().unwrap_or(0).max("suite".len());
        if !self.left_out.is_empty() {
            writeln!(f, "\nleft out: {}", self.left_out.join(", "))?;
        }
        if !self.skips.is_empty() {
            writeln!(f, "\nskipped:")?;
        }
        for skip in &self.skips {
            writeln!(f, "  {}: {}", skip.name, skip.reason)?;
        }
        writeln!(f, "\n{:width$}  passed  failed  skipped  seconds", "suite")?;
        for row in &self.rows {
            let took = row.took.map(|took| format!("{:.1}", took.as_secs_f64())).unwrap_or_default();
            let Row { suite, passed, failed, skipped, .. } = row;
            // The heading of the rows by module, which has only a time.
            if passed + failed + skipped == 0 && self.rows.len() > 1 {
                writeln!(f, "{suite:width$}  {:>6}  {:>6}  {:>7}  {took:>7}", "", "", "")?;
                continue;
            }
            writeln!(f, "{suite:width$}  {passed:>6}  {failed:>6}  {skipped:>7}  {took:>7}")?;
        }
        // Last, because CI shows only the end of the output.
        if !self.passed_on_rerun.is_empty() {
            writeln!(f, "\nflaky: failed once and passed the second time; fix the test or the code:")?;
        }
        for test in &self.passed_on_rerun {
            writeln!(f, "  {test}")?;
        }
        if !self.failures.is_empty() {
            writeln!(f, "\nfailed:")?;
        }
        for failure in &self.failures {
            writeln!(f, "  {failure}")?;
        }
        let again = match self.passed_on_rerun.len() {
            0 => String::new(),
            again => format!(" ({again} the second time)"),
        };
        writeln!(f, "\n{passed} passed{again}, {failed} failed, {skipped} skipped")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run_of(tests: &[(&str, Verdict)], skips: &[Skip], succeeded: bool) -> Report {
        let tests: Vec<_> = tests.iter().map(|(name, verdict)| ((*name).to_owned(), verdict.clone())).collect();
        let count = |verdict: &Verdict| tests.iter().filter(|(_, v)| v == verdict).count();
        let (passed, failed) = (count(&Verdict::Passed) + count(&Verdict::PassedOnRerun), count(&Verdict::Failed));
        let mut output = Output::default();
        (output.passed, output.failed, output.tests) = (passed, failed, tests);
        let mut report = Report::default();
        report.tests("it", true, &TestRun { output: &output, skips, succeeded, took: Duration::ZERO });
        report
    }

    fn last_line(report: &Report) -> String {
        report.to_string().lines().last().unwrap_or_default().to_owned()
    }

    #[test]
    fn a_test_that_skipped_itself_is_not_passed() {
        let skip = Skip { name: "relay::b".to_owned(), reason: "no kafka".to_owned() };
        let report = run_of(&[("relay::a", Verdict::Passed), ("relay::b", Verdict::Passed)], &[skip], true);
        assert_eq!(last_line(&report), "1 passed, 0 failed, 1 skipped");
        assert!(report.to_string().contains("relay::b: no kafka"), "{report}");
    }

    #[test]
    fn failures_are_named_and_a_dead_binary_is_one() {
        let report = run_of(&[("relay::a", Verdict::Failed)], &[], false);
        assert_eq!(last_line(&report), "0 passed, 1 failed, 0 skipped");
        assert!(report.to_string().contains("it: relay::a"), "{report}");
        let report = run_of(&[("relay::a", Verdict::Passed)], &[], false);
        assert_eq!(last_line(&report), "1 passed, 1 failed, 0 skipped");
    }

    #[test]
    fn tests_that_passed_on_rerun_are_named() {
        let report = run_of(&[("relay::a", Verdict::PassedOnRerun), ("relay::b", Verdict::Passed)], &[], true);
        assert_eq!(last_line(&report), "2 passed (1 the second time), 0 failed, 0 skipped");
        assert!(report.to_string().contains("  it: relay::a"), "{report}");
    }

    #[test]
    fn left_out_steps_are_named() {
        let mut report = Report::default();
        assert!(!report.to_string().contains("left out"));
        report.set_left_out(vec!["postgres", "model"]);
        assert!(report.to_string().contains("\nleft out: postgres, model\n"));
    }

    #[test]
    fn what_could_not_run_fails_in_ci_only() {
        for (in_ci, line) in [(true, "0 passed, 1 failed, 0 skipped"), (false, "0 passed, 0 failed, 1 skipped")] {
            let mut report = Report::default();
            report.skip("fmt", "no rustfmt", in_ci);
            assert_eq!(last_line(&report), line);
        }
    }
}
