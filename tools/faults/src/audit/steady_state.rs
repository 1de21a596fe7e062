//! What must hold without faults: times in a steady state, and the limits of a held snapshot and a locked table.

use std::collections::HashMap;

use diesel_outbox::internals::limits::FULL_SCAN_PAUSE_FACTOR;

use super::{Audit, Evidence, Finding};
use crate::consumer::Record;
use crate::schedule::APPLICATIONS;
use crate::truth::{Committed, MessageName};
use crate::wire::{AGED, RELAY_CONNECTIONS};

/// Scans of a relay beyond those that its waits allow: one that was due when the steady state began, one of a relay
/// that lost its position, and those of its lanes and claims.
const WALKS_MORE: u64 = 3;
/// Index entries in a steady state besides the deliberately dead ones: the load's own, which cannot be removed either.
const OWN_ROWS_MAX: u64 = 150_000;
/// How long a process may have more connections than its pool, in milliseconds: the server may notice an end a moment
/// later.
const OVERRUN_MAX_MS: u64 = 1_000;

impl Audit {
    /// Checks that messages in a steady state arrive as soon as ever, even while a snapshot is held.
    pub(super) fn check_late(&mut self, evidence: &Evidence<'_>, copies: &HashMap<MessageName, Vec<&Record>>) {
        let is_plain =
            |row: &&Committed| row.topic != AGED && row.not_before_ms().is_none() && !row.name().is_refused_at_first();
        for row in evidence.committed.iter().filter(is_plain) {
            let from_ms = row.noted_ms();
            let Some(record) = copies.get(&row.name()).and_then(|copies| copies.iter().min_by_key(|copy| copy.at_ms))
            else {
                continue;
            };
            let until_ms = record.at_ms.clamp(from_ms, from_ms + evidence.late_ms);
            let is_steady = evidence
                .steady_states
                .iter()
                .any(|steady_state| steady_state.from_ms <= from_ms && until_ms <= steady_state.until_ms);
            if !is_steady || evidence.windows.iter().any(|window| window.holds_up(from_ms, until_ms)) {
                continue;
            }
            let is_held = evidence.windows.iter().any(|window| window.holds_snapshot(from_ms, until_ms));
            let took_ms = record.at_ms.saturating_sub(from_ms);
            let (judged, longest_ms) = self.steady_state.entry(is_held).or_default();
            (*judged, *longest_ms) = (*judged + 1, took_ms.max(*longest_ms));
            if took_ms > evidence.late_ms {
                self.find(Finding::Late, || {
                    format!("after {took_ms} ms, snapshot held: {is_held}: {row:?}, {record:?}")
                });
            }
        }
    }

    /// Checks that dead rows are not scanned again and again while a snapshot keeps them. Without a snapshot, vacuum
    /// removes them, and the number of reads says nothing.
    pub(super) fn check_dead_row_reads(&mut self, evidence: &Evidence<'_>) {
        for steady_state in evidence.steady_states {
            let Some(dead) = steady_state.dead else { continue };
            let walk_us = u64::try_from(dead.walk.as_micros()).unwrap_or(u64::MAX).max(1);
            let walks = WALKS_MORE
                + (steady_state.until_ms - steady_state.from_ms) * 1_000
                    / walk_us.saturating_mul(u64::from(FULL_SCAN_PAUSE_FACTOR) + 1);
            let read_max = APPLICATIONS as u64 * walks * (dead.rows + OWN_ROWS_MAX);
            let read: u64 = steady_state.rows_read.values().sum();
            if read > read_max {
                self.find(Finding::DeadRowsRead, || {
                    format!("{read} index entries read, at most {read_max} may be: {steady_state:?}")
                });
            }
        }
    }

    /// Checks that no relay has more connections than its pool, whatever its statements wait for.
    pub(super) fn check_connections(&mut self, evidence: &Evidence<'_>) {
        for overrun in
            evidence.pool_overruns.iter().filter(|overrun| overrun.until_ms - overrun.from_ms >= OVERRUN_MAX_MS)
        {
            let application = evidence.applications.get(&overrun.process).copied();
            let is_cut = |window: &crate::fault_log::FaultWindow| {
                window.cuts_database(application, overrun.from_ms, overrun.until_ms)
            };
            if !evidence.windows.iter().any(is_cut) {
                self.find(Finding::TooManyConnections, || {
                    format!("limit {RELAY_CONNECTIONS}, application {application:?}: {overrun:?}")
                });
            }
        }
    }
}
