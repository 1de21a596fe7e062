//! Every route under every right.

use super::client;
use super::site::{AT, EVERYTHING, SECRET, Site};
use crate::access::Right;
use crate::routes::{ROUTES, Route};

fn is_act(route: &Route) -> bool {
    route.guarded.needs.len() > 1 && !["/audit", "/message/edit"].contains(&route.guarded.path)
}

/// Below the prefix. The route `/` is the prefix itself: axum nests it without a slash.
fn path(route: &Route) -> &'static str {
    if route.guarded.path == "/" { "" } else { route.guarded.path }
}

async fn request(site: &Site, route: &Route, rights: &str) -> u16 {
    match is_act(route) {
        true => site.post_as(rights, path(route), &[]).await.status,
        false => site.get_as(rights, path(route)).await.status,
    }
}

/// Without one of its rights a route is refused; with just these it is not. A form without fields is no act, but it is let through.
#[tokio::test]
async fn each_route_needs_each_of_its_rights() {
    let site = Site::in_memory().await;
    site.dead("orders", "1", "refused: no").await;
    let before = site.snapshot().await;
    for route in ROUTES {
        let named = |rights: &[Right]| rights.iter().map(|right| right.name()).collect::<Vec<_>>().join(",");
        let status = request(&site, route, &named(route.guarded.needs)).await;
        assert!(
            ![401, 403, 404, 405].contains(&status) || route.guarded.path == "/job",
            "{}: {status} with its rights",
            route.guarded.path
        );
        for right in Right::ALL {
            let alone = request(&site, route, right.name()).await;
            let others: Vec<Right> = Right::ALL.into_iter().filter(|other| *other != right).collect();
            let without = request(&site, route, &named(&others)).await;
            let is_needed = route.guarded.needs.contains(&right);
            assert_eq!(without == 403, is_needed, "{}: {without} without {right}", route.guarded.path);
            assert_eq!(
                alone == 403,
                route.guarded.needs != [right],
                "{}: {alone} with {right} alone",
                route.guarded.path
            );
        }
    }
    assert_eq!(site.snapshot().await, before, "nothing was changed");
}

/// Whoever the application does not know gets no page, no act, no style sheet and no event.
#[tokio::test]
async fn without_access_there_is_nothing() {
    let site = Site::in_memory().await;
    let host = site.address.to_string();
    for route in ROUTES {
        let (method, path) = (if is_act(route) { "POST" } else { "GET" }, format!("{AT}{}", path(route)));
        let headers = [("host", host.as_str()), ("sec-fetch-site", "same-origin")];
        let response = client::send(site.address, method, &path, &headers, "").await;
        assert_eq!(response.status, 403, "{}", route.guarded.path);
        assert!(!response.body.contains("orders"), "{}", response.body);
    }
}

#[tokio::test]
async fn another_sites_page_cannot_act() {
    let site = Site::in_memory().await;
    let id = site.dead("orders", "1", "refused: no").await.to_string();
    let before = site.snapshot().await;
    let form = ("content-type", "application/x-www-form-urlencoded");
    let (host, body) = (site.address.to_string(), format!("id={id}&reason=x&topic=orders&confirm=yes"));
    let ours = format!("http://{host}");
    for route in ROUTES.iter().filter(|route| is_act(route)) {
        for headers in [
            vec![form],
            vec![form, ("sec-fetch-site", "cross-site")],
            vec![form, ("sec-fetch-site", "same-site"), ("origin", &ours)],
            vec![form, ("origin", "https://evil.example.com")],
            vec![form, ("origin", "null")],
        ] {
            let response = site.send(EVERYTHING, "POST", route.guarded.path, &headers, &body).await;
            assert_eq!(response.status, 403, "{} {headers:?}", route.guarded.path);
        }
        let response = site.send(EVERYTHING, "GET", &format!("{}?{body}", route.guarded.path), &[], "").await;
        assert_eq!(response.status, 405, "{} is no page", route.guarded.path);
    }
    assert_eq!(site.snapshot().await, before);
    let response = site.send(EVERYTHING, "POST", "/message/redrive", &[form, ("origin", &ours)], &body).await;
    assert_eq!(response.status, 303, "the dashboard's own page can: {}", response.body);
}

/// Pages with and without content, for whoever has every other right.
#[tokio::test]
async fn payloads_are_for_those_who_may_see_them() {
    let site = Site::in_memory().await;
    let live = site.live("orders", "1").await;
    let dead = site.dead("orders", "2", "refused: no").await;
    let sent = site.sent("3").await;
    let blind = EVERYTHING.replace("payloads,", "");
    let pages = [live, dead, sent].map(|id| format!("/message?id={id}"));
    let others = ROUTES
        .iter()
        .filter(|route| !is_act(route) && route.guarded.path != "/message")
        .map(|route| path(route).to_owned());
    for path in pages.iter().cloned().chain(others) {
        let response = site.get_as(&blind, &path).await;
        assert!(!response.body.contains(SECRET), "{path}: {}", response.body);
    }
    for path in &pages {
        assert!(site.get_as(&blind, path).await.body.contains("bytes"), "{path} says how many there are");
        assert!(site.get(path).await.body.contains(SECRET), "{path} shows them to others");
    }
    let edit = format!("/message/edit?id={dead}");
    assert_eq!(site.get_as(&blind, &edit).await.status, 403);
    let search = site.get_as(&blind, &format!("/messages?topic=orders&header=token&value={SECRET}")).await;
    assert_eq!(search.status, 400, "a search would tell the value");
}

#[tokio::test]
async fn every_response_has_its_headers() {
    let site = Site::in_memory().await;
    let paths = ROUTES.iter().filter(|route| !is_act(route)).map(path).chain(["/nowhere", "/message?id=x"]);
    for path in paths {
        for rights in [EVERYTHING, ""] {
            let response = site.get_as(rights, path).await;
            let policy = response.header("content-security-policy").expect("a policy");
            assert!(policy.starts_with("default-src 'none'") && !policy.contains("unsafe"), "{path}: {policy}");
            assert!(
                policy.contains("frame-ancestors 'none'") && policy.contains("form-action 'self'"),
                "{path}: {policy}"
            );
            assert_eq!(response.header("x-frame-options"), Some("DENY"), "{path}");
            assert_eq!(response.header("x-content-type-options"), Some("nosniff"), "{path}");
            assert_eq!(response.header("referrer-policy"), Some("same-origin"), "{path}");
            let cache = response.header("cache-control").expect("a rule for caches");
            let is_asset = path.starts_with("/assets/") && response.status == 200;
            assert_eq!(cache.contains("immutable"), is_asset, "{path}: {cache}");
            assert!(is_asset || cache == "no-store" || path == "/events", "{path}: {cache}");
        }
    }
}
