//! The rules as the drill runs them: what operators install, with every duration shortened by one factor.

use std::path::Path;

use anyhow::{Context, Result};

/// A minute of the rules lasts two seconds in the drill. The windows still hold several scrapes, and an alert that needs a quarter
/// of an hour fires within half a minute.
pub(crate) const SPEED: f64 = 30.0;

/// Where a duration follows: `for`, windows, offsets.
const BEFORE_DURATIONS: [&str; 3] = ["for: ", "[", "offset "];
/// Where a threshold in seconds follows: behind a metric whose unit is the second.
const BEFORE_SECONDS: &str = "_seconds) > ";

/// Reads the rules, and shortens them.
pub(crate) fn read(path: &Path) -> Result<String> {
    std::fs::read_to_string(path).map(|rules| shortened(&rules)).with_context(|| format!("read {}", path.display()))
}

fn shortened(rules: &str) -> String {
    let lines =
        rules.lines().map(|line| if line.trim_start().starts_with('#') { line.to_owned() } else { shorten(line) });
    lines.map(|line| line + "\n").collect()
}

fn shorten(line: &str) -> String {
    let with_durations = BEFORE_DURATIONS.iter().fold(line.to_owned(), |line, before| {
        replaced(&line, before, |rest| {
            let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
            let number: f64 = rest[..digits].parse().ok()?;
            let seconds = match rest[digits..].chars().next()? {
                's' => 1.0,
                'm' => 60.0,
                'h' => 3_600.0,
                'd' => 86_400.0,
                _ => return None,
            };
            Some((digits + 1, format!("{}ms", (number * seconds * 1_000.0 / SPEED).round())))
        })
    });
    replaced(&with_durations, BEFORE_SECONDS, |rest| {
        let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let number: f64 = rest[..digits].parse().ok()?;
        Some((digits, (number / SPEED).to_string()))
    })
}

/// Replaces what `found` recognizes behind each `before`: it returns the length of the old text, and the new one.
fn replaced(line: &str, before: &str, found: impl Fn(&str) -> Option<(usize, String)>) -> String {
    let mut parts = line.split(before);
    let mut result = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        result += before;
        match found(part) {
            Some((length, new)) => result += &(new + &part[length..]),
            None => result += part,
        }
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_and_thresholds_are_shortened_and_names_are_not() {
        for (line, expected) in [
            ("        for: 5m", "        for: 10000ms"),
            ("        for: 0s", "        for: 0ms"),
            ("rate(a_seconds_count{le=\"5\"}[1h])", "rate(a_seconds_count{le=\"5\"}[120000ms])"),
            ("a unless a offset 10m and b", "a unless a offset 20000ms and b"),
            ("max by (job) (outbox_oldest_due_seconds) > 120", "max by (job) (outbox_oldest_due_seconds) > 4"),
            ("outbox:slow:ratio_rate1d > 3 * 0.01", "outbox:slow:ratio_rate1d > 3 * 0.01"),
            ("max by (job) (outbox_dead_letters) > 0", "max by (job) (outbox_dead_letters) > 0"),
        ] {
            assert_eq!(shorten(line), expected);
        }
    }

    #[test]
    fn every_alert_keeps_its_name() {
        let rules = std::fs::read_to_string(crate::ops().join("prometheus/rules.yml")).expect("the rules");
        let names =
            |text: &str| text.lines().filter(|line| line.contains("- alert: ")).map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(names(&shortened(&rules)), names(&rules));
        assert!(!shortened(&rules).contains("[5m]") && !shortened(&rules).contains("for: 5m"));
    }
}
