use std::time::Duration;

use uuid::Uuid;

use super::*;

fn live_message() -> LiveMessage {
    let at = SystemTime::UNIX_EPOCH + Duration::from_millis(1_709_251_199_250);
    LiveMessage {
        id: 7,
        message_id: Uuid::nil().into(),
        topic: "orders".into(),
        state: LiveState::Leased,
        lane: None,
        key: Some("42".to_owned()),
        kind: "order.placed".to_owned(),
        headers_json: r#"[["token","swordfish"]]"#.to_owned(),
        payload: Some(b"swordfish".to_vec()),
        created_at: at,
        due_at: Some(at),
        deliver_at: None,
        attempts: 1,
        failures: 2,
        errors: vec![FailedAttempt { at: None, class: "temporary".to_owned(), error: "no leader".to_owned() }],
        owner: None,
        leased_until: Some(at),
        position: LivePosition { lane: -1, due_at: 0, id: 7 },
    }
}

#[test]
fn payload_and_values_of_headers_are_in_no_debug() {
    let shown = format!("{:?}", live_message());
    assert!(shown.contains("no leader") && !shown.contains("swordfish"), "{shown}");
}

#[test]
fn a_live_message_is_json() {
    let time = "2024-02-29T23:59:59.250000Z";
    let expected = serde_json::json!({
        "id": 7, "message_id": Uuid::nil(), "topic": "orders", "state": "leased", "lane": null, "key": "42",
        "kind": "order.placed", "headers": [["token", "swordfish"]], "payload": "swordfish", "created_at": time,
        "due_at": time, "deliver_at": null, "attempts": 1, "failures": 2,
        "errors": [{"at": null, "class": "temporary", "error": "no leader"}], "owner": null, "leased_until": time,
    });
    assert_eq!(serde_json::to_value(live_message()).unwrap(), expected);
}

#[test]
fn a_bounded_count_says_what_it_knows() {
    assert_eq!(BoundedCount { count: 12, more: false }.to_string(), "12");
    assert_eq!(BoundedCount { count: 12, more: true }.to_string(), "at least 12");
}
