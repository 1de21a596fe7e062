use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::http::request::Parts;
use diesel_outbox::Outbox;
use diesel_outbox::admin::Admin;
use diesel_outbox::relay::RelayHandle;
use diesel_outbox::store::OutboxStore;

use crate::access::{Access, Decide};
use crate::state::State;
use crate::verify::VerifyReports;
use crate::{routes, stream};

/// Builds the dashboard's router.
///
/// ```
/// use axum::Router;
/// use diesel_outbox::store::MemoryStore;
/// use diesel_outbox::{Outbox, Topic};
/// use diesel_outbox_web::{Access, Dashboard, Rights};
///
/// #[derive(Clone)]
/// struct User { name: String, is_operator: bool } // what your login puts into a request
///
/// let outbox = Outbox::builder().topic(Topic::new("orders")).build()?;
/// let store = MemoryStore::new(); // PostgresStore::connect(url)? or another, for the dashboard alone
/// let dashboard = Dashboard::new(&outbox, store, |request| {
///     let user = request.extensions.get::<User>()?;
///     let rights = if user.is_operator { Rights::all() } else { Rights::read_only() };
///     Some(Access::new(user.name.as_str(), rights))
/// });
/// let app: Router = Router::new().nest("/outbox", dashboard.router());
/// # Ok::<_, diesel_outbox::BuildError>(())
/// ```
#[must_use = "it does nothing until its router is nested in an application"]
pub struct Dashboard {
    outbox: Outbox,
    admin: Admin,
    access: Box<Decide>,
    origins: Vec<String>,
    prefix: Option<Arc<str>>,
    relays: Vec<RelayHandle>,
    reports: VerifyReports,
}

impl Dashboard {
    /// A dashboard of an outbox.
    ///
    /// `store` is like that of a relay, but for the dashboard alone: it takes at most seven connections from it, and none of those
    /// that your business or the relay uses. `PostgresStore::connect(url)` and its like open them when they are needed.
    ///
    /// `access` says of each request who sent it and what they may do; `None` refuses it. It is called before anything else, and after
    /// the layers of your application, which may have left their user in the request's extensions. It may not block.
    pub fn new(
        outbox: &Outbox,
        store: impl OutboxStore,
        access: impl Fn(&Parts) -> Option<Access> + Send + Sync + 'static,
    ) -> Self {
        Self::with_admin(outbox, outbox.admin(store), access)
    }

    /// The same with a handle that is there already. It takes its connections from that handle's store.
    pub fn with_admin(
        outbox: &Outbox,
        admin: Admin,
        access: impl Fn(&Parts) -> Option<Access> + Send + Sync + 'static,
    ) -> Self {
        Self {
            outbox: outbox.clone(),
            admin: admin.require_audit(),
            access: Box::new(access),
            origins: Vec::new(),
            prefix: None,
            relays: Vec::new(),
            reports: VerifyReports::default(),
        }
    }

    /// Shows a relay of this process: its state, its transports, its rates. Call it once for each.
    pub fn relay(mut self, relay: RelayHandle) -> Self {
        self.relays.push(relay);
        self
    }

    /// Shows the reports of verifications that are pushed here.
    pub fn verify_reports(mut self, reports: &VerifyReports) -> Self {
        self.reports = reports.clone();
        self
    }

    /// The origin under which browsers see the dashboard, such as `https://ops.example.com`; call it again for another one. Changes
    /// from any other origin are refused.
    ///
    /// Needed behind a proxy that rewrites `Host`, unless browsers reach it by https: there they tell the origin themselves. Give it
    /// wherever access depends on the address alone, too, such as on localhost: another name may resolve to that address.
    pub fn origin(mut self, origin: impl Into<String>) -> Self {
        self.origins.push(origin.into().trim_end_matches('/').to_owned());
        self
    }

    /// The path under which browsers see the dashboard, such as `/ops/outbox`, if a proxy shows it under another path than that at
    /// which the router is nested.
    pub fn prefix(mut self, path: &str) -> Self {
        let path = path.trim_matches('/');
        self.prefix = Some(if path.is_empty() { "".into() } else { format!("/{path}").into() });
        self
    }

    /// The longest [`lease_duration`](diesel_outbox::Limits::lease_duration) of the relays, if it is not the default.
    pub fn lease_duration(mut self, lease: Duration) -> Self {
        self.admin = self.admin.lease_duration(lease);
        self
    }

    /// The router, to be nested at any path.
    ///
    /// On a tokio runtime it begins at once to sample the backlog for its plots, twice a minute; elsewhere with the first request.
    pub fn router(self) -> Router {
        let Self { outbox, admin, access, origins, prefix, relays, reports } = self;
        let shared = Arc::new(State::new(outbox, admin, access, origins, prefix, relays, reports));
        stream::sampler::start(&shared);
        routes::router(shared)
    }
}

impl fmt::Debug for Dashboard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Dashboard")
            .field("admin", &self.admin)
            .field("origins", &self.origins)
            .field("prefix", &self.prefix)
            .field("relays", &self.relays.len())
            .finish_non_exhaustive()
    }
}
