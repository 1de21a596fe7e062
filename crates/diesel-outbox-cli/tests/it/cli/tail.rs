//! Follows what happens, until it is stopped.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use serde_json::Value;

use super::program::program;
use super::shop::{Kind, Shop, order};

const DEADLINE: Duration = Duration::from_secs(60);

struct Tail {
    process: Child,
    events: Receiver<Value>,
}

impl Tail {
    fn of(shop: &Shop, args: &[&str]) -> Self {
        let args = [&["tail", "--interval", "20ms", "--output", "jsonl"], args].concat();
        let mut process = program(&shop.url, &args).stdout(Stdio::piped()).spawn().expect("run the program");
        let lines = BufReader::new(process.stdout.take().expect("its output")).lines();
        let (sender, events) = channel();
        thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                let event = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"));
                if sender.send(event).is_err() {
                    break;
                }
            }
        });
        Self { process, events }
    }

    /// Waits for an event that fits; others may come before it.
    fn wait(&self, what: &str, fits: impl Fn(&Value) -> bool) -> Value {
        loop {
            let event =
                self.events.recv_timeout(DEADLINE).unwrap_or_else(|_| panic!("not within {DEADLINE:?}: {what}"));
            if fits(&event) {
                return event;
            }
        }
    }
}

impl Drop for Tail {
    fn drop(&mut self) {
        // It runs until somebody stops it; an error means that it has ended.
        let _ = self.process.kill().and_then(|()| self.process.wait());
    }
}

async fn follows(kind: Kind) {
    let Some(shop) = Shop::fresh(kind).await else { return };
    shop.enqueue(&order("1")).await;
    let tail = Tail::of(&shop, &[]);
    let backlog =
        |live: u64| move |event: &Value| event["event"] == "backlog" && event["status"]["live"]["count"] == live;
    tail.wait("the backlog at first", backlog(1));
    shop.enqueue(&order("2")).await;
    tail.wait("another message", backlog(2));
    let letter = shop.dead_letter(&order("3"), "refused: no").await.to_string();
    let dead = tail.wait("the dead letter", |event| event["event"] == "dead_letter");
    assert_eq!(
        (&dead["letter"]["message_id"], &dead["letter"]["reason"]),
        (&letter.clone().into(), &"refused: no".into())
    );
    shop.run(&["dead", "redrive", &letter, "--actor", "alice"]).ok();
    let act = tail.wait("who did it", |event| event["event"] == "audit");
    assert_eq!((&act["entry"]["actor"], &act["entry"]["action"]), (&"alice".into(), &"redrive".into()));
    shop.run(&["pause", "orders"]).ok();
    tail.wait("the pause", |event| event["event"] == "backlog" && event["status"]["paused_since"].is_string());
    shop.run(&["resume", "orders"]).ok();
    shop.execute("DELETE FROM outbox_messages").await;
    let empty = tail.wait("the end of the backlog", |event| event["event"] == "empty");
    assert_eq!(empty["topic"], "orders");
}

#[tokio::test]
async fn tail_follows_what_happens_on_postgres() {
    follows(Kind::Postgres).await;
}

#[tokio::test]
async fn tail_follows_what_happens_on_mariadb() {
    follows(Kind::Mariadb).await;
}

#[tokio::test]
async fn tail_follows_what_happens_on_sqlite() {
    follows(Kind::Sqlite).await;
}
