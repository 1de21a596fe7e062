//! The results of the benches' rows: the programs below `benches/` write them, `cargo xtask bench --report` reads them.

use std::fmt;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// If other processes use at least this share of the processors, a run is doubtful.
const OTHERS_MAX: f64 = 0.05;

/// The prefix of the line in which a row's program says why it failed.
pub const FAILED: &str = "failed: ";

/// The summary of several rounds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// The middle one, or the mean of the two in the middle.
    pub median: f64,
    /// The smallest.
    pub min: f64,
    /// The largest.
    pub max: f64,
}

impl Spread {
    /// `None` without samples.
    #[must_use]
    pub fn of(samples: &[f64]) -> Option<Self> {
        let mut sorted = samples.to_vec();
        sorted.sort_by(f64::total_cmp);
        let (min, max) = (*sorted.first()?, *sorted.last()?);
        let (low, high) = (sorted[(sorted.len() - 1) / 2], sorted[sorted.len() / 2]);
        Some(Self { median: low.midpoint(high), min, max })
    }
}

/// What a figure should reach.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Target {
    /// This or more.
    AtLeast(f64),
    /// This or less.
    AtMost(f64),
    /// No target: for information only.
    None,
}

impl Target {
    /// The number of the target.
    #[must_use]
    pub fn value(self) -> Option<f64> {
        match self {
            Self::AtLeast(value) | Self::AtMost(value) => Some(value),
            Self::None => None,
        }
    }
}

/// One line of the table.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Figure {
    /// What was measured.
    pub what: String,
    /// Its unit; empty for a ratio.
    pub unit: String,
    /// One for each round.
    pub samples: Vec<f64>,
    /// The spread of the samples; `None` if nothing was measured.
    pub spread: Option<Spread>,
    /// The target.
    #[serde(alias = "floor")]
    pub target: Target,
    /// Whether the median reaches the target; `None` if there is no target.
    pub reached: Option<bool>,
}

impl Figure {
    /// One sample for each round; the median has to reach the target.
    pub fn new(what: impl Into<String>, unit: &str, samples: Vec<f64>, target: Target) -> Self {
        let spread = Spread::of(&samples);
        let reached = spread.and_then(|spread| match target {
            Target::AtLeast(target) => Some(spread.median >= target),
            Target::AtMost(target) => Some(spread.median <= target),
            Target::None => None,
        });
        Self { what: what.into(), unit: unit.to_owned(), samples, spread, target, reached }
    }
}

/// A line of the terminal's table.
impl fmt::Display for Figure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let measured = self.spread.map_or_else(
            || "nothing".to_owned(),
            |Spread { median, min, max }| {
                let unit = if self.unit.is_empty() { String::new() } else { format!(" {}", self.unit) };
                format!("{}{unit} ({}..{})", short(median), short(min), short(max))
            },
        );
        let target = match self.target {
            Target::AtLeast(target) => format!(">= {}", short(target)),
            Target::AtMost(target) => format!("<= {}", short(target)),
            Target::None => String::new(),
        };
        let verdict = self.reached.map_or("", |reached| if reached { "ok" } else { "SHORT" });
        write!(f, "{:<66} {measured:<34} {target:<10} {verdict}", self.what)
    }
}

/// At least three significant digits; thousands with commas.
#[must_use]
pub fn short(value: f64) -> String {
    match value.abs() {
        0.0..10.0 => return format!("{value:.3}"),
        10.0..1_000.0 => return format!("{value:.1}"),
        _ => {}
    }
    let digits = format!("{:.0}", value.abs());
    let mut text = if value < 0.0 { "-".to_owned() } else { String::new() };
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Where it was measured, as far as it affects the figures: no machine name, no path.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    /// How many processors the program may use.
    pub processors: usize,
    /// Their model, as the kernel names it.
    pub model: String,
    /// GiB of memory.
    pub memory_gib: f64,
    /// The kernel's version.
    pub kernel: String,
}

impl Machine {
    /// This machine.
    ///
    /// # Errors
    ///
    /// `/proc` cannot be read.
    pub fn here() -> Result<Self> {
        let read = |path: &str| fs::read_to_string(path).with_context(|| format!("read {path}"));
        let field = |text: &str, name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
            line.trim_start_matches([' ', '\t', ':']).trim().to_owned()
        };
        let memory_kib = field(&read("/proc/meminfo")?, "MemTotal:").trim_end_matches(" kB").parse::<f64>();
        Ok(Self {
            processors: std::thread::available_parallelism()?.get(),
            model: field(&read("/proc/cpuinfo")?, "model name"),
            memory_gib: memory_kib.context("/proc/meminfo is not as expected")? / f64::from(1 << 20),
            // The part after the dash names a distribution's or a host's build.
            kernel: read("/proc/sys/kernel/osrelease")?.trim().split('-').next().unwrap_or_default().to_owned(),
        })
    }
}

/// What was measured, and with which options.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Origin {
    /// The version of the library.
    pub version: String,
    /// Seven digits, and `-dirty` if files differed from it; `None` outside of a repository.
    pub commit: Option<String>,
    /// The day of the measurement, in UTC, as `2026-02-03`. Missing in results from before this field existed.
    #[serde(default)]
    pub date: Option<String>,
    /// The length of a leg; `None`, here and below, for the row's default.
    pub seconds: Option<f64>,
    /// How often each leg was run.
    pub rounds: Option<u32>,
    /// The size of a backlog.
    pub messages: Option<u64>,
}

impl Origin {
    /// The commit and the day, for the end of a sentence.
    #[must_use]
    pub fn when(&self) -> String {
        let commit = self.commit.as_ref().map_or_else(|| "an unknown commit".to_owned(), |of| format!("commit {of}"));
        let day = self.date.as_deref().unwrap_or("an unknown day");
        format!("at {commit} on {day}")
    }

    /// Why the figures are not those of a whole run of `commit`; empty if they are.
    #[must_use]
    pub fn doubts(&self, commit: Option<&str>) -> String {
        let seconds = self.seconds.map(|seconds| format!("--seconds {seconds}"));
        let rounds = self.rounds.map(|rounds| format!("--rounds {rounds}"));
        let messages = self.messages.map(|messages| format!("--messages {messages}"));
        let overrides: Vec<String> = [seconds, rounds, messages].into_iter().flatten().collect();
        let mut doubts = Vec::new();
        if !overrides.is_empty() {
            doubts.push(format!("a run of other length than the default (`{}`)", overrides.join(" ")));
        }
        match (&self.commit, commit) {
            // Writing the report makes the tree dirty.
            (Some(of), Some(commit)) if of != commit.trim_end_matches("-dirty") => {
                doubts.push(format!("of commit {of}"))
            }
            (None, Some(_)) => doubts.push("of an unknown commit".to_owned()),
            _ => {}
        }
        doubts.join(", ")
    }
}

/// A row, with everything that its figures come from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RowResult {
    /// Its name, as `--only` takes it.
    pub row: String,
    /// The lines of the table.
    pub figures: Vec<Figure>,
    /// The share of the processors that other processes used, over all legs.
    pub others: Option<Spread>,
    /// How long the row took.
    pub seconds: f64,
    /// The version and options. Missing in results from before this field existed.
    #[serde(default)]
    pub origin: Origin,
    /// The machine it ran on.
    pub machine: Machine,
    /// Every leg, in the order in which they ran.
    pub legs: Vec<Value>,
}

impl RowResult {
    /// Whether other processes used so much that the figures are unreliable.
    #[must_use]
    pub fn is_noisy(&self) -> bool {
        self.others.is_some_and(|others| others.max > OTHERS_MAX)
    }

    /// Reads the result of a row from `folder`; `None` if it has not been measured.
    ///
    /// # Errors
    ///
    /// The file cannot be read, or is no such result.
    pub fn read(folder: &Path, row: &str) -> Result<Option<Self>> {
        let path = folder.join(row).with_extension("json");
        if !path.exists() {
            return Ok(None);
        }
        let text = fs::read_to_string(&path).with_context(|| format!("read the result of {row}"))?;
        serde_json::from_str(&text).map(Some).with_context(|| format!("the result of {row} has another format"))
    }

    /// Writes the result into `folder`.
    ///
    /// # Errors
    ///
    /// The file cannot be written.
    pub fn write(&self, folder: &Path) -> Result<()> {
        let path = folder.join(&self.row).with_extension("json");
        fs::write(path, serde_json::to_string_pretty(self)?).context("write the result")
    }
}

/// The row's part of the terminal's table.
impl fmt::Display for RowResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for figure in &self.figures {
            writeln!(f, "{figure}")?;
        }
        if let Some(others) = self.others {
            let doubt = if self.is_noisy() { "  NOISY: run it again on a quiet machine" } else { "" };
            let (median, max) = (others.median * 100.0, others.max * 100.0);
            writeln!(f, "  others used {median:.1} % of the processors, {max:.1} % in the worst leg{doubt}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_decides_and_not_the_best_round() {
        let figure = Figure::new("share", "", vec![0.9, 0.5, 0.6], Target::AtLeast(0.65));
        assert_eq!(figure.spread, Some(Spread { median: 0.6, min: 0.5, max: 0.9 }));
        assert_eq!(figure.reached, Some(false));
        assert_eq!(Figure::new("share", "", vec![0.6, 0.7], Target::AtMost(0.65)).reached, Some(true));
        assert_eq!(Figure::new("share", "", Vec::new(), Target::AtMost(0.65)).reached, None);
    }

    #[test]
    fn numbers_are_short() {
        assert_eq!(
            [0.0, 0.25, 12.34, 999.0, 1_000.0, 94_012.0].map(short).join(" "),
            "0.000 0.250 12.3 999.0 1,000 94,012"
        );
        assert_eq!([-0.05, -1_234_567.0].map(short).join(" "), "-0.050 -1,234,567");
    }

    #[test]
    fn only_a_full_run_of_this_commit_has_no_doubts() {
        let whole = Origin { commit: Some("abc1234".to_owned()), ..Origin::default() };
        for here in [Some("abc1234"), Some("abc1234-dirty"), None] {
            assert_eq!(whole.doubts(here), "", "{here:?}");
        }
        assert_eq!(whole.doubts(Some("1234abc")), "of commit abc1234");
        let dirty = Origin { commit: Some("abc1234-dirty".to_owned()), ..Origin::default() };
        assert_eq!(dirty.doubts(Some("abc1234-dirty")), "of commit abc1234-dirty");
        let short = Origin { seconds: Some(2.0), rounds: Some(1), ..whole };
        let length = "a run of other length than the default (`--seconds 2 --rounds 1`)";
        assert_eq!(short.doubts(Some("abc1234")), length);
        assert_eq!(short.doubts(Some("1234abc")), format!("{length}, of commit abc1234"));
        assert_eq!(Origin::default().doubts(Some("abc1234")), "of an unknown commit");
    }

    #[test]
    fn an_origin_without_a_date_is_still_described() {
        let text = r#"{ "version": "0.1.0", "commit": "abc1234", "seconds": null, "rounds": null, "messages": null }"#;
        let old: Origin = serde_json::from_str(text).expect("an origin without a date");
        assert_eq!(old.when(), "at commit abc1234 on an unknown day");
        assert_eq!(Origin::default().when(), "at an unknown commit on an unknown day");
        let new = Origin { date: Some("2026-02-03".to_owned()), ..old };
        assert_eq!(new.when(), "at commit abc1234 on 2026-02-03");
        assert_eq!(new.doubts(Some("abc1234")), "", "an age of one day raises no doubt");
        let text = serde_json::to_string(&new).expect("JSON");
        assert_eq!(serde_json::from_str::<Origin>(&text).expect("its own JSON"), new);
    }

    #[test]
    fn this_machine_is_known_without_its_name() {
        let machine = Machine::here().expect("/proc");
        assert!(machine.processors > 0 && machine.memory_gib > 0.1 && !machine.kernel.is_empty(), "{machine:?}");
    }
}
