use crate::names::{KIND_CHARS_MAX, TOPIC_CHARS_MAX, header_problem, kind_problem, nearest, snake_case, topic_problem};

#[test]
fn limits_are_those_of_the_library() {
    let limits = include_str!("../../../src/limits/messages.rs");
    for limit in
        [format!("TOPIC_CHARS_MAX: usize = {TOPIC_CHARS_MAX};"), format!("KIND_CHARS_MAX: usize = {KIND_CHARS_MAX};")]
    {
        assert!(limits.contains(&limit), "{limit}");
    }
}

#[test]
fn topics_follow_kafkas_rules() {
    let longest = "t".repeat(TOPIC_CHARS_MAX);
    for legal in ["orders", "Orders_2.dead-letters", "...", &longest] {
        assert_eq!(topic_problem(legal), None, "{legal}");
    }
    for illegal in ["", ".", "..", "two words", "größe", "a/b", &format!("{longest}t")] {
        assert!(topic_problem(illegal).is_some(), "{illegal}");
    }
}

#[test]
fn kinds_fit_their_column() {
    assert_eq!(kind_problem(&"ü".repeat(KIND_CHARS_MAX)), None);
    assert!(kind_problem(&"k".repeat(KIND_CHARS_MAX + 1)).is_some());
    assert!(kind_problem("").is_some());
}

#[test]
fn headers_of_the_library_are_reserved_in_any_case() {
    for legal in ["tenant", "outbox", "my-outbox-id", "größe"] {
        assert_eq!(header_problem(legal), None, "{legal}");
    }
    for illegal in ["", "outbox-", "outbox-id", "Outbox-Id"] {
        assert!(header_problem(illegal).is_some(), "{illegal}");
    }
}

#[test]
fn names_become_snake_case() {
    let cases = [
        ("OrderPlaced", "order_placed"),
        ("HTTPRequestSent", "http_request_sent"),
        ("OrderV2Placed", "order_v2_placed"),
        ("Already_Split", "already_split"),
        ("SKU", "sku"),
        ("r#Type", "type"),
        ("ÄnderungErfasst", "änderung_erfasst"),
    ];
    for (name, kind) in cases {
        assert_eq!(snake_case(name), kind);
    }
}

#[test]
fn only_near_words_are_suggested() {
    let known = ["topic", "kind", "key", "tombstone"];
    assert_eq!(nearest("topik", &known), Some("topic"));
    assert_eq!(nearest("tombston", &known), Some("tombstone"));
    assert_eq!(nearest("partition", &known), None);
}
