//! What all requests share.

use std::sync::Arc;

use diesel_outbox::Outbox;
use diesel_outbox::admin::Admin;
use diesel_outbox::relay::{RelayHandle, RelayStatus};
use tokio::sync::Semaphore;

use crate::access::Decide;
use crate::jobs::Jobs;
use crate::limits::{DATABASE_REQUESTS_MAX, STREAMS_MAX};
use crate::samples::Samples;
use crate::verify::VerifyReports;
use crate::visit::Visit;

pub(crate) type Shared = Arc<State>;

pub(crate) struct State {
    pub(crate) outbox: Outbox,
    /// Refuses changes that the audit cannot record.
    admin: Admin,
    pub(crate) access: Box<Decide>,
    pub(crate) origins: Vec<String>,
    /// The path under which browsers see the dashboard, if it is not the one at which the router is nested.
    pub(crate) prefix: Option<Arc<str>>,
    pub(crate) relays: Vec<RelayHandle>,
    pub(crate) reports: VerifyReports,
    pub(crate) jobs: Jobs,
    pub(crate) samples: Samples,
    /// Bounds the requests that use the database, and so the connections.
    pub(crate) turns: Semaphore,
    /// Bounds the open event streams.
    pub(crate) streams: Arc<Semaphore>,
}

impl State {
    pub(crate) fn new(
        outbox: Outbox,
        admin: Admin,
        access: Box<Decide>,
        origins: Vec<String>,
        prefix: Option<Arc<str>>,
        relays: Vec<RelayHandle>,
        reports: VerifyReports,
    ) -> Self {
        Self {
            outbox,
            admin,
            access,
            origins,
            prefix,
            relays,
            reports,
            jobs: Jobs::default(),
            samples: Samples::default(),
            turns: Semaphore::new(DATABASE_REQUESTS_MAX),
            streams: Arc::new(Semaphore::new(STREAMS_MAX)),
        }
    }

    /// For what changes nothing.
    pub(crate) fn reader(&self) -> &Admin {
        &self.admin
    }

    /// For a change by a visitor, with their reason.
    pub(crate) fn writer(&self, visit: &Visit, reason: &str) -> Admin {
        self.admin.acting_as(&visit.access.actor).because(reason)
    }

    pub(crate) fn statuses(&self) -> Vec<RelayStatus> {
        self.relays.iter().map(RelayHandle::status).collect()
    }
}
