//! The one place where access is checked.

use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::http::request::Parts;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use tokio::time::timeout;

use crate::access::{Right, origin};
use crate::failure::Failure;
use crate::limits::TURN_TIMEOUT;
use crate::pages::layout;
use crate::state::Shared;
use crate::visit::Visit;

/// A route, and what its visitor needs.
pub(crate) struct Guarded {
    /// Below the prefix. A page is a GET and changes nothing; an act is a POST.
    pub(crate) path: &'static str,
    /// The rights that its visitor must have: all of them.
    pub(crate) needs: &'static [Right],
    pub(crate) uses_database: bool,
}

/// What it takes to check the requests of a route.
#[derive(Clone)]
pub(crate) struct Guard {
    pub(crate) shared: Shared,
    pub(crate) route: &'static Guarded,
}

/// Lets a request through if its visitor has every right that the route needs, and if no other site sent it.
pub(crate) async fn guard(State(guard): State<Guard>, request: Request, next: Next) -> Response {
    let (mut parts, body) = request.into_parts();
    let visit = match guard.admit(&parts) {
        Ok(visit) => visit,
        Err(failure) => return failure.into_response(),
    };
    // Held until the page is made.
    let turn = match guard.route.uses_database {
        true => match timeout(TURN_TIMEOUT, guard.shared.turns.acquire()).await {
            Ok(turn) => turn.ok(),
            Err(_) => return layout::failure(&visit, Failure::busy()),
        },
        false => None,
    };
    parts.extensions.insert(visit.clone());
    let mut response = next.run(Request::from_parts(parts, body)).await;
    drop(turn);
    match response.extensions_mut().remove::<Failure>() {
        Some(failure) => layout::failure(&visit, failure),
        // Of a request that no handler has seen.
        None if response.status().is_client_error() => {
            let text =
                "The form or the address lacks something, or has something that cannot be read. Nothing was changed.";
            layout::failure(&visit, Failure::new(response.status(), "Not understood", text))
        }
        None => response,
    }
}

impl Guard {
    fn admit(&self, parts: &Parts) -> Result<Visit, Failure> {
        let forbidden = |text: String| Failure::new(StatusCode::FORBIDDEN, "Not allowed", text);
        let Some(access) = (self.shared.access)(parts) else {
            return Err(forbidden("You have no access to this dashboard.".to_owned()));
        };
        if let Some(right) = self.route.needs.iter().find(|right| !access.rights.has(**right)) {
            return Err(forbidden(format!("This needs the right \"{right}\", which {} does not have.", access.actor)));
        }
        origin::check(parts, &self.shared.origins)
            .map_err(|reason| forbidden(format!("The request was refused, and nothing was changed: {reason}.")))?;
        Ok(Visit::new(access, self.shared.prefix.clone(), parts, self.route.path))
    }
}
