//! Brokers that do not take offsets at a hand-over or a shutdown.

use std::sync::Mutex;

use tokio::runtime::Runtime;
use tokio::sync::Notify;

use super::*;
use crate::consumer::engine::Note;
use crate::consumer::record::PartitionId;

/// Longer than anything takes here.
const LONG: Duration = Duration::from_secs(60);

/// How a broker answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Broker {
    Takes,
    /// This many requests, then it takes them.
    Refuses(usize),
    /// It answers when it is released, with an error.
    Hangs,
}

/// Brokers, and the offsets that they took, in their order.
#[derive(Debug, Default)]
struct Brokers {
    down: Mutex<BTreeMap<Arc<str>, Broker>>,
    taken: Mutex<Vec<(String, i64)>>,
    released: Notify,
}

impl Brokers {
    fn set(&self, broker: &str, how: Broker) {
        self.down.lock().expect("no panic").insert(broker.into(), how);
    }

    fn taken(&self) -> Vec<(String, i64)> {
        self.taken.lock().expect("no panic").clone()
    }
}

impl GroupOffsets for Brokers {
    fn commit<'a>(&'a self, queue: &'a Queue, offset: i64) -> BoxFuture<'a, Result<(), String>> {
        let mut down = self.down.lock().expect("no panic");
        let how = down.entry(Arc::clone(&queue.broker)).or_insert(Broker::Takes);
        match how {
            Broker::Hangs => {
                return Box::pin(async {
                    self.released.notified().await;
                    Err("it was away".to_owned())
                });
            }
            Broker::Refuses(0) | Broker::Takes => {}
            Broker::Refuses(left) => {
                *left -= 1;
                return Box::pin(std::future::ready(Err("it starts".to_owned())));
            }
        }
        self.taken.lock().expect("no panic").push((queue.id().name.to_string(), offset));
        Box::pin(std::future::ready(Ok(())))
    }
}

fn brokers() -> (Runtime, Arc<Brokers>, Commits) {
    let (runtime, brokers) = (Runtime::new().expect("a runtime"), Arc::new(Brokers::default()));
    let commits = Commits::of(runtime.handle().clone(), Arc::clone(&brokers) as Arc<dyn GroupOffsets>);
    (runtime, brokers, commits)
}

fn commit(name: &str, next: i64) -> Commit {
    let partition = PartitionId { topic: "orders".into(), name: name.into() };
    Commit { partition, next, note: Note::default() }
}

#[test]
fn a_broker_that_comes_back_within_the_time_takes_all() {
    let (_runtime, brokers, mut commits) = brokers();
    brokers.set("a", Broker::Refuses(3));
    commits.add(&[commit("a/0", 5), commit("a/1", 7), commit("b/0", 3)]);
    commits.finish(LONG).expect("both are there by then");
    // Each time, a is asked for its first queue alone: otherwise the third refusal would be that of its second.
    assert_eq!(brokers.taken(), [("b/0".to_owned(), 3), ("a/0".to_owned(), 5), ("a/1".to_owned(), 7)]);
}

#[test]
fn what_no_broker_took_in_time_does_not_go_later() {
    let (_runtime, brokers, mut commits) = brokers();
    brokers.set("a", Broker::Refuses(usize::MAX));
    commits.add(&[commit("a/0", 5)]);
    assert_eq!(commits.finish(Duration::from_secs(2)), Err("it starts".to_owned()));
    brokers.set("a", Broker::Takes);
    commits.finish(LONG).expect("nothing is left");
    assert_eq!(brokers.taken(), []);
}

#[test]
fn an_offset_that_waits_is_not_replaced_by_the_one_before() {
    let (_runtime, brokers, mut commits) = brokers();
    brokers.set("a", Broker::Refuses(1));
    commits.add(&[commit("a/0", 5)]);
    commits.go_on().expect("nothing was on its way");
    commits.add(&[commit("a/0", 9)]);
    commits.finish(LONG).expect("it is there by then");
    assert_eq!(brokers.taken(), [("a/0".to_owned(), 9)]);
}

/// What waits behind the request goes nowhere, and its late answer is no error of whoever comes next.
#[test]
fn a_request_without_an_answer_is_left_with_all_behind_it() {
    for next in [Commits::go_on, |commits: &mut Commits| commits.finish(LONG)] {
        let (_runtime, brokers, mut commits) = brokers();
        brokers.set("a", Broker::Hangs);
        commits.add(&[commit("a/0", 5)]);
        commits.go_on().expect("nothing was on its way");
        commits.add(&[commit("b/0", 3)]);
        let within = Duration::from_millis(100);
        assert_eq!(commits.finish(within), Err(format!("the broker did not take offsets within {within:?}")));
        brokers.released.notify_one();
        let end = Instant::now() + LONG;
        while commits.sending.is_some() {
            assert!(Instant::now() < end, "it was released");
            next(&mut commits).expect("nobody asks what becomes of it");
        }
        assert_eq!(brokers.taken(), []);
    }
}
