use super::*;
use crate::limits::{KEEP_DAYS_MAX, PROCESSED_WITHIN_MIN};
use crate::outbox::{BuildProblem, Outbox};

fn ordered() -> Topic {
    Topic::new("orders").ordered_by_key()
}

#[test]
fn values_at_the_limit_are_accepted_and_above_it_refused() {
    let (topic, least) = (|| Topic::new("orders"), Duration::from_nanos(1));
    let named = |chars: usize| Topic::new("t".repeat(chars));
    let confirmed = |window| topic().keep_sent_days(1).processed_within(window);
    for (what, at, beyond) in [
        ("staleness", topic().staleness(STALENESS_MIN), topic().staleness(STALENESS_MIN - least)),
        ("a name", named(TOPIC_CHARS_MAX), named(TOPIC_CHARS_MAX + 1)),
        ("lanes", ordered().lanes(LANES_MAX), ordered().lanes(LANES_MAX + 1)),
        ("days of history", topic().keep_sent_days(KEEP_DAYS_MAX), topic().keep_sent_days(KEEP_DAYS_MAX + 1)),
        ("days of letters", topic().keep_dead_days(KEEP_DAYS_MAX), topic().keep_dead_days(KEEP_DAYS_MAX + 1)),
        ("a window", confirmed(PROCESSED_WITHIN_MIN), confirmed(PROCESSED_WITHIN_MIN - least)),
    ] {
        assert_eq!(at.check(), Ok(()), "{what}");
        assert!(beyond.check().is_err(), "{what}");
    }
}

#[test]
fn a_topic_has_the_documented_defaults() {
    let topic = ordered();
    assert_eq!((topic.staleness, topic.attempts_max, topic.lane_count()), (STALENESS, ATTEMPTS_MAX, Some(LANES)));
    assert_eq!(topic.message_bytes_limit(), MESSAGE_BYTES_MAX);
    assert_eq!(topic.check(), Ok(()));
}

/// Each by itself: where more is wrong with a topic, one of it is named.
#[test]
fn an_outbox_whose_topic_could_send_nothing_is_not_built() {
    let topic = || Topic::new("orders");
    for (wrong, remedy) in [
        (topic().attempts_max(0), "attempts_max is 0, so no message would ever be sent; use at least 1"),
        (topic().message_bytes_max(0), "message_bytes_max is 0; set it to the broker's limit"),
        (Topic::new(""), "a name has 1 to"),
        (Topic::new("."), "neither \".\" nor \"..\""),
        (Topic::new(".."), "neither \".\" nor \"..\""),
    ] {
        let named = format!("topic {:?}: ", wrong.name());
        let error = Outbox::builder().topic(wrong).build().unwrap_err();
        assert!(matches!(error.problems(), [BuildProblem::Topic { .. }]), "{error}");
        let text = error.to_string();
        assert!(text.contains(&named) && text.contains(remedy), "{text}");
    }
}
