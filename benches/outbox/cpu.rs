//! Who used the CPU: the bench with its servers, or others. A run with much use by others is worth little, and the
//! report must show that.

use std::collections::HashMap;
use std::fs;
use std::time::Instant;

use anyhow::{Context, Result};
use serde::Serialize;

/// Shares of all processors over a stretch of time.
#[derive(Debug, Clone, Copy, Serialize)]
pub(crate) struct CpuShare {
    /// The bench and its servers.
    pub(crate) own: f64,
    /// All other processes on the machine, including steal time.
    pub(crate) others: f64,
    /// The bench and its servers, in microseconds of one core. Divided by the work done, it hardly depends on others.
    pub(crate) own_us: f64,
    /// The part of `own` that PostgreSQL's processes used.
    pub(crate) database: f64,
    /// The part of `own` that Java processes used: the brokers.
    pub(crate) java: f64,
}

/// The clock ticks spent so far.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CpuMeter {
    total: u64,
    busy: u64,
    own: FamilyTicks,
    root: u32,
    since: Instant,
}

impl CpuMeter {
    /// Starts to measure; `root` is the process whose descendants are ours.
    pub(crate) fn start(root: u32) -> Result<Self> {
        let stat = fs::read_to_string("/proc/stat").context("read /proc/stat")?;
        let (total, busy) = machine_ticks(&stat).context("/proc/stat is not as expected")?;
        Ok(Self { total, busy, own: family_ticks(root)?, root, since: Instant::now() })
    }

    /// The shares since the start.
    pub(crate) fn stop(self) -> Result<CpuShare> {
        let now = Self::start(self.root)?;
        let total = now.total.saturating_sub(self.total).max(1) as f64;
        let spent = |of: fn(&FamilyTicks) -> u64| of(&now.own).saturating_sub(of(&self.own)) as f64;
        let (own, database, java) = (spent(|of| of.all), spent(|of| of.postgres), spent(|of| of.java));
        let busy = now.busy.saturating_sub(self.busy) as f64;
        let processors = std::thread::available_parallelism()?.get() as f64;
        let own_us = own / total * self.since.elapsed().as_secs_f64() * 1e6 * processors;
        let others = (busy - own).max(0.0) / total;
        Ok(CpuShare { own: own / total, others, own_us, database: database / total, java: java / total })
    }
}

/// All ticks, and those not idle, of the line `cpu user nice system idle iowait irq softirq steal ..`.
fn machine_ticks(stat: &str) -> Option<(u64, u64)> {
    let line = stat.lines().next()?.strip_prefix("cpu ")?;
    // The fields after the eighth are guest time, which is included in `user`.
    let ticks: Vec<u64> = line.split_whitespace().take(8).map(str::parse).collect::<Result<_, _>>().ok()?;
    let total: u64 = ticks.iter().sum();
    Some((total, total - ticks.get(3)? - ticks.get(4)?))
}

/// The clock ticks of a family of processes.
#[derive(Debug, Clone, Copy, Default)]
struct FamilyTicks {
    all: u64,
    postgres: u64,
    java: u64,
}

/// The ticks of `root` and all its descendants. Ended children count with their parents, who reaped them.
fn family_ticks(root: u32) -> Result<FamilyTicks> {
    let processes = fs::read_dir("/proc").context("read /proc")?.flatten();
    let ids = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    // A process that ended meanwhile is skipped: its parent has its ticks.
    let stats = ids.filter_map(|id| Some((id, process(&fs::read_to_string(format!("/proc/{id}/stat")).ok()?)?)));
    let stats: HashMap<u32, Process> = stats.collect();
    let is_ours = |mut id: u32| {
        while id != root {
            match stats.get(&id) {
                Some(process) if process.parent > 0 => id = process.parent,
                _ => return false,
            }
        }
        true
    };
    let mut family = FamilyTicks::default();
    for (_, process) in stats.iter().filter(|(id, _)| is_ours(**id)) {
        family.all += process.ticks;
        match process.name.as_str() {
            "postgres" => family.postgres += process.ticks,
            "java" => family.java += process.ticks,
            _ => {}
        }
    }
    Ok(family)
}

struct Process {
    name: String,
    parent: u32,
    /// Own and reaped children's, user and system.
    ticks: u64,
}

/// A process, from `id (name) state parent ..`.
fn process(stat: &str) -> Option<Process> {
    let (begin, rest) = stat.rsplit_once(')')?;
    let (_, name) = begin.split_once('(')?;
    let fields: Vec<&str> = rest.split_whitespace().collect();
    let ticks = fields.get(11..15)?.iter().map(|field| field.parse::<u64>()).sum::<Result<u64, _>>().ok()?;
    Some(Process { name: name.to_owned(), parent: fields.get(1)?.parse().ok()?, ticks })
}
