//! The page of log events, which is written from the table in the code.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;

use diesel_outbox::internals::events::ALL;

use super::{read, root};

const PAGE: &str = "docs/events.md";
/// What a test run rewrites files with.
const BLESS: &str = "OUTBOX_TEST_BLESS";

fn page() -> String {
    let mut page = "# Log events

Logs go through `tracing`. Each event at INFO and above has its id in the field `event`: search and alert by it, not by the text.

ERROR: somebody must act. WARN: mostly recovers by itself; the last column says what to do if it does not. Until a person acts, these stay:
`audit_missing`, `database_setting`, `full_scan_timed_out`, `hook_replaced`, `no_relay`, `pool_shared`, `topic_paused`. A WARN that repeats is
logged once a minute, and in between as DEBUG.

| `event` | level | fields | text | do |
|---|---|---|---|---|
"
    .to_owned();
    let mut events = ALL.to_vec();
    events.sort_by_key(|event| event.id);
    for event in events {
        let fields: Vec<_> = event.fields.iter().map(|field| format!("`{field}`")).collect();
        writeln!(
            page,
            "| `{}` | {} | {} | {} | {} |",
            event.id,
            event.level,
            fields.join(", "),
            event.text,
            event.action
        )
        .expect("a String grows");
    }
    page
}

#[test]
fn the_page_of_events_is_as_the_code_says() {
    let expected = page();
    if std::env::var_os(BLESS).is_some() {
        fs::write(root().join(PAGE), &expected).expect("write the page");
    }
    assert_eq!(read(PAGE), expected, "{BLESS}=1 writes {PAGE} anew");
}

#[test]
fn events_have_ids_of_their_own_and_all_parts() {
    let ids: BTreeSet<_> = ALL.iter().map(|event| event.id).collect();
    assert_eq!(ids.len(), ALL.len(), "two events have one id");
    for event in ALL {
        assert!(event.id.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_'), "{}", event.id);
        assert!(!event.text.is_empty() && event.action.ends_with('.'), "{}", event.id);
        assert!(!event.fields.contains(&"event"), "{}: the id has this field", event.id);
    }
}
