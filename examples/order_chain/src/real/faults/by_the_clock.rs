//! Faults at their times, whether or not the ones before have settled: several parts and servers are away at once. A victim that has not come
//! back is hit when it has.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tokio::sync::Mutex;
use tokio::time::sleep;

use super::plan::Planned;
use super::{Faults, Open, Target, Victim, cause, newest_change};
use crate::Failure;

/// Between two looks.
const POLL: Duration = Duration::from_secs(1);
/// A look reads every order. With many of them looks become rarer, so that they take a quarter of a processor at most.
const REST: u32 = 3;

/// There is no limit for a single fault: the next one may keep it from settling. What is open in the end must become quiet.
pub(super) async fn run(target: &Target<'_>, plan: &[Planned], until: Instant) -> Result<Faults, Failure> {
    let (began, faults) = (Instant::now(), RefCell::new(Faults::default()));
    let gates: BTreeMap<Victim, Mutex<()>> = plan.iter().map(|planned| (planned.fault.0, Mutex::default())).collect();
    let all = async {
        let one = |planned: &Planned| cause_at(target, *planned, &gates[&planned.fault.0], (began, until), &faults);
        let mut causing: FuturesUnordered<_> = plan.iter().map(one).collect();
        while let Some(caused) = causing.next().await {
            caused?;
        }
        sleep(until.saturating_duration_since(Instant::now())).await;
        Ok::<_, Failure>(())
    };
    tokio::select! {
        caused = all => caused?,
        () = watch(target, &faults) => {}
    }
    Ok(faults.into_inner())
}

async fn cause_at(
    target: &Target<'_>,
    planned: Planned,
    gate: &Mutex<()>,
    (began, until): (Instant, Instant),
    faults: &RefCell<Faults>,
) -> Result<(), Failure> {
    sleep((began + planned.at).saturating_duration_since(Instant::now())).await;
    let _one_at_a_time = gate.lock().await;
    if Instant::now() < until {
        cause(target, planned.fault, planned.pause).await?;
        let open = Open { fault: planned.fault, ended: Instant::now(), newest: None };
        faults.borrow_mut().open.push(open);
    }
    Ok(())
}

/// Looks again and again which faults have settled, until it is dropped.
async fn watch(target: &Target<'_>, faults: &RefCell<Faults>) {
    let mut took = Duration::ZERO;
    loop {
        sleep(POLL.max(REST * took)).await;
        let began = Instant::now();
        look(target, faults).await;
        took = began.elapsed();
    }
}

async fn look(target: &Target<'_>, faults: &RefCell<Faults>) {
    // Only what was over before is told its newest change; others may be added meanwhile, behind it.
    let count = faults.borrow().open.len();
    if faults.borrow().open.iter().any(|open| open.newest.is_none()) {
        let newest = newest_change(target.orders).await;
        for open in faults.borrow_mut().open.iter_mut().take(count).filter(|open| open.newest.is_none()) {
            open.newest = newest;
        }
    }
    if count == 0 {
        return;
    }
    let Ok(findings) = target.reconciler.check().await else { return };
    let mut faults = faults.borrow_mut();
    let has_settled = |open: &Open| open.newest.is_some_and(|newest| findings.has_settled(newest));
    let (settled, open): (Vec<_>, Vec<_>) = std::mem::take(&mut faults.open).into_iter().partition(has_settled);
    faults.open = open;
    for Open { fault, ended, .. } in settled {
        faults.settle(fault, ended.elapsed());
    }
}
