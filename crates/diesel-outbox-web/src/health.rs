use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::get;
use axum::{Json, Router};
use diesel_outbox::relay::RelayHandle;
use serde::Serialize;

/// Routes for an orchestrator's probes: `/livez` and `/readyz`. They ask no database and no broker, and need no [`Access`](crate::Access).
///
/// Each answers 200 or 503, with a JSON body: `live`, `ready`, `degraded`, and `problems` as texts. Texts name hosts and errors, so keep the
/// routes on a port that is not public.
///
/// ```
/// use axum::Router;
/// use diesel_outbox_web::HealthRoutes;
/// # use diesel_outbox::{Outbox, Topic, store::MemoryStore, transport::MemoryTransport};
///
/// # #[tokio::main]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let outbox = Outbox::builder().topic(Topic::new("orders")).build()?;
/// let relay = outbox.relay().store(MemoryStore::new()).transport(MemoryTransport::new()).start().await?;
/// let app: Router = Router::new().merge(HealthRoutes::new(relay.handle()).router());
/// # relay.shutdown(std::time::Duration::ZERO).await;
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
#[must_use = "it does nothing until its router is merged into an application"]
pub struct HealthRoutes {
    relays: Vec<RelayHandle>,
    is_strict: bool,
}

impl HealthRoutes {
    /// The health of a relay.
    pub fn new(relay: RelayHandle) -> Self {
        Self { relays: vec![relay], is_strict: false }
    }

    /// Adds another relay of this process: one that is not live or not ready is enough for a 503.
    pub fn relay(mut self, relay: RelayHandle) -> Self {
        self.relays.push(relay);
        self
    }

    /// `/readyz` answers 503 also while a database or broker is down. For a deployment that should not go on with a wrong address or
    /// password: a load balancer that asks it takes every process out of service at once.
    pub fn strict(mut self) -> Self {
        self.is_strict = true;
        self
    }

    /// The routes, to be merged into an application or nested at any path.
    pub fn router(self) -> Router {
        let routes = Router::new().route("/livez", get(livez)).route("/readyz", get(readyz));
        routes.with_state(Arc::new(self))
    }

    fn health(&self) -> Health {
        let mut all = Health { live: true, ready: true, degraded: false, problems: Vec::new() };
        for relay in &self.relays {
            let health = relay.health();
            all.live &= health.live;
            all.ready &= health.ready;
            all.degraded |= health.degraded;
            all.problems.extend(health.problems);
        }
        all
    }
}

/// Of all relays together.
#[derive(Debug, Serialize)]
struct Health {
    live: bool,
    ready: bool,
    degraded: bool,
    problems: Vec<String>,
}

async fn livez(State(routes): State<Arc<HealthRoutes>>) -> (StatusCode, Json<Health>) {
    let health = routes.health();
    answer(health.live, health)
}

async fn readyz(State(routes): State<Arc<HealthRoutes>>) -> (StatusCode, Json<Health>) {
    let health = routes.health();
    answer(health.ready && !(routes.is_strict && health.degraded), health)
}

fn answer(is_well: bool, health: Health) -> (StatusCode, Json<Health>) {
    (if is_well { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE }, Json(health))
}
