//! A browser window, and what a person does in it.

use std::time::{Duration, Instant};

use fantoccini::wd::WebDriverCompatibleCommand;
use fantoccini::{Client, ClientBuilder, Locator};
use serde_json::{Map, Value, json};

/// How long a page may take. The machine may be busy with other tests.
const DEADLINE: Duration = Duration::from_secs(60);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scripts {
    On,
    Off,
}

pub(crate) struct Page {
    client: Client,
    /// Where the dashboard is.
    url: String,
}

impl Page {
    pub(crate) async fn open(driver: &str, url: &str, scripts: Scripts) -> Self {
        let client = ClientBuilder::new(hyper_util::client::legacy::connect::HttpConnector::new())
            .capabilities(capabilities(scripts))
            .connect(driver)
            .await
            .expect("a browser");
        client.set_window_size(1_200, 800).await.expect("a size");
        let page = Self { client, url: url.to_owned() };
        page.go("").await;
        page
    }

    pub(crate) async fn close(self) {
        self.client.close().await.expect("close");
    }

    /// Opens a page of the dashboard.
    pub(crate) async fn go(&self, path: &str) {
        self.client.goto(&format!("{}{path}", self.url)).await.expect("a page");
    }

    pub(crate) async fn click(&self, xpath: &str) {
        let end = Instant::now() + DEADLINE;
        loop {
            let found = self.client.wait().at_most(DEADLINE).for_element(Locator::XPath(xpath)).await;
            let found = found.unwrap_or_else(|error| panic!("{xpath}: {error}"));
            // A page that refreshes itself may just have replaced it.
            match found.click().await {
                Ok(()) => return,
                Err(error) => assert!(Instant::now() < end, "{xpath}: {error}"),
            }
        }
    }

    pub(crate) async fn write(&self, xpath: &str, text: &str) {
        let found = self.client.find(Locator::XPath(xpath)).await.unwrap_or_else(|error| panic!("{xpath}: {error}"));
        found.clear().await.expect("empty it");
        found.send_keys(text).await.unwrap_or_else(|error| panic!("{xpath}: {error}"));
    }

    /// Opens an act's form, gives a reason, and sends it. `within` is the element that has the act, as an XPath.
    pub(crate) async fn act(&self, within: &str, name: &str) {
        let act = format!("{within}//details[summary[normalize-space()='{name}']]");
        self.click(&format!("{act}/summary")).await;
        self.write(&format!("{act}//input[@name='reason']"), "ticket 17").await;
        self.click(&format!("{act}//button")).await;
    }

    pub(crate) async fn text(&self) -> String {
        let body = self.client.find(Locator::Css("body")).await.expect("a body");
        body.text().await.unwrap_or_default()
    }

    pub(crate) async fn wait_for_text(&self, text: &str) {
        let end = Instant::now() + DEADLINE;
        loop {
            // The page may change while it is read.
            let shown = match self.client.find(Locator::Css("body")).await {
                Ok(body) => body.text().await.unwrap_or_default(),
                Err(_) => String::new(),
            };
            if shown.contains(text) {
                return;
            }
            assert!(Instant::now() < end, "not within a minute: {text:?} in {shown}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    pub(crate) async fn picture(&self) -> Vec<u8> {
        self.client.screenshot().await.expect("a picture")
    }

    /// Asserts that the browser had nothing to complain about: above all no violation of the content security policy.
    pub(crate) async fn assert_clean(&self) {
        let log = self.client.issue_cmd(BrowserLog).await.expect("the browser's log");
        let entries = log.as_array().cloned().unwrap_or_default();
        // A refused act is an answer with an error's status, which the browser notes.
        let bad: Vec<&Value> = entries
            .iter()
            .filter(|entry| {
                !entry["message"].as_str().unwrap_or_default().contains("the server responded with a status of")
            })
            .collect();
        assert!(bad.is_empty(), "{bad:#?}");
    }
}

fn capabilities(scripts: Scripts) -> Map<String, Value> {
    let javascript = if scripts == Scripts::On { 1 } else { 2 };
    let capabilities = json!({
        "goog:loggingPrefs": { "browser": "ALL" },
        "goog:chromeOptions": {
            "args": ["--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu", "--hide-scrollbars"],
            "prefs": { "profile.managed_default_content_settings.javascript": javascript },
        },
    });
    capabilities.as_object().cloned().unwrap_or_default()
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
