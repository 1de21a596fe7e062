//! Each fault waits for the one before to settle, so that each is seen alone.

use std::time::{Duration, Instant};

use fastrand::Rng;
use tokio::time::sleep;

use super::{Fault, Faults, Target, cause, pause};
use crate::Failure;
use crate::reconcile::Findings;

/// How long after a fault everything that happened before its end must have arrived.
const CONVERGE_MAX: Duration = Duration::from_secs(120);
/// Between two looks.
const POLL: Duration = Duration::from_millis(200);

pub(super) async fn run(
    faults: &mut Faults,
    target: &Target<'_>,
    mut deck: Vec<Fault>,
    rng: &mut Rng,
    until: Instant,
) -> Result<(), Failure> {
    while Instant::now() < until {
        rng.shuffle(&mut deck);
        for fault in &deck {
            if Instant::now() >= until {
                break;
            }
            match cause(target, *fault, pause(rng)).await? {
                true => faults.settle(*fault, converge(target).await?),
                // The part is being started again.
                false => sleep(POLL).await,
            }
        }
    }
    Ok(())
}

/// Waits until all is settled that had happened when this was called. A server may still be starting.
async fn converge(target: &Target<'_>) -> Result<Duration, Failure> {
    let began = Instant::now();
    let mut until_ms = None;
    let mut last = Findings::default();
    while began.elapsed() < CONVERGE_MAX {
        match until_ms {
            // The shop's database may be away.
            None => until_ms = target.orders.now_ms().await.ok(),
            Some(until_ms) => {
                if let Ok(findings) = target.reconciler.check().await {
                    if findings.has_settled(until_ms) {
                        return Ok(began.elapsed());
                    }
                    last = findings;
                }
            }
        }
        sleep(POLL).await;
    }
    Err(format!("what happened before a fault is not settled {CONVERGE_MAX:?} after it:\n{last}").into())
}
