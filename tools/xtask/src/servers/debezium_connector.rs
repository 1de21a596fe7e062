//! The one connector of a Debezium worker: created, stopped and resumed by requests.

use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use serde_json::{Map, Value};

use super::http_request::request;
use super::process::{DEADLINE, until};

const NAME: &str = "outbox";

/// A connector from an outbox table to the topics that its rows name.
#[derive(Debug)]
pub struct Connector {
    address: String,
}

impl Connector {
    /// Creates the connector of the worker at `address`; returns when it runs. `properties` has its settings but for the login:
    /// `url` is `postgres://user:password@host:port/database`, and the user may read the log.
    ///
    /// # Errors
    ///
    /// The worker refuses the connector, or it fails.
    pub fn create(address: &str, url: &str, properties: &str) -> Result<Self> {
        let login = login(url).context("the URL names a login, a server and a database")?;
        let login = login.into_iter().map(|(name, value)| (name.to_owned(), value));
        let config: Map<String, Value> =
            settings(properties).chain(login).map(|(name, value)| (name, Value::String(value))).collect();
        let body = serde_json::json!({ "name": NAME, "config": config }).to_string();
        request(address, "POST", "/connectors", &body)?;
        let this = Self { address: address.to_owned() };
        this.wait_until(Status::is_running)?;
        Ok(this)
    }

    /// Ends its task, which records how far it has read, and keeps the slot; returns when that is done.
    ///
    /// # Errors
    ///
    /// The worker refuses, or the connector failed.
    pub fn stop(&self) -> Result<()> {
        request(&self.address, "PUT", &format!("/connectors/{NAME}/stop"), "")?;
        self.wait_until(Status::is_stopped)
    }

    /// Continues reading from where it stopped; returns at once. Does nothing if it runs.
    ///
    /// # Errors
    ///
    /// The worker refuses.
    pub fn resume(&self) -> Result<()> {
        request(&self.address, "PUT", &format!("/connectors/{NAME}/resume"), "").map(drop)
    }

    /// Checks that it has not failed.
    ///
    /// # Errors
    ///
    /// It has failed; the message says why.
    pub fn check(&self) -> Result<()> {
        self.status().map(drop)
    }

    fn wait_until(&self, wanted: fn(&Status) -> bool) -> Result<()> {
        until(DEADLINE, || Ok(self.status()?.is_some_and(|status| wanted(&status)))).context("wait for the connector")
    }

    /// `None` if the worker does not know the connector yet: it accepts one before it has it.
    fn status(&self) -> Result<Option<Status>> {
        let Ok(answer) = request(&self.address, "GET", &format!("/connectors/{NAME}/status"), "") else {
            return Ok(None);
        };
        let status: Status = serde_json::from_str(&answer).with_context(|| format!("read the status {answer}"))?;
        ensure!(status.all().all(|of| of.state != "FAILED"), "the connector failed: {answer}");
        Ok(Some(status))
    }
}

/// What the worker reports about the connector and its tasks.
#[derive(Debug, Deserialize)]
struct Status {
    connector: State,
    tasks: Vec<State>,
}

#[derive(Debug, Deserialize)]
struct State {
    state: String,
}

impl Status {
    fn all(&self) -> impl Iterator<Item = &State> {
        std::iter::once(&self.connector).chain(&self.tasks)
    }

    fn is_running(&self) -> bool {
        !self.tasks.is_empty() && self.all().all(|of| of.state == "RUNNING")
    }

    fn is_stopped(&self) -> bool {
        self.tasks.is_empty() && self.connector.state == "STOPPED"
    }
}

/// The parts of a URL, under the connector's names.
fn login(url: &str) -> Option<[(&'static str, String); 5]> {
    let (login, place) = url.strip_prefix("postgres://")?.rsplit_once('@')?;
    let (user, password) = login.split_once(':')?;
    let (server, database) = place.split_once('/')?;
    let (host, port) = server.rsplit_once(':')?;
    Some([
        ("database.user", user.to_owned()),
        ("database.password", password.to_owned()),
        ("database.hostname", host.to_owned()),
        ("database.port", port.to_owned()),
        ("database.dbname", database.to_owned()),
    ])
}

/// Names and values of a properties file without continued lines.
fn settings(text: &str) -> impl Iterator<Item = (String, String)> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines.filter_map(|line| line.split_once('=')).map(|(name, value)| (name.to_owned(), value.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_are_no_settings() {
        let found: Vec<_> = settings("# a=b\n\na=b=c\nd=\n").collect();
        assert_eq!(found, [("a".to_owned(), "b=c".to_owned()), ("d".to_owned(), String::new())]);
    }

    #[test]
    fn a_url_has_five_parts() {
        let values = login("postgres://me:secret@127.0.0.1:5432/shop").expect("a URL").map(|(_, value)| value);
        assert_eq!(values, ["me", "secret", "127.0.0.1", "5432", "shop"]);
        assert_eq!(login("postgres://127.0.0.1:5432/shop"), None);
    }

    #[test]
    fn a_connector_runs_when_its_tasks_do() {
        let status = |text: &str| serde_json::from_str::<Status>(text).expect("a status");
        let running = status(r#"{"name":"a","connector":{"state":"RUNNING"},"tasks":[{"id":0,"state":"RUNNING"}]}"#);
        assert!(running.is_running() && !running.is_stopped());
        let starting = status(r#"{"connector":{"state":"RUNNING"},"tasks":[]}"#);
        assert!(!starting.is_running() && !starting.is_stopped());
        let stopped = status(r#"{"connector":{"state":"STOPPED"},"tasks":[]}"#);
        assert!(!stopped.is_running() && stopped.is_stopped());
    }
}
