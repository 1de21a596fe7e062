//! One run: applications under load, the phases of a schedule, a calm after each, and the audit.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use tokio::task::spawn_blocking;
use tokio::time::{Instant, sleep};

use crate::audit::{Audit, Evidence, Finding};
use crate::consumer;
use crate::faults::Faults;
use crate::fleet::Fleet;
use crate::journal::{Journal, Window};
use crate::plans::Plan;
use crate::schedule::APPLICATIONS;
use crate::truth;
use crate::wire::{Command, Config, Topics};
use crate::world::World;
use xtask::stop::Stop;

/// The longest that a healed world may take until what waited is sent. A full sweep comes once a minute: what is found only by
/// that is stuck.
const RECOVERY_MAX: Duration = Duration::from_secs(45);
/// How long nothing happens between two phases.
const CALM: Duration = Duration::from_secs(3);
const LOOK: Duration = Duration::from_millis(100);
/// Rows of the history that fall during the first phase were kept until then; each later phase has the next year.
const YEAR: usize = 1900;

/// What a run came to.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) audit: Audit,
    pub(crate) windows: Vec<Window>,
    pub(crate) transactions: std::collections::BTreeMap<String, u64>,
    pub(crate) recoveries: Vec<Duration>,
    pub(crate) took: Duration,
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
    let mut fleet = Fleet::new(configs, journal.clone(), &log)?;
    (0..APPLICATIONS).try_for_each(|application| fleet.start(application))?;
    wait(CALM, &mut fleet, stop).await?;
    let mut recoveries = Vec::new();
    let mut stuck = None;
    for (number, phase) in plan.phases.iter().enumerate() {
        if plan.load.whole_life {
            truth::grow_old(&mut world.connect(name).await?, YEAR + number).await?;
        }
        let mut faults = Faults::new(world, name, &journal, plan.times);
        faults.go_through(phase, &mut fleet, stop).await?;
        match recovered(world, name, &mut fleet, stop).await? {
            Ok(took) => recoveries.push(took),
            Err(what) => {
                stuck = Some(what);
                break;
            }
        }
        wait(CALM, &mut fleet, stop).await?;
    }
    for application in 0..APPLICATIONS {
        fleet.tell(application, Command::Rest).await?;
    }
    // The longest transaction ends, and with it the last row is there.
    wait(CALM, &mut fleet, stop).await?;
    if stuck.is_none() {
        stuck = cured(world, name, &mut fleet, stop).await?.err();
    }
    for application in 0..APPLICATIONS {
        fleet.end(application).await?;
    }
    let mut audit = audited(world, plan, name, &topics, &journal, &fleet).await?;
    if let Some(what) = stuck {
        audit.find(Finding::Stuck, || what);
    }
    let (windows, transactions) = (journal.windows(), fleet.transactions());
    Ok(Outcome { audit, windows, transactions, recoveries, took: started.elapsed() })
}

/// Waits, and looks meanwhile whether everything still runs.
async fn wait(how_long: Duration, fleet: &mut Fleet, stop: &Stop) -> Result<()> {
    let end = Instant::now() + how_long;
    while Instant::now() < end {
        ensure!(!stop.requested(), "stopped by a signal");
        fleet.check()?;
        sleep(LOOK).await;
    }
    Ok(())
}

/// Waits until everything that is there now is settled or dead, and what is kept no longer is gone from the history; how long it
/// took, or what is left.
async fn recovered(
    world: &World,
    database: &str,
    fleet: &mut Fleet,
    stop: &Stop,
) -> Result<std::result::Result<Duration, String>> {
    let begin = Instant::now();
    let mut connection = world.connect(database).await?;
    let newest = truth::newest(&mut connection).await?;
    loop {
        let (live, fallen) = (truth::live(&mut connection, newest).await?, truth::fallen(&mut connection).await?);
        if (live, fallen) == (0, 0) {
            return Ok(Ok(begin.elapsed()));
        }
        if begin.elapsed() > RECOVERY_MAX {
            let left = format!("{live} rows are left, and {fallen} of the history that are kept no longer,");
            return Ok(Err(format!("{left} {RECOVERY_MAX:?} after everything healed")));
        }
        wait(LOOK, fleet, stop).await?;
    }
}

/// Has redriven what the broker takes by now, and waits until all of it is settled; what is left otherwise.
async fn cured(
    world: &World,
    database: &str,
    fleet: &mut Fleet,
    stop: &Stop,
) -> Result<std::result::Result<(), String>> {
    // Whatever was committed is old enough then for the broker to take it.
    wait(CALM, fleet, stop).await?;
    let begin = Instant::now();
    let mut connection = world.connect(database).await?;
    loop {
        if let Err(what) = recovered(world, database, fleet, stop).await? {
            return Ok(Err(what));
        }
        let dead = truth::curable(&mut connection).await?;
        if dead == 0 {
            // Once more: the last of them may have been redriven between the two looks.
            return Ok(recovered(world, database, fleet, stop).await?.map(drop));
        }
        if begin.elapsed() > RECOVERY_MAX {
            return Ok(Err(format!("{dead} letters are dead {RECOVERY_MAX:?} after the broker took them again")));
        }
        fleet.tell(0, Command::Redrive).await?;
        wait(CALM, fleet, stop).await?;
    }
}

async fn audited(
    world: &World,
    plan: &Plan,
    database: &str,
    topics: &Topics,
    journal: &Journal,
    fleet: &Fleet,
) -> Result<Audit> {
    let (bootstrap, topics) = (world.bootstrap(), topics.clone());
    let records = spawn_blocking(move || consumer::read(&bootstrap, &topics)).await?.context("read the topics")?;
    let mut connection = world.connect(database).await?;
    let committed = truth::committed(&mut connection).await?;
    let dead = truth::dead(&mut connection).await?;
    let kept = truth::kept(&mut connection).await?;
    if committed.is_empty() {
        bail!("nothing was committed");
    }
    let evidence = Evidence {
        committed: &committed,
        dead: &dead,
        kept: plan.load.whole_life.then_some(kept.as_slice()),
        records: &records,
        windows: &journal.windows(),
        applications: &fleet.applications,
    };
    Ok(Audit::of(&evidence))
}
