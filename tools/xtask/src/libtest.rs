//! Parses the output of a test binary or rustdoc.

use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};

/// How long a test binary may print nothing. The longest test takes two minutes. A hanging one would use up CI's time, and nobody
/// would learn its name.
const SILENCE_MAX: Duration = Duration::from_secs(10 * 60);

/// The outcome of one or more test binaries.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Output {
    /// Each test by its full name.
    pub(crate) tests: Vec<(String, Verdict)>,
    /// Sums of the summary lines, which also count tests whose own line was interrupted by other output.
    pub(crate) passed: usize,
    /// As `passed`.
    pub(crate) failed: usize,
    /// As `passed`.
    pub(crate) ignored: usize,
    /// How many tests are to run.
    expected: usize,
    /// Slow tests that have not ended.
    slow: Vec<String>,
    /// When the running binary last printed something.
    printed_at: Option<Instant>,
    /// The binary printed nothing for too long.
    pub(crate) hangs: bool,
}

/// What became of one test.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Verdict {
    Passed,
    Failed,
    /// Failed the first time, passed the second.
    PassedOnRerun,
    /// With the reason of its `#[ignore = "…"]`.
    Ignored(String),
}

impl Output {
    /// Handles one line of the output; `None` means that there is none for now.
    ///
    /// # Errors
    ///
    /// There was no line for too long.
    pub(crate) fn watch(&mut self, line: Option<&str>) -> Result<()> {
        let now = Instant::now();
        match line {
            Some(line) => {
                let has_begun = self.printed_at.is_some() || line.starts_with("running ");
                self.printed_at = (has_begun && !line.starts_with("test result: ")).then_some(now);
                self.read(line);
            }
            None if self.printed_at.is_some_and(|at| now.duration_since(at) >= SILENCE_MAX) => {
                self.hangs = true;
                bail!("no test has ended for {SILENCE_MAX:?}");
            }
            None => {}
        }
        Ok(())
    }

    /// Names the tests that take long and have not ended.
    pub(crate) fn unfinished(&self) -> String {
        match self.slow.as_slice() {
            [] => String::new(),
            slow => format!("; still running: {}", slow.join(", ")),
        }
    }

    /// Counts hanging tests as failed, once their binary was ended.
    ///
    /// # Errors
    ///
    /// More tests have not ended, and their names are unknown.
    pub(crate) fn fail_unfinished(&mut self) -> Result<()> {
        let known = self.tests.len() + self.slow.len();
        ensure!(
            !self.slow.is_empty() && known >= self.expected,
            "only {known} of {} tests have a known result",
            self.expected
        );
        self.tests.extend(self.slow.drain(..).map(|name| (name, Verdict::Failed)));
        // There is no summary line.
        let failed = self.tests.iter().filter(|(_, verdict)| *verdict == Verdict::Failed);
        (self.failed, self.printed_at, self.hangs) = (failed.count(), None, false);
        Ok(())
    }

    fn read(&mut self, line: &str) {
        if let Some(count) =
            line.strip_prefix("running ").and_then(|rest| rest.split(' ').next()?.parse::<usize>().ok())
        {
            self.expected += count;
        }
        let Some(rest) = line.strip_prefix("test ") else { return };
        if let Some((name, _)) = rest.split_once(" has been running for over ") {
            self.slow.push(name.to_owned());
        } else if let Some(summary) = rest.strip_prefix("result: ") {
            self.passed += count(summary, "passed");
            self.failed += count(summary, "failed");
            self.ignored += count(summary, "ignored");
        } else if let Some((name, verdict)) = rest.rsplit_once(" ... ") {
            // trybuild prints its programs in the same format, inside the one test that runs them.
            if name.contains('[') {
                return;
            }
            let verdict = match verdict.split_once(", ").unwrap_or((verdict, "")) {
                ("ok", _) => Verdict::Passed,
                ("ignored", reason) => Verdict::Ignored(reason.to_owned()),
                ("FAILED", _) => Verdict::Failed,
                _ => return,
            };
            self.slow.retain(|slow| slow != name);
            self.tests.push((name.to_owned(), verdict));
        }
    }

    /// The failed tests, if all of their names are known.
    pub(crate) fn named_failures(&self) -> Option<Vec<String>> {
        let failed = self.tests.iter().filter(|(_, verdict)| *verdict == Verdict::Failed);
        let names: Vec<String> = failed.map(|(name, _)| name.clone()).collect();
        (names.len() == self.failed).then_some(names)
    }

    /// Merges the results of the second run of the failed tests.
    pub(crate) fn merge_rerun(&mut self, rerun: &Self) {
        for (name, verdict) in &mut self.tests {
            if *verdict == Verdict::Failed && rerun.tests.contains(&(name.clone(), Verdict::Passed)) {
                *verdict = Verdict::PassedOnRerun;
                self.failed -= 1;
                self.passed += 1;
            }
        }
    }
}

/// The number before `what` in `ok. 7 passed; 0 failed; ..`.
fn count(summary: &str, what: &str) -> usize {
    let words: Vec<_> = summary.split([' ', ';']).collect();
    let number = words.windows(2).find(|pair| pair[1] == what).map(|pair| pair[0]);
    number.and_then(|number| number.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_summed_and_tests_named() {
        let text = "running 3 tests
test relay::a ... ok
test relay::b ... FAILED
test src/lib.rs - (line 3) ... ignored, needs a moon
test tests/ui/no_key.rs [should fail to compile] ... ok
test relay::slow has been running for over 60 seconds
test result: FAILED. 1 passed; 1 failed; 1 ignored; 0 measured; 8 filtered out; finished in 20.88s
test result: ok. 10 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 1.00s";
        let mut output = Output::default();
        text.lines().for_each(|line| output.read(line));
        let expected = Output {
            tests: vec![
                ("relay::a".to_owned(), Verdict::Passed),
                ("relay::b".to_owned(), Verdict::Failed),
                ("src/lib.rs - (line 3)".to_owned(), Verdict::Ignored("needs a moon".to_owned())),
            ],
            passed: 11,
            failed: 1,
            ignored: 1,
            expected: 3,
            slow: vec!["relay::slow".to_owned()],
            printed_at: None,
            hangs: false,
        };
        assert_eq!(output, expected);
    }

    #[test]
    fn a_test_that_hangs_is_named_and_a_build_has_its_time() {
        let mut output = Output::default();
        let mut see =
            |lines: &[&str]| lines.iter().try_for_each(|line| output.watch(Some(line))).map(|()| output.printed_at);
        let slow = "test relay::slow has been running for over 60 seconds";
        assert_eq!(see(&["   Compiling a"]).unwrap(), None);
        assert!(see(&["running 2 tests", slow, "test relay::a ... ok"]).unwrap().is_some());
        output.watch(None).unwrap();
        output.printed_at = output.printed_at.and_then(|at| at.checked_sub(SILENCE_MAX));
        output.watch(None).unwrap_err();
        assert!(output.hangs && output.unfinished() == "; still running: relay::slow");
        output.watch(Some("test relay::slow ... ok")).unwrap();
        assert_eq!(output.unfinished(), "");
        output.watch(Some("test result: ok. 2 passed; 0 failed")).unwrap();
        assert_eq!(output.printed_at, None);
    }

    #[test]
    fn one_that_hangs_counts_as_failed_where_all_others_have_ended() {
        let slow = "test b has been running for over 60 seconds";
        for (others, is_known) in [("test a ... ok\ntest c ... FAILED", true), ("test a ... ok", false)] {
            let mut output = Output::default();
            format!("running 3 tests\n{slow}\n{others}").lines().for_each(|line| output.read(line));
            assert_eq!(output.fail_unfinished().is_ok(), is_known);
            let names = ["c", "b"].map(str::to_owned).to_vec();
            assert_eq!(output.named_failures().filter(|_| is_known), is_known.then_some(names));
        }
    }

    #[test]
    fn a_test_that_passes_on_rerun_is_marked() {
        let read = |text: &str| {
            let mut output = Output::default();
            text.lines().for_each(|line| output.read(line));
            output
        };
        let summary = "test result: FAILED. 0 passed; 2 failed; 0 ignored;";
        let mut output = read(&format!("test a ... FAILED\ntest b ... FAILED\n{summary}"));
        assert_eq!(output.named_failures(), Some(vec!["a".to_owned(), "b".to_owned()]));
        output.merge_rerun(&read("test a ... ok\ntest b ... FAILED"));
        assert_eq!((output.passed, output.failed), (1, 1));
        assert_eq!(output.tests[0].1, Verdict::PassedOnRerun);
        assert_eq!(output.named_failures(), Some(vec!["b".to_owned()]));
        assert_eq!(read(summary).named_failures(), None, "a line was torn");
    }
}
