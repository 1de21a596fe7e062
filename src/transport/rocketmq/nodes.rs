use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde::Deserialize;

use super::classify::CallError;
use super::config::PROBE_SUFFIX;
use super::connection::Connection;
use crate::transport::FailureClass;

const GET_BROKER_CLUSTER_INFO: i32 = 106;
const HEART_BEAT: i32 = 34;

/// A broker that messages can be sent to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Node {
    pub(super) name: Arc<str>,
    pub(super) cluster: String,
    pub(super) address: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Clusters {
    #[serde(default)]
    broker_addr_table: BTreeMap<String, Broker>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Broker {
    cluster: String,
    /// By number; the master's number is 0.
    broker_addrs: BTreeMap<String, String>,
}

/// The masters, from the first name server that knows any: one that has just started knows none yet. Returns none if
/// the servers that answer know none. It asks the server at `first` first. It then sets `first` to the server that knew
/// them, or to the one after the last that failed, also when the call is cancelled.
pub(super) async fn masters(
    connection: &dyn Connection,
    name_servers: &str,
    first: &AtomicUsize,
) -> Result<Vec<Node>, CallError> {
    let (mut answered, mut failed) = (false, None);
    let servers: Vec<&str> = name_servers.split(';').collect();
    let begin = first.load(Ordering::Relaxed);
    for at in (begin..begin + servers.len()).map(|at| at % servers.len()) {
        first.store(at + 1, Ordering::Relaxed);
        let response = connection.request(servers[at], GET_BROKER_CLUSTER_INFO, &[], Vec::new()).await;
        match response.and_then(|body| parse(&String::from_utf8_lossy(&body.unwrap_or_default()))) {
            Ok(none) if none.is_empty() => answered = true,
            Ok(nodes) => {
                first.store(at, Ordering::Relaxed);
                return Ok(nodes);
            }
            Err(call_error) => failed = Some(call_error),
        }
    }
    match failed.filter(|_| !answered) {
        Some(call_error) => Err(call_error.into_outage()),
        None => Ok(Vec::new()),
    }
}

/// Sends a heartbeat to a broker in its own group: the request that needs no right but access.
pub(super) async fn greet(connection: &dyn Connection, node: &Node, group: &str) -> Result<(), CallError> {
    let body = serde_json::json!({
        "clientID": format!("{group}{PROBE_SUFFIX}"),
        "producerDataSet": [{ "groupName": format!("{group}{PROBE_SUFFIX}") }],
        "consumerDataSet": [],
    });
    connection.request(&node.address, HEART_BEAT, &[], body.to_string().into_bytes()).await.map(drop)
}

pub(super) fn none_known() -> CallError {
    CallError::new(FailureClass::Connection, "the name servers know no broker")
}

fn parse(text: &str) -> Result<Vec<Node>, CallError> {
    let unread = |_| CallError::new(FailureClass::Temporary, "the name server's list of brokers cannot be read");
    let clusters: Clusters = serde_json::from_str(&with_quoted_names(text)).map_err(unread)?;
    let node = |(name, broker): (String, Broker)| {
        let address = broker.broker_addrs.get("0")?.clone();
        Some(Node { name: name.into(), cluster: broker.cluster, address })
    };
    Ok(clusters.broker_addr_table.into_iter().filter_map(node).collect())
}

/// Name servers write the numbers of brokers as keys without quotes, which is not valid JSON.
fn with_quoted_names(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 16);
    let (mut in_text, mut rest) = (false, text);
    while let Some(c) = rest.chars().next() {
        let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        let begins_name = !in_text && quoted.ends_with(['{', ',']) && digits > 0 && rest[digits..].starts_with(':');
        let length = if begins_name { digits } else { c.len_utf8() };
        in_text ^= c == '"';
        let quote = if begins_name { "\"" } else { "" };
        quoted.extend([quote, &rest[..length], quote]);
        rest = &rest[length..];
    }
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_brokers_is_read_as_name_servers_write_it() {
        let text = r#"{"brokerAddrTable":{"a,1:":{"brokerAddrs":{0:"127.0.0.1:10911",1:"127.0.0.2:10911"},"brokerName":"a,1:",
            "cluster":"one","enableActingMaster":false},"replica":{"brokerAddrs":{1:"h:1"},"cluster":"one"}},"clusterAddrTable":{}}"#;
        let node = Node { name: "a,1:".into(), cluster: "one".to_owned(), address: "127.0.0.1:10911".to_owned() };
        assert_eq!(parse(text).expect("nodes"), [node]);
        assert_eq!(parse("{}").expect("none"), []);
        assert!(parse("<html>").is_err());
    }
}
