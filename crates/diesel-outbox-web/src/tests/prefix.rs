//! Under any path, behind any proxy.

use axum::Router;
use diesel_outbox::store::MemoryStore;
use diesel_outbox::{Outbox, Topic};

use super::client::{self, Response};
use super::site::listen;
use crate::{Access, Dashboard, Rights};

fn dashboard() -> Dashboard {
    let outbox = Outbox::builder().topic(Topic::new("orders")).build().expect("an outbox");
    Dashboard::new(&outbox, MemoryStore::new(), |_| Some(Access::new("alice", Rights::all())))
}

async fn get(app: Router, path: &str) -> Response {
    let (address, server) = listen(app).await;
    let response = client::send(address, "GET", path, &[("host", "localhost")], "").await;
    server.abort();
    response
}

#[tokio::test]
async fn links_begin_with_the_path_at_which_the_router_is_nested() {
    for (at, asked) in [("/outbox", "/outbox/topics"), ("/a/b", "/a/b/topics")] {
        let page = get(Router::new().nest(at, dashboard().router()), asked).await;
        assert!(page.body.contains(&format!("href=\"{at}/overview\"")), "{}", page.body);
        assert!(page.body.contains(&format!("action=\"{at}/topics/pause\"")), "{}", page.body);
        assert!(page.body.contains(&format!("data-events=\"{at}/events\"")), "{}", page.body);
        let redirect = get(Router::new().nest(at, dashboard().router()), at).await;
        assert_eq!(redirect.header("location"), Some(&*format!("{at}/overview")));
    }
    let twice = Router::new().nest("/a", Router::new().nest("/b", dashboard().router()));
    assert!(get(twice, "/a/b/topics").await.body.contains("href=\"/a/b/overview\""));
    assert!(get(dashboard().router(), "/topics").await.body.contains("href=\"/overview\""), "not nested at all");
}

#[tokio::test]
async fn a_proxy_may_show_it_under_another_path() {
    let app = Router::new().nest("/outbox", dashboard().prefix("/ops/mail/").router());
    let page = get(app, "/outbox/topics").await.body;
    assert!(page.contains("href=\"/ops/mail/overview\"") && !page.contains("href=\"/outbox"), "{page}");
}

#[tokio::test]
async fn assets_are_kept_under_an_address_that_changes_with_them() {
    let page = get(dashboard().router(), "/topics").await.body;
    let style =
        page.split("rel=\"stylesheet\" href=\"").nth(1).and_then(|rest| rest.split('"').next()).expect("a style sheet");
    assert!(style.contains("?v="), "{style}");
    let asset = get(dashboard().router(), style).await;
    assert_eq!((asset.status, asset.header("content-type")), (200, Some("text/css; charset=utf-8")));
    assert!(!asset.body.is_empty() && !asset.body.contains("http"), "nothing from elsewhere");
    for inline in ["<style", " style=", "<script>", "onclick", "javascript:", "http://", "https://"] {
        assert!(!page.contains(inline), "{inline}: {page}");
    }
}
