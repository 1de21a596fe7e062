use std::time::Duration;

use diesel_outbox::{BuildProblem, CodecError, Outbox, OutboxMessage, Topic};

struct Shipped;

impl OutboxMessage for Shipped {
    const TOPIC: Option<&'static str> = Some("shipping");
    const KIND: &'static str = "shipped";

    fn payload(&self) -> Result<Option<Vec<u8>>, CodecError> {
        Ok(None)
    }
}

#[test]
fn reports_every_problem_at_once_with_field_and_remedy() {
    let error = Outbox::builder()
        .topic(Topic::new("orders"))
        .topic(Topic::new("orders"))
        .topic(Topic::new("orders"))
        .topic(Topic::new("with spaces"))
        .topic(Topic::new("hasty").staleness(Duration::from_millis(10)))
        .message::<Shipped>()
        .build()
        .expect_err("all of it is wrong");
    let problems = error.problems();
    assert!(matches!(&problems[0], BuildProblem::TopicTwice { topic } if topic == "orders"), "once, not twice");
    assert!(matches!(problems[1], BuildProblem::Topic { .. }) && matches!(problems[2], BuildProblem::Topic { .. }));
    assert!(matches!(problems[3], BuildProblem::TopicMissing { topic: "shipping", .. }));
    assert_eq!(problems.len(), 4);
    let text = error.to_string();
    for part in [
        "\"orders\" is configured more than once",
        "\"with spaces\"",
        "staleness",
        "Shipped",
        ".topic(Topic::new(\"shipping\"))",
    ] {
        assert!(text.contains(part), "{part} is not in {text}");
    }
}

#[test]
fn an_outbox_without_topics_is_an_error() {
    let error = Outbox::builder().build().expect_err("nothing could be enqueued");
    assert!(matches!(error.problems(), [BuildProblem::NoTopic]));
    let tool = Outbox::builder().allow_no_topics().build().expect("a tool need not know them");
    assert_eq!(tool.topics().len(), 0);
}

#[test]
fn a_registered_type_with_its_topic_builds() {
    let outbox = Outbox::builder().topic(Topic::new("shipping")).message::<Shipped>().build().expect("build");
    assert_eq!(outbox.topics()[0].name(), "shipping");
}
