//! What a row gives: figures against their floors, and every leg they come from.

use std::fmt::{self, Write as _};
use std::fs;

use anyhow::{Context, Result};
use serde::Serialize;
use serde_json::Value;

use crate::arguments::{Place, Row};
use crate::cpu::CpuShare;
use crate::stats::Spread;

/// From which share on the processor time of others makes a run doubtful.
const OTHERS_MAX: f64 = 0.05;

/// What a figure has to reach.
#[derive(Debug, Clone, Copy, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Floor {
    AtLeast(f64),
    AtMost(f64),
    /// For information.
    None,
}

/// One line of the table.
#[derive(Debug, Serialize)]
pub(crate) struct Figure {
    what: String,
    unit: &'static str,
    samples: Vec<f64>,
    spread: Option<Spread>,
    floor: Floor,
    reached: Option<bool>,
}

impl Figure {
    /// One sample for each round; the median has to reach the floor.
    pub(crate) fn new(what: impl Into<String>, unit: &'static str, samples: Vec<f64>, floor: Floor) -> Self {
        let spread = Spread::of(&samples);
        let reached = spread.and_then(|spread| match floor {
            Floor::AtLeast(floor) => Some(spread.median >= floor),
            Floor::AtMost(floor) => Some(spread.median <= floor),
            Floor::None => None,
        });
        Self { what: what.into(), unit, samples, spread, floor, reached }
    }
}

impl fmt::Display for Figure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let measured = self.spread.map_or_else(
            || "nothing".to_owned(),
            |Spread { median, min, max }| {
                let unit = if self.unit.is_empty() { String::new() } else { format!(" {}", self.unit) };
                format!("{}{unit} ({}..{})", short(median), short(min), short(max))
            },
        );
        let floor = match self.floor {
            Floor::AtLeast(floor) => format!(">= {}", short(floor)),
            Floor::AtMost(floor) => format!("<= {}", short(floor)),
            Floor::None => String::new(),
        };
        let verdict = self.reached.map_or("", |reached| if reached { "ok" } else { "SHORT" });
        write!(f, "{:<58} {measured:<34} {floor:<10} {verdict}", self.what)
    }
}

/// Three digits, whatever the size.
fn short(value: f64) -> String {
    match value.abs() {
        0.0..10.0 => format!("{value:.3}"),
        10.0..1_000.0 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    }
}

/// The legs of a row, in the order they ran.
#[derive(Debug, Default)]
pub(crate) struct Journal {
    legs: Vec<Value>,
    others: Vec<f64>,
}

impl Journal {
    /// Notes and shows a leg.
    pub(crate) fn leg(&mut self, name: &str, cpu: CpuShare, details: impl Serialize) -> Result<()> {
        let details = serde_json::to_value(details)?;
        println!("  {name}: {} [own cpu {:.2}, others {:.2}]", outline(&details), cpu.own, cpu.others);
        self.others.push(cpu.others);
        self.legs.push(serde_json::json!({ "leg": name, "cpu": cpu, "details": details }));
        Ok(())
    }

    /// Writes the row's `.json` and `.txt`, and shows the latter.
    pub(crate) fn close(self, row: Row, place: &Place, figures: &[Figure]) -> Result<()> {
        let mut text = String::new();
        for figure in figures {
            writeln!(text, "{figure}")?;
        }
        if let Some(others) = Spread::of(&self.others) {
            let doubt = if others.max > OTHERS_MAX { "  NOISY: run it again on a quiet machine" } else { "" };
            let (median, max) = (others.median * 100.0, others.max * 100.0);
            writeln!(text, "  others used {median:.1} % of the processors, {max:.1} % in the worst leg{doubt}")?;
        }
        print!("{text}");
        let json = serde_json::json!({ "row": row.name(), "figures": figures, "legs": self.legs });
        let path = |extension| place.results.join(row.name()).with_extension(extension);
        fs::write(path("json"), serde_json::to_string_pretty(&json)?).context("write the results")?;
        fs::write(path("txt"), text).context("write the results")
    }
}

/// The numbers at the first level, which are what one wants to see passing by.
fn outline(details: &Value) -> String {
    let numbers = details.as_object().into_iter().flatten().filter_map(|(name, value)| {
        let value = value.as_f64()?;
        Some(format!("{name} {}", if value.fract() == 0.0 { format!("{value:.0}") } else { short(value) }))
    });
    numbers.collect::<Vec<_>>().join(", ")
}
