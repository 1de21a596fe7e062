//! The result of a row: figures compared with their targets, and every leg that they come from.

use std::path::Path;
use std::time::Instant;

use anyhow::Result;
use serde::Serialize;
use serde_json::Value;
pub(crate) use xtask::bench_results::{Figure, Target};
use xtask::bench_results::{Machine, Origin, RowResult, Spread, short};

use crate::cpu::CpuShare;

/// The legs of a row, in the order they ran.
#[derive(Debug)]
pub(crate) struct LegLog {
    started: Instant,
    legs: Vec<Value>,
    others: Vec<f64>,
}

impl LegLog {
    pub(crate) fn start() -> Self {
        Self { started: Instant::now(), legs: Vec::new(), others: Vec::new() }
    }

    /// Records and prints a leg.
    pub(crate) fn leg(&mut self, name: &str, cpu: CpuShare, details: impl Serialize) -> Result<()> {
        let details = serde_json::to_value(details)?;
        println!("  {name}: {} [own cpu {:.2}, others {:.2}]", outline(&details), cpu.own, cpu.others);
        self.others.push(cpu.others);
        self.legs.push(serde_json::json!({ "leg": name, "cpu": cpu, "details": details }));
        Ok(())
    }

    /// Writes the row's result into the results folder, and prints its figures.
    pub(crate) fn close(self, row: &str, results: &Path, figures: Vec<Figure>) -> Result<()> {
        let result = RowResult {
            row: row.to_owned(),
            figures,
            others: Spread::of(&self.others),
            seconds: self.started.elapsed().as_secs_f64(),
            // The caller knows the rest.
            origin: Origin { version: env!("CARGO_PKG_VERSION").to_owned(), ..Origin::default() },
            machine: Machine::here()?,
            legs: self.legs,
        };
        print!("{result}");
        result.write(results)
    }
}

/// The numbers at the first level, for the progress output.
fn outline(details: &Value) -> String {
    let numbers = details.as_object().into_iter().flatten().filter_map(|(name, value)| {
        let value = value.as_f64()?;
        Some(format!("{name} {}", if value.fract() == 0.0 { format!("{value:.0}") } else { short(value) }))
    });
    numbers.collect::<Vec<_>>().join(", ")
}
