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
use super::{Faults, Open, Target, Victim, cause};
use crate::Failure;
use crate::real::servers::Server;

/// Between two looks.
const POLL: Duration = Duration::from_secs(1);
/// A look reads every order. With many of them looks become rarer, so that they take a quarter of a processor at most.
const REST: u32 = 3;

/// Whoever hits a victim holds its gate.
type Gates = BTreeMap<Victim, Mutex<()>>;

/// Returns when each fault was caused and the time is over; a server that takes long to come back makes it later. There is no limit for a
/// single fault to settle: the next one may keep it from that. What is open in the end must become quiet.
pub(super) async fn run(target: &Target<'_>, plan: &[Planned], until: Instant) -> Result<Faults, Failure> {
    let (began, faults) = (Instant::now(), RefCell::new(Faults::default()));
    let gates: Gates = plan.iter().map(|planned| (gate(planned.fault.0), Mutex::default())).collect();
    let all = async {
        let one = |planned: &Planned| cause_at(target, *planned, &gates, began, &faults);
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

/// Victims of one gate are hit one after the other. RocketMQ's broker starts only where its name server answers.
fn gate(victim: Victim) -> Victim {
    match victim {
        Victim::Server(Server::NameServer) => Victim::Server(Server::RocketMq),
        other => other,
    }
}

async fn cause_at(
    target: &Target<'_>,
    planned: Planned,
    gates: &Gates,
    began: Instant,
    faults: &RefCell<Faults>,
) -> Result<(), Failure> {
    sleep((began + planned.at).saturating_duration_since(Instant::now())).await;
    let _one_at_a_time = gates[&gate(planned.fault.0)].lock().await;
    let took_effect = cause(target, planned.fault, planned.pause).await?;
    if took_effect {
        faults.borrow_mut().open.push(Open::new(planned.fault));
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
    // Only what was over before is dated; others may be added meanwhile, behind it.
    let count = faults.borrow().open.len();
    if count == 0 {
        return;
    }
    if faults.borrow().are_undated() {
        let Ok(now_ms) = target.orders.now_ms().await else { return };
        faults.borrow_mut().date(count, now_ms);
    }
    let Ok(findings) = target.reconciler.check().await else { return };
    faults.borrow_mut().note(&findings, Instant::now());
}
