use crate::message::{Envelope, Headers, MessageId};
use crate::store::Loaded;
use crate::testing::store::StoreUnderTest;
use crate::testing::store::support::*;

/// Every part of a message comes back as written, by a claim and by a confirm, with the time it was written.
pub async fn message_comes_back_whole(under_test: &dyn StoreUnderTest) {
    let mut message = message(TOPIC);
    message.headers = [("trace", "a"), ("trace", "b"), ("empty", "")].into_iter().collect();
    message.headers.push("bytes", vec![0, 0xff, b'"', b'\\']);
    message.headers.push("text", "ünï \" \\ 错误 \u{1F4E6}");
    assert_comes_back(under_test, message).await;
}

/// A key may be any text.
pub async fn key_of_any_text_comes_back(under_test: &dyn StoreUnderTest) {
    for key in ["日本語-ключ-\u{1F511}", "a'b\"c\\d", " padded ", "", "null"] {
        let mut message = message(TOPIC);
        message.key = Some(key.to_owned());
        assert_comes_back(under_test, message).await;
    }
}

/// A message without key, kind, headers and payload is valid.
pub async fn bare_message_comes_back(under_test: &dyn StoreUnderTest) {
    let bare = Envelope::new(MessageId::new(), TOPIC.into(), std::time::SystemTime::UNIX_EPOCH);
    assert_comes_back(under_test, bare).await;
}

/// A tombstone has no payload, which differs from an empty one.
pub async fn tombstone_is_no_empty_payload(under_test: &dyn StoreUnderTest) {
    for payload in [None, Some(Vec::new())] {
        let mut message = message(TOPIC);
        message.payload = payload;
        assert_comes_back(under_test, message).await;
    }
}

/// A payload may hold any bytes, and as many as a broker accepts.
pub async fn payload_of_900_kb_comes_back(under_test: &dyn StoreUnderTest) {
    let mut message = message(TOPIC);
    message.payload = Some((0..900_000_u32).map(|position| (position % 251) as u8).collect());
    assert_comes_back(under_test, message).await;
}

/// A row that cannot be decoded is returned as poisoned, in its place, and stops no other.
pub async fn poisoned_row_stops_no_other(under_test: &dyn StoreUnderTest) {
    let inserted = insert_due(under_test, 3).await;
    let poisoned = inserted[1];
    under_test.poison(poisoned).await;

    let refs: Vec<_> = inserted.iter().copied().map(row_ref).collect();
    let confirmed = under_test.store().confirm(&refs).await.expect("confirm");
    assert_eq!(confirmed_keys(&confirmed), inserted);
    for confirmed in &confirmed {
        assert_poisoned(&confirmed.row, confirmed.row.key() == poisoned);
    }

    let claim = claim(under_test, &spec(TOPIC)).await;
    assert_eq!(sorted(keys(&claim.rows)), inserted);
    for row in &claim.rows {
        assert_poisoned(row, row.key() == poisoned);
    }
    let epoch = claim.rows.iter().find_map(|row| match row {
        Loaded::Poisoned(row) => Some(row.epoch),
        Loaded::Row(_) => None,
    });
    let closed = claim.handle.close(&[inserted[0]], &[poisoned]).await.expect("close");
    assert_eq!(closed.settled, [inserted[0]]);
    assert_eq!(closed.held.first().map(|held| held.epoch - 1), epoch);
}

fn assert_poisoned(row: &Loaded, expected: bool) {
    match row {
        Loaded::Row(_) => assert!(!expected, "a poisoned row was decoded"),
        Loaded::Poisoned(row) => {
            assert!(expected, "an intact row was not decoded: {}", row.error);
            assert_eq!(&*row.topic, TOPIC);
        }
    }
}

/// Writes a message, reads it in both ways, and settles it.
async fn assert_comes_back(under_test: &dyn StoreUnderTest, message: Envelope) {
    let (window, key) = WriteWindow::of(under_test, under_test.insert(&message, DUE)).await;
    let confirmed = under_test.store().confirm(&[row_ref(key)]).await.expect("confirm");
    let claim = claim(under_test, &spec(TOPIC)).await;
    let rows = confirmed.into_iter().map(|confirmed| confirmed.row).chain(claim.rows);
    let read: Vec<_> = rows.map(decoded).collect();
    assert_eq!(read.len(), 2);
    for row in read {
        assert_eq!(row.key, key);
        window.assert_at(row.envelope.created_at);
        assert_headers(&row.envelope.headers, &message.headers);
        assert!(row.envelope.payload == message.payload, "another payload");
        assert_eq!(row.envelope, Envelope { created_at: row.envelope.created_at, ..message.clone() });
    }
    claim.handle.close(&[key], &[]).await.expect("close");
}

/// Compares values, which `Debug` of headers does not show.
fn assert_headers(read: &Headers, written: &Headers) {
    assert_eq!(read.iter().collect::<Vec<_>>(), written.iter().collect::<Vec<_>>());
}
