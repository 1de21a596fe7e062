//! The page in Chromium: it draws what happens, without a reload.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::http::StatusCode;
use fantoccini::wd::WebDriverCompatibleCommand;
use fantoccini::{Client, ClientBuilder, Locator};
use order_chain::embedded::world::{Stock, World};
use order_chain::load::client::{Ask, Client as _, InProcess};
use order_chain::load::told::Told;
use order_chain::page::{self, Board};
use order_chain::shop::web;
use order_chain::steps::Steps;
use serde_json::{Value, json};
use xtask::servers::ServerKind;
use xtask::test_servers::shared_or_skip;

/// How long a change may take. The machine may be busy with other tests.
const DEADLINE: Duration = Duration::from_secs(60);

#[tokio::test(flavor = "multi_thread")]
async fn the_page_draws_what_happens() {
    let Some(driver) = shared_or_skip(ServerKind::Chromium) else { return };
    let stock = Stock {
        units: vec![10, 20, 40],
        coupons: 10,
        payment_term: Duration::from_secs(3_600),
        sweep_after: Duration::from_secs(5),
    };
    let mut world = World::new(&stock, Steps::default()).await.expect("a world");
    world.start().await.expect("it starts");
    let board = Board::default();
    let (address, _page) = page::serve(&board).await.expect("a port");
    let told = Arc::new(Told::default());
    tokio::spawn(board.clone().run(Arc::clone(&world.orders), world.reconciler.clone(), told));

    let browser = open(&driver, &address).await;
    wait_for(&browser, "#state", "live").await;
    let shop = InProcess(web::router(world.shop.clone()));
    for (key, product_id, quantity) in [("a", 1, 4), ("b", 2, 7), ("c", 3, 11)] {
        let body = json!({ "customer_id": 1, "product_id": product_id, "quantity": quantity });
        let answer = shop.send(&Ask::place(key, body)).await.expect("an answer");
        assert_eq!(answer.status, StatusCode::CREATED);
    }
    wait_for(&browser, "#created", "3").await;
    let paid = order_chain::domain::Order::id_of("b");
    shop.send(&Ask::pay(&paid)).await.expect("an answer");
    wait_for(&browser, "#paid", "1").await;
    wait_for_bar(&browser, "13 available, 0 reserved, 0 locked, 7 sold of 20").await;
    wait_for_bar(&browser, "6 available, 0 reserved, 4 locked, 0 sold of 10").await;
    board.fault("<b>the cache</b> was flushed".to_owned());
    wait_for(&browser, "#faults li", ": <b>the cache</b> was flushed").await;
    wait_for(&browser, "#wrong-count", "0").await;
    assert_clean(&browser).await;
    browser.close().await.expect("closed");
    world.end().await.expect("it ends in order");
}

async fn open(driver: &str, address: &str) -> Client {
    let capabilities = json!({
        "goog:loggingPrefs": { "browser": "ALL" },
        "goog:chromeOptions": {
            "args": ["--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu", "--hide-scrollbars"],
        },
    });
    let browser = ClientBuilder::new(hyper_util::client::legacy::connect::HttpConnector::new())
        .capabilities(capabilities.as_object().cloned().unwrap_or_default())
        .connect(driver)
        .await
        .expect("a browser");
    browser.set_window_size(1_200, 800).await.expect("a size");
    browser.goto(address).await.expect("the page");
    browser
}

/// Waits until an element has this text, or ends with it.
async fn wait_for(browser: &Client, css: &str, text: &str) {
    let end = Instant::now() + DEADLINE;
    loop {
        // The page may change while it is read.
        let shown = match browser.find(Locator::Css(css)).await {
            Ok(element) => element.text().await.unwrap_or_default(),
            Err(_) => String::new(),
        };
        if shown == text || (text.starts_with(':') && shown.ends_with(text)) {
            return;
        }
        assert!(Instant::now() < end, "not within a minute: {css} is {text:?}, it is {shown:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

async fn wait_for_bar(browser: &Client, title: &str) {
    let bar = format!(".bar[title=\"{title}\"]");
    let found = browser.wait().at_most(DEADLINE).for_element(Locator::Css(&bar)).await;
    found.unwrap_or_else(|error| panic!("{title}: {error}"));
}

/// The browser had nothing to complain about.
async fn assert_clean(browser: &Client) {
    let log = browser.issue_cmd(BrowserLog).await.expect("the browser's log");
    let bad: Vec<&Value> = log
        .as_array()
        .into_iter()
        .flatten()
        .filter(|entry| !entry["message"].as_str().unwrap_or_default().contains("favicon.ico"))
        .collect();
    assert!(bad.is_empty(), "{bad:#?}");
}

/// Chromedriver's own command.
#[derive(Debug)]
struct BrowserLog;

impl WebDriverCompatibleCommand for BrowserLog {
    fn endpoint(&self, base_url: &url::Url, session_id: Option<&str>) -> Result<url::Url, url::ParseError> {
        base_url.join(&format!("session/{}/se/log", session_id.unwrap_or_default()))
    }

    fn method_and_body(&self, _: &url::Url) -> (http::Method, Option<String>) {
        (http::Method::POST, Some(r#"{"type":"browser"}"#.to_owned()))
    }
}
