//! Every route with the rights that it needs. No request reaches a handler but through this table.

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::middleware::{from_fn, from_fn_with_state};
use axum::routing::{MethodRouter, get, post};

use crate::access::Right;
use crate::access::headers;
use crate::failure::Failure;
use crate::guard::{Guard, Guarded, guard};
use crate::limits::BODY_MAX;
use crate::state::Shared;
use crate::{acts, assets, pages, stream};

/// A page, or an act.
pub(crate) struct Route {
    pub(crate) guarded: Guarded,
    handler: fn() -> MethodRouter<Shared>,
}

const fn page(path: &'static str, needs: &'static [Right], handler: fn() -> MethodRouter<Shared>) -> Route {
    Route { guarded: Guarded { path, needs, uses_database: true }, handler }
}

/// A route that asks no database.
const fn light(path: &'static str, handler: fn() -> MethodRouter<Shared>) -> Route {
    Route { guarded: Guarded { path, needs: &[Right::View], uses_database: false }, handler }
}

use Right::{Audit, Cancel, Edit, Pause, Payloads, Purge, Redrive, Resend, SendNow, StopJobs, View};

pub(crate) const ROUTES: &[Route] = &[
    light("/", || get(pages::overview::redirect)),
    page("/overview", &[View], || get(pages::overview::show)),
    page("/topics", &[View], || get(pages::topics::show)),
    page("/lanes", &[View], || get(pages::lanes::show)),
    page("/messages", &[View], || get(pages::messages::show)),
    page("/calendar", &[View], || get(pages::calendar::show)),
    page("/message", &[View], || get(pages::message::show)),
    page("/dead-letters", &[View], || get(pages::dead_letters::show)),
    page("/dead-letters/preview", &[View], || get(pages::preview::show)),
    page("/history", &[View], || get(pages::history::show)),
    page("/parked", &[View], || get(pages::parked::list)),
    page("/parked/record", &[View], || get(pages::parked::show)),
    page("/audit", &[View, Audit], || get(pages::audit::show)),
    page("/message/edit", &[View, Payloads, Edit], || get(pages::edit::show)),
    light("/jobs", || get(pages::jobs::list)),
    light("/job", || get(pages::jobs::show)),
    page("/verify", &[View], || get(pages::verify::list)),
    page("/verify/report", &[View], || get(pages::verify::show)),
    light("/events", || get(stream::events)),
    light(assets::STYLE, || get(assets::style)),
    light(assets::SCRIPT, || get(assets::script)),
    light(assets::ICON, || get(assets::icon)),
    page("/topics/pause", &[View, Pause], || post(acts::topics::pause)),
    page("/topics/resume", &[View, Pause], || post(acts::topics::resume)),
    page("/message/send-now", &[View, SendNow], || post(acts::message::send_now)),
    page("/message/cancel", &[View, Cancel], || post(acts::message::cancel)),
    page("/message/redrive", &[View, Redrive], || post(acts::message::redrive)),
    page("/message/purge", &[View, Purge], || post(acts::message::purge)),
    page("/message/resend", &[View, Resend], || post(acts::message::resend)),
    page("/message/diff", &[View, Payloads, Edit], || post(acts::edit::diff)),
    page("/message/replace", &[View, Payloads, Edit], || post(acts::edit::replace)),
    page("/parked/release", &[View, Redrive], || post(acts::parked::release)),
    page("/parked/discard", &[View, Purge], || post(acts::parked::discard)),
    page("/dead-letters/redrive", &[View, Redrive], || post(acts::bulk::redrive)),
    page("/dead-letters/canary", &[View, Redrive], || post(acts::bulk::canary)),
    page("/dead-letters/purge", &[View, Purge], || post(acts::bulk::purge)),
    page("/job/stop", &[View, StopJobs], || post(acts::bulk::stop)),
];

pub(crate) fn router(shared: Shared) -> Router {
    let routes = ROUTES.iter().fold(Router::new(), |router, route| {
        let guarded = from_fn_with_state(Guard { shared: shared.clone(), route: &route.guarded }, guard);
        router.route(route.guarded.path, (route.handler)().layer(guarded))
    });
    routes
        .fallback(|| async { Failure::not_found("There is no such page.") })
        .layer(DefaultBodyLimit::max(BODY_MAX))
        .layer(from_fn(headers::add))
        .with_state(shared)
}
