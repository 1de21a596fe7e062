//! Checks I4, I7 and the time of delayed rows for each step, by comparing the rows before and after it, whatever the
//! step claims to do.

use super::actions::Action;
use super::message::{ATTEMPTS_MAX, Due, Live, Message, Row};
use super::relay_view::{Class, Progress};
use super::state::{Breach, State};

pub(super) fn audit(before: &State, after: &mut State, action: &Action) {
    let pairs = before.messages.iter().zip(&after.messages);
    let found = pairs.filter_map(|(before, after)| breach(before, after, action)).next();
    after.breach = after.breach.or(found);
}

fn breach(before: &Message, after: &Message, action: &Action) -> Option<Breach> {
    let was = before.live()?;
    if before.row == after.row {
        return None;
    }
    if was.due == Due::Delayed && !matches!(action, Action::LeaseEnds { .. }) {
        return Some(Breach::BeforeDue);
    }
    let writer = match *action {
        Action::RecordFailure { relay, .. } | Action::Extend { relay, .. } => Some(before.of(relay)),
        _ => None,
    };
    if writer.is_some_and(|writer| writer.lease().is_none_or(|lease| lease.epoch != was.epoch)) {
        return Some(Breach::ForeignEpoch);
    }
    let is_refused = writer.is_some_and(|writer| writer.progress() == Some(Progress::Failed(Class::Record)));
    match after.row {
        Row::Live(is) if is.epoch < was.epoch => Some(Breach::EpochFell),
        Row::Live(is) if is.epoch == was.epoch && wrote_due(was, &is, action) => Some(Breach::EpochKept),
        Row::Live(is) if is.attempts != was.attempts && !is_refused => Some(Breach::AttemptSpent),
        Row::DeadLetter if was.attempts + 1 < ATTEMPTS_MAX || !is_refused => Some(Breach::AttemptSpent),
        _ => None,
    }
}

/// Whether a write moved `due_at`, and not time or the death of the holder.
fn wrote_due(was: &Live, is: &Live, action: &Action) -> bool {
    let is_moved = was.due != is.due;
    match action {
        Action::Extend { .. } | Action::LeaseEnds { .. } | Action::Pause { .. } | Action::Crash { .. } => false,
        // Leased, but no process knows of it any more.
        Action::Close { .. } | Action::CloseFails { .. } => is_moved && is.due != Due::Later,
        _ => is_moved,
    }
}
