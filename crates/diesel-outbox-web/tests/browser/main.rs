//! The dashboard in Chromium, on each database: every act is clicked, and its result is looked up in the database.

mod flow;
mod page;
mod proxy;
mod shop;

use xtask::servers::ServerKind;
use xtask::test_servers::shared_or_skip;

use self::page::{Page, Scripts};
use self::shop::Shop;

/// The pages that the documentation shows.
const PICTURES: [&str; 1] = ["/dead-letters"];

async fn every_act(shop: Shop, scripts: Scripts) {
    let Some(driver) = shared_or_skip(ServerKind::Chromium) else { return };
    let page = Page::open(&driver, &shop.url, scripts).await;
    flow::every_act(&shop, &page).await;
    page.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_act_on_postgres() {
    let Some(shop) = Shop::on_postgres().await else { return };
    every_act(shop, Scripts::On).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_act_on_mariadb() {
    let Some(shop) = Shop::on_mariadb().await else { return };
    every_act(shop, Scripts::On).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_act_on_sqlite() {
    every_act(Shop::on_sqlite().await, Scripts::On).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_act_without_javascript() {
    every_act(Shop::on_sqlite().await, Scripts::Off).await;
}

/// Browsers see another host than the application does.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_act_behind_a_proxy_that_rewrites_host() {
    let mut shop = Shop::on_sqlite().await;
    shop.url = proxy::start(&shop.url).await;
    every_act(shop, Scripts::On).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_page_of_another_site_cannot_act() {
    let Some(driver) = shared_or_skip(ServerKind::Chromium) else { return };
    let shop = Shop::on_sqlite().await;
    let id = shop.dead("1", "refused: amount is negative").await;
    let form = format!(
        "<form method=post action={}/message/purge><input name=id value={id}><input name=reason value=x><button>Win</button></form>",
        shop.url
    );
    let other =
        shop::serve(axum::Router::new().route("/", axum::routing::get(async || axum::response::Html(form)))).await;
    // Another name of the same machine is another site.
    let page = Page::open(&driver, &other.replace("127.0.0.1", "localhost"), Scripts::On).await;
    page.click("//button").await;
    page.wait_for_text("The request was refused, and nothing was changed").await;
    assert!(shop.admin.dead_letter(id).await.is_ok());
    page.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_open_page_refreshes_itself() {
    let Some(driver) = shared_or_skip(ServerKind::Chromium) else { return };
    let shop = Shop::on_sqlite().await;
    let page = Page::open(&driver, &shop.url, Scripts::On).await;
    page.go("/dead-letters").await;
    page.wait_for_text("Nothing matches").await;
    shop.dead("1", "refused: amount is negative").await;
    page.wait_for_text("1 by topic, reason and class").await;
    page.assert_clean().await;
    page.close().await;
}

/// With `OUTBOX_PICTURES` set to a folder, from the root of the repository, the pages are saved there for the documentation.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pages_look_as_the_documentation_shows_them() {
    let Some(driver) = shared_or_skip(ServerKind::Chromium) else { return };
    let shop = Shop::on_sqlite().await;
    for number in 0..40 {
        shop.live(&format!("order-{number}")).await;
        if number % 3 == 0 {
            shop.dead(&format!("order-{number}"), "refused: amount is negative").await;
        }
        if number % 5 == 0 {
            shop.dead(&format!("order-{number}"), "attempts: the receiver did not answer").await;
        }
    }
    let page = Page::open(&driver, &shop.url, Scripts::On).await;
    for path in PICTURES {
        page.go(path).await;
        let picture = page.picture().await;
        assert!(picture.starts_with(b"\x89PNG"));
        if let Some(folder) = std::env::var_os("OUTBOX_PICTURES") {
            let name = format!("dashboard-{}.png", path.trim_start_matches('/'));
            let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
            std::fs::write(root.join(folder).join(name), picture).expect("save the picture");
        }
    }
    page.assert_clean().await;
    page.close().await;
}
