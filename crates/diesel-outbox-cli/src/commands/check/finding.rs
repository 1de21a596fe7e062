use serde::Serialize;

use crate::error::Error;
use crate::output::{List, Output, Row};

/// How something was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Verdict {
    Fine,
    /// Somebody may want it so.
    Warning,
    /// It could not be looked at.
    Unknown,
    /// Somebody has to act.
    Wrong,
}

impl Verdict {
    fn name(self) -> &'static str {
        match self {
            Self::Fine => "fine",
            Self::Warning => "warning",
            Self::Unknown => "cannot tell",
            Self::Wrong => "wrong",
        }
    }
}

/// One thing that was looked at.
#[derive(Debug, Serialize)]
pub(super) struct Finding {
    verdict: Verdict,
    /// What was looked at.
    check: &'static str,
    /// The topic, if it is one of a topic.
    topic: Option<String>,
    /// What was found, and what to do about it.
    text: String,
}

impl Row for Finding {
    const HEADINGS: &'static [&'static str] = &["verdict", "check", "topic", "found"];

    fn cells(&self) -> Vec<String> {
        let topic = self.topic.clone().unwrap_or_else(|| "-".to_owned());
        vec![self.verdict.name().to_owned(), self.check.to_owned(), topic, self.text.clone()]
    }
}

/// Everything that was looked at.
#[derive(Debug, Default)]
pub(super) struct Findings(Vec<Finding>);

impl Findings {
    /// Notes what is so of the whole outbox.
    pub(super) fn note(&mut self, verdict: Verdict, check: &'static str, text: impl Into<String>) {
        self.0.push(Finding { verdict, check, topic: None, text: text.into() });
    }

    /// Notes what is so of a topic.
    pub(super) fn of_topic(&mut self, verdict: Verdict, check: &'static str, topic: &str, text: impl Into<String>) {
        self.0.push(Finding { verdict, check, topic: Some(topic.to_owned()), text: text.into() });
    }

    /// Writes them all.
    pub(super) fn show(self, output: Output) -> Result<(), Error> {
        output.list(&List { items: self.0, more: false }, "nothing was looked at")
    }

    pub(super) fn worst(&self) -> Verdict {
        let has = |verdict| self.0.iter().any(|finding| finding.verdict == verdict);
        let by_weight = [Verdict::Wrong, Verdict::Unknown, Verdict::Warning];
        by_weight.into_iter().find(|verdict| has(*verdict)).unwrap_or(Verdict::Fine)
    }

    pub(super) fn has_warning(&self) -> bool {
        self.0.iter().any(|finding| finding.verdict == Verdict::Warning)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wrong_outweighs_what_cannot_be_told() {
        let mut findings = Findings::default();
        assert_eq!(findings.worst(), Verdict::Fine);
        for (added, worst) in [
            (Verdict::Fine, Verdict::Fine),
            (Verdict::Warning, Verdict::Warning),
            (Verdict::Unknown, Verdict::Unknown),
            (Verdict::Warning, Verdict::Unknown),
            (Verdict::Wrong, Verdict::Wrong),
            (Verdict::Unknown, Verdict::Wrong),
        ] {
            findings.note(added, "x", "y");
            assert_eq!(findings.worst(), worst);
        }
        assert!(findings.has_warning());
    }
}
