//! The sweep: rows that are due and that nobody holds are found, claimed and sent.

pub(super) mod claim_run;
pub(super) mod full_scan;
pub(super) mod orphaned_rows;
pub(super) mod poller;
pub(super) mod sweeper;
