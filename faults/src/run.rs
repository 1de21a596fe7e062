//! One run: applications under load, the phases of a schedule, a calm after each, and the audit.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use tokio::task::spawn_blocking;
use tokio::time::Instant;

use crate::audit::{Audit, Evidence, Finding};
use crate::backends::Backends;
use crate::calm::Calm;
use crate::consumer::{self, Follower};
use crate::faults::Faults;
use crate::fleet::Fleet;
use crate::journal::{Journal, Window};
use crate::plans::Plan;
use crate::recovery::{CALM, REST, Scene};
use crate::schedule::APPLICATIONS;
use crate::truth;
use crate::wire::{Command, Config, Topics};
use crate::world::World;
use xtask::stop::Stop;

/// Rows of the history that fall during the first phase were kept until then; each later phase has the next year.
const YEAR: usize = 1900;

/// What a run came to.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) audit: Audit,
    pub(crate) windows: Vec<Window>,
    pub(crate) transactions: BTreeMap<String, u64>,
    /// What the library counted in all applications, by metric.
    pub(crate) metrics: BTreeMap<String, u64>,
    pub(crate) phases: Vec<Passed>,
    /// The most connections that a relay had at once.
    pub(crate) backends: i64,
    pub(crate) took: Duration,
}

/// What a phase came to.
#[derive(Debug, Clone)]
pub(crate) struct Passed {
    /// Not settled when everything healed.
    pub(crate) rows: i64,
    /// From then on until every application ran; none where one did not.
    pub(crate) running: Option<Duration>,
    /// From then on until what waited was sent; none where it was not.
    pub(crate) recovery: Option<Duration>,
    /// Since the phase before recovered, and how long ago that was.
    pub(crate) committed: i64,
    pub(crate) took: Duration,
}

impl Passed {
    pub(crate) fn committed_per_second(&self) -> f64 {
        self.committed as f64 / self.took.as_secs_f64().max(0.001)
    }
}

impl fmt::Display for Passed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} rows at its end, ", self.rows)?;
        match (self.running, self.recovery) {
            (Some(running), Some(recovery)) => {
                let (running, recovery) = (running.as_secs_f64(), recovery.as_secs_f64());
                write!(f, "all ran after {running:.1} s and recovered in {recovery:.1} s")?;
            }
            (Some(running), None) => write!(f, "all ran after {:.1} s and are stuck", running.as_secs_f64())?,
            (None, _) => write!(f, "not all run")?,
        }
        write!(f, ", {:.0} committed per second", self.committed_per_second())
    }
}

/// Runs a plan in a database and topics of its own. What is found is in the outcome.
///
/// # Errors
///
/// Something of the harness itself failed, or a signal asked for the end.
pub(crate) async fn run(world: &World, plan: &Plan, name: &str, results: &Path, stop: &Stop) -> Result<Outcome> {
    let started = Instant::now();
    world.heal();
    world.new_database(name).await?;
    let topics = Topics::of_run(name);
    let journal = Journal::default();
    let configs = world.ways.iter().map(|way| {
        Ok(Config {
            process: 0,
            seed: plan.seed,
            database_url: world.url_by(way, name)?,
            bootstrap: format!("127.0.0.1:{}", way.broker.port()),
            topics: topics.clone(),
            times: plan.times,
            load: plan.load,
            mistake: plan.mistake.clone(),
        })
    });
    let configs = configs.collect::<Result<Vec<Config>>>()?;
    let log = results.join(format!("{name}.log"));
    let backends = Backends::count(world.url(name));
    let follower = Follower::start(world.bootstrap(), &topics);
    let mut fleet = Fleet::new(configs, journal.clone(), &log)?;
    (0..APPLICATIONS).try_for_each(|application| fleet.start(application))?;
    fleet.watch(REST, stop).await?;
    let scene = Scene { world, database: name, stop };
    let Gone { phases, calms, stuck } = go_through(&scene, plan, &journal, &mut fleet).await?;
    for application in 0..APPLICATIONS {
        fleet.tell(application, Command::Rest).await?;
    }
    // The longest transaction ends, and with it the last row is there.
    fleet.watch(REST, stop).await?;
    // Also behind a phase that was stuck: this tells what is only late from what stays, and has dead letters redriven that would
    // look wrongly dead.
    let cured = scene.cured(&mut fleet).await?;
    // One that never ran would not hear that it is to end.
    for application in fleet.starting() {
        fleet.kill(application).await?;
    }
    for application in 0..APPLICATIONS {
        fleet.end(application).await?;
    }
    let read = Read { calms, aged: follower.end().await?, is_cured: cured.is_ok() };
    let mut audit = audited(&scene, plan, &topics, &journal, &fleet, &backends, read).await?;
    let at_the_end = cured.err().map(|what| format!("at the end: {what}"));
    for what in stuck.into_iter().chain(at_the_end) {
        audit.find(Finding::Stuck, || what);
    }
    let (windows, transactions, metrics) = (journal.windows(), fleet.transactions(), fleet.metrics());
    let backends = backends.most();
    Ok(Outcome { audit, windows, transactions, metrics, phases, backends, took: started.elapsed() })
}

/// What the phases of a plan came to.
#[derive(Debug, Default)]
struct Gone {
    phases: Vec<Passed>,
    calms: Vec<Calm>,
    /// What was stuck behind the last of them.
    stuck: Option<String>,
}

/// What was read while the run went on.
struct Read {
    calms: Vec<Calm>,
    aged: Vec<consumer::Record>,
    is_cured: bool,
}

/// Goes through the phases of a plan.
async fn go_through(scene: &Scene<'_>, plan: &Plan, journal: &Journal, fleet: &mut Fleet) -> Result<Gone> {
    let mut gone = Gone::default();
    let mut faults = Faults::new(scene.world, scene.database, journal, plan.times);
    let (mut committed, mut since) = (truth::count(&mut scene.connect().await?).await?, Instant::now());
    for (number, phase) in plan.phases.iter().enumerate() {
        if plan.load.whole_life {
            truth::grow_old(&mut scene.connect().await?, YEAR + number).await?;
        }
        faults.go_through(phase, fleet, scene.stop).await?;
        let rows = scene.waiting().await?;
        let running = scene.running(fleet).await?;
        let recovered = match &running {
            Ok(_) => scene.recovered(fleet).await?,
            Err(what) => Err(what.clone()),
        };
        let (before, begin) = (committed, since);
        (committed, since) = (truth::count(&mut scene.connect().await?).await?, Instant::now());
        let one = Passed {
            rows,
            running: running.ok(),
            recovery: recovered.as_ref().ok().copied(),
            committed: committed - before,
            took: since - begin,
        };
        eprintln!("phase {} of {}: {one}", number + 1, plan.phases.len());
        gone.phases.push(one);
        if recovered.is_ok() {
            journal.recovered(plan.times.delivery_ms);
        }
        if let Err(what) = recovered {
            gone.stuck = Some(format!("behind phase {}: {what}", number + 1));
            break;
        }
        let calm = Calm::begin(&mut scene.connect().await?, faults.held()).await?;
        fleet.watch(CALM, scene.stop).await?;
        let calm = calm.end(&mut scene.connect().await?).await?;
        println!("read in the calm: {:?}, of what is dead: {:?}", calm.rows_read, calm.dead);
        gone.calms.push(calm);
    }
    faults.release();
    Ok(gone)
}

async fn audited(
    scene: &Scene<'_>,
    plan: &Plan,
    topics: &Topics,
    journal: &Journal,
    fleet: &Fleet,
    backends: &Backends,
    read: Read,
) -> Result<Audit> {
    let (bootstrap, topics) = (scene.world.bootstrap(), topics.clone());
    let mut records = spawn_blocking(move || consumer::read(&bootstrap, &topics)).await?.context("read the topics")?;
    records.extend(read.aged);
    let mut connection = scene.connect().await?;
    let committed = truth::committed(&mut connection).await?;
    let dead = truth::dead(&mut connection).await?;
    let kept = truth::kept(&mut connection).await?;
    if committed.is_empty() {
        bail!("nothing was committed");
    }
    let evidence = Evidence {
        committed: &committed,
        dead: &dead,
        is_cured: read.is_cured,
        kept: plan.load.whole_life.then_some(kept.as_slice()),
        records: &records,
        windows: &journal.windows(),
        calms: &read.calms,
        crowds: &backends.crowds(),
        applications: &fleet.applications,
    };
    Ok(Audit::of(&evidence))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_phase_says_how_it_ended() {
        let mut passed = Passed {
            rows: 120,
            running: Some(Duration::from_millis(2_140)),
            recovery: Some(Duration::from_secs(5)),
            committed: 3_000,
            took: Duration::from_secs(60),
        };
        let whole = "120 rows at its end, all ran after 2.1 s and recovered in 5.0 s, 50 committed per second";
        assert_eq!(passed.to_string(), whole);
        passed.recovery = None;
        let stuck = "120 rows at its end, all ran after 2.1 s and are stuck, 50 committed per second";
        assert_eq!(passed.to_string(), stuck);
        passed.running = None;
        assert_eq!(passed.to_string(), "120 rows at its end, not all run, 50 committed per second");
    }
}
