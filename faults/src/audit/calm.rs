//! What is to be as it is without any fault: times in a calm, and what a snapshot that is held and a table that is locked may cost.

use std::collections::HashMap;

use diesel_outbox::limits::LOOK_BACK_REST;

use super::{Audit, Evidence, Finding};
use crate::consumer::Record;
use crate::schedule::APPLICATIONS;
use crate::truth::{Committed, Name};
use crate::wire::{AGED, RELAY_CONNECTIONS};

/// How long a message may take in a calm from when it is written, in milliseconds: its transaction is open for up to 2.3 s, its delay up to
/// 3 s for one that could not be sent at once, and a sweep comes each second.
const LATE_MS: u64 = 5_000;
/// Walks of a relay beyond those that its rests allow: one that was due when the calm began, one of a relay that has lost its place, and what its lanes and
/// claims walk over.
const WALKS_MORE: u64 = 3;
/// Index entries of a calm beside those that are dead on purpose: the load's own, which nobody may remove either.
const OWN_ROWS_MAX: u64 = 150_000;
/// For how long a process may have more connections than its pool, in milliseconds: the server may notice an end a moment later.
const CROWDED_MAX_MS: u64 = 1_000;

impl Audit {
    /// Messages that are written in a calm come as soon as ever, also while a snapshot is held.
    pub(super) fn look_for_lateness(&mut self, evidence: &Evidence<'_>, copies: &HashMap<Name, Vec<&Record>>) {
        let is_plain =
            |row: &&Committed| row.topic != AGED && row.not_before_ms().is_none() && !row.name().is_curable();
        for row in evidence.committed.iter().filter(is_plain) {
            let from_ms = row.noted_ms();
            let Some(record) = copies.get(&row.name()).and_then(|copies| copies.iter().min_by_key(|copy| copy.at_ms))
            else {
                continue;
            };
            let until_ms = record.at_ms.clamp(from_ms, from_ms + LATE_MS);
            let is_calm = evidence.calms.iter().any(|calm| calm.from_ms <= from_ms && until_ms <= calm.until_ms);
            if !is_calm || evidence.windows.iter().any(|window| window.holds_up(from_ms, until_ms)) {
                continue;
            }
            let is_held = evidence.windows.iter().any(|window| window.holds_snapshot(from_ms, until_ms));
            let took_ms = record.at_ms.saturating_sub(from_ms);
            let (judged, longest_ms) = self.calm.entry(is_held).or_default();
            (*judged, *longest_ms) = (*judged + 1, took_ms.max(*longest_ms));
            if took_ms > LATE_MS {
                self.find(Finding::Late, || {
                    format!("after {took_ms} ms, snapshot held: {is_held}: {row:?}, {record:?}")
                });
            }
        }
    }

    /// What is dead is not walked through again and again while a snapshot keeps it there. Without one, vacuum removes it, and how much of
    /// it is read says nothing.
    pub(super) fn look_for_costs(&mut self, evidence: &Evidence<'_>) {
        for calm in evidence.calms {
            let Some(dead) = calm.dead else { continue };
            let walk_us = u64::try_from(dead.walk.as_micros()).unwrap_or(u64::MAX).max(1);
            let walks = WALKS_MORE
                + (calm.until_ms - calm.from_ms) * 1_000 / walk_us.saturating_mul(u64::from(LOOK_BACK_REST) + 1);
            let read_max = APPLICATIONS as u64 * walks * (dead.rows + OWN_ROWS_MAX);
            let read: u64 = calm.rows_read.values().sum();
            if read > read_max {
                self.find(Finding::Costly, || {
                    format!("{read} index entries read, at most {read_max} may be: {calm:?}")
                });
            }
        }
    }

    /// No relay has more connections than its pool, whatever its statements wait for.
    pub(super) fn look_for_crowds(&mut self, evidence: &Evidence<'_>) {
        for crowd in evidence.crowds.iter().filter(|crowd| crowd.until_ms - crowd.from_ms >= CROWDED_MAX_MS) {
            let application = evidence.applications.get(&crowd.process).copied();
            let is_cut =
                |window: &crate::journal::Window| window.cuts_database(application, crowd.from_ms, crowd.until_ms);
            if !evidence.windows.iter().any(is_cut) {
                self.find(Finding::Crowded, || {
                    format!("of {RELAY_CONNECTIONS}, application {application:?}: {crowd:?}")
                });
            }
        }
    }
}
