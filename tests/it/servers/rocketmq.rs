use xtask::servers::Rocketmq;
use xtask::servers::rocketmq::{Access, Options, request};
use xtask::test_servers;

use super::{is_gone, is_refused};

/// Whether the broker has the topic.
fn has(server: &Rocketmq, topic: &str) -> bool {
    const GET_TOPIC_CONFIG: u16 = 351;
    request(&server.broker(), GET_TOPIC_CONFIG, &[("topic", topic)]).expect("an answer").code == 0
}

fn port(address: &str) -> u16 {
    address.rsplit(':').next().and_then(|port| port.parse().ok()).expect("host:port")
}

#[test]
fn keeps_topics_through_kill_9_and_is_gone_after_drop() {
    let Some(mut server) = test_servers::own_or_skip(Rocketmq::start(&Options::default())) else { return };
    server.create_topic("kept").expect("a topic");
    assert!(has(&server, "kept") && !has(&server, "unknown"));
    let (address, first) = (server.broker(), server.pids());

    server.kill9().expect("kill -9");
    assert!(is_gone(first[0]) && is_refused(port(&address)), "a killed broker answers no more");
    server.start_again().expect("start again");
    assert!(server.broker() == address && has(&server, "kept"));

    server.stop().expect("stop");
    assert!(server.pids().is_empty() && is_refused(port(&address)) && is_refused(port(&server.name_server())));
    server.start_again().expect("start after a stop");
    assert!(has(&server, "kept"));
    let (name_server, last) = (server.name_server(), server.pids());
    drop(server);
    assert!(last.into_iter().all(is_gone) && is_refused(port(&name_server)), "nothing outlives its owner");
}

#[test]
fn a_broker_with_logins_refuses_unsigned_requests() {
    let options = Options { access: Access::Signed, ..Options::default() };
    let Some(server) = test_servers::own_or_skip(Rocketmq::start(&options)) else { return };
    assert!(server.credentials().is_some());
    assert!(server.create_topic("guarded").is_err(), "an unsigned request was let in");
}
