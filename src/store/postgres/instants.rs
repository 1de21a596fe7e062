//! Instants, which PostgreSQL counts from the year 2000.

use std::time::{Duration, SystemTime};

use diesel::data_types::PgTimestamp;
use diesel::deserialize::Result;

use crate::store::sql::dialect::micros;

/// From 1970, the epoch of system clocks, to 2000, PostgreSQL's epoch.
const EPOCH_OFFSET: Duration = Duration::from_secs(946_684_800);

pub(crate) fn instant(at: PgTimestamp) -> Result<SystemTime> {
    let epoch = SystemTime::UNIX_EPOCH + EPOCH_OFFSET;
    let distance = Duration::from_micros(at.0.unsigned_abs());
    let instant = if at.0 < 0 { epoch.checked_sub(distance) } else { epoch.checked_add(distance) };
    instant.ok_or_else(|| OutOfRange { micros: at.0 }.into())
}

/// The reverse; an instant before 1970 becomes 1970.
pub(super) fn timestamp(at: SystemTime) -> PgTimestamp {
    let since_1970 = at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    PgTimestamp(micros(since_1970).saturating_sub(micros(EPOCH_OFFSET)))
}

#[derive(Debug, thiserror::Error)]
#[error("the instant {micros} µs from the year 2000 is out of range")]
struct OutOfRange {
    micros: i64,
}
