use std::fmt;
use std::time::SystemTime;

use uuid::{Uuid, Variant};

use crate::message::MessageId;

/// The namespace of the UUIDs of version 5 that are made of other producers' ids. Such keys are in databases, so it never changes.
const NAMESPACE: Uuid = Uuid::from_u128(0x5d1e_61b0_7a5e_5c0f_9b1d_6f2c_83a4_e1d7);

/// What keys without an age begin with: the year 10889, if it were a time.
const UNDATED: [u8; 2] = [0xff, 0xff];

/// The first millisecond that would be in the range of keys without an age.
const UNDATED_FROM_MS: u64 = 0xffff_0000_0000;

/// What an inbox recognises a message by: 16 bytes.
///
/// A [`MessageId`] of an outbox is one. For messages of other producers it is made of what they have:
///
/// | the message has | key | has an age |
/// |---|---|---|
/// | a UUID of version 7 | `InboxKey::from(uuid)` | yes |
/// | any other UUID | `InboxKey::from(uuid)` | no |
/// | an id as text, such as an order number | [`InboxKey::of_text`] | no |
/// | only its place in a topic | [`InboxKey::of_offset`] | no |
/// | one of these, and a time that is the same in every copy | [`dated`](Self::dated) | yes |
///
/// Entries with an age are removed when they are old, and an old copy is refused. Entries without one are kept for ever, and a copy is
/// recognised at any time.
///
/// A key does not say what it was made of. Use one kind of id for all messages of a consumer.
///
/// ```
/// use std::time::{Duration, SystemTime};
/// use diesel_outbox::inbox::InboxKey;
///
/// let order = InboxKey::of_text("order-17");
/// assert_eq!(order, InboxKey::of_text("order-17"));
/// assert_eq!(order.created_at(), None);
///
/// let placed_at = SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000);
/// assert_eq!(order.dated(placed_at).created_at(), Some(placed_at));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct InboxKey(Uuid);

impl InboxKey {
    /// Of an id as text. Two ids have one key with a probability of 2⁻¹⁰⁶.
    pub fn of_text(id: impl AsRef<str>) -> Self {
        Self::hashed("text", id.as_ref().as_bytes())
    }

    /// Of a record's place in Kafka. A producer that sends a message twice writes two records, so this recognises only records that
    /// are read twice.
    pub fn of_offset(topic: impl AsRef<str>, partition: i32, offset: i64) -> Self {
        let place = [&partition.to_be_bytes()[..], &offset.to_be_bytes(), topic.as_ref().as_bytes()].concat();
        Self::hashed("offset", &place)
    }

    /// The same key with an age. The time has to be part of the message, as a record's timestamp is: a copy with another time has another
    /// key.
    ///
    /// Counts in milliseconds. Two keys of one millisecond are the same with a probability of 2⁻⁷⁴.
    pub fn dated(self, created_at: SystemTime) -> Self {
        let since = created_at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let ms = u64::try_from(since.as_millis()).unwrap_or(u64::MAX).min(UNDATED_FROM_MS - 1);
        let mut bytes = *Uuid::new_v5(&NAMESPACE, self.0.as_bytes()).as_bytes();
        bytes[..6].copy_from_slice(&ms.to_be_bytes()[2..]);
        bytes[6] = 0x70 | (bytes[6] & 0x0f);
        Self(Uuid::from_bytes(bytes))
    }

    /// When the message was made, if the key says it.
    pub fn created_at(&self) -> Option<SystemTime> {
        let ms = self.created_ms()?;
        Some(SystemTime::UNIX_EPOCH + std::time::Duration::from_millis(ms))
    }

    /// The key as a UUID, as it is in the table: of version 7, or of version 8 if it has no age.
    pub const fn as_uuid(&self) -> &Uuid {
        &self.0
    }

    /// The time for comparisons with the inbox's start; beyond all others if the key has none.
    pub(crate) fn age_ms(&self) -> i64 {
        self.created_ms().and_then(|ms| i64::try_from(ms).ok()).unwrap_or(i64::MAX)
    }

    fn created_ms(&self) -> Option<u64> {
        let bytes = self.0.as_bytes();
        let ms = bytes[..6].iter().fold(0, |ms, byte| (ms << 8) | u64::from(*byte));
        (bytes[..2] != UNDATED).then_some(ms)
    }

    /// Of an id of some kind, so that a text and a UUID with the same bytes differ.
    fn hashed(kind: &str, id: &[u8]) -> Self {
        let named = [kind.as_bytes(), b":", id].concat();
        let mut bytes = *Uuid::new_v5(&NAMESPACE, &named).as_bytes();
        bytes[..2].copy_from_slice(&UNDATED);
        bytes[6] = 0x80 | (bytes[6] & 0x0f);
        Self(Uuid::from_bytes(bytes))
    }
}

impl From<Uuid> for InboxKey {
    /// The UUID itself if it is of version 7. The first bytes of others are no time, and would be taken for one.
    fn from(id: Uuid) -> Self {
        let is_dated =
            id.get_version_num() == 7 && id.get_variant() == Variant::RFC4122 && id.as_bytes()[..2] != UNDATED;
        if is_dated { Self(id) } else { Self::hashed("uuid", id.as_bytes()) }
    }
}

impl From<MessageId> for InboxKey {
    fn from(id: MessageId) -> Self {
        Uuid::from(id).into()
    }
}

impl fmt::Display for InboxKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// They are in databases: a change would make every message new.
    #[test]
    fn keys_never_change() {
        let at = SystemTime::UNIX_EPOCH + Duration::from_millis(1_800_000_000_123);
        let keys = [
            InboxKey::of_text("order-17"),
            InboxKey::of_offset("orders", 3, 17),
            InboxKey::of_text("order-17").dated(at),
            InboxKey::from(Uuid::from_u128(0x67e5_5044_10b1_426f_9247_bb68_0e5f_e0c8)),
        ];
        let texts = [
            "ffffee43-b8e0-87fc-93f4-5b5f4a1b7422",
            "ffff9908-ebeb-8e3e-b8e0-782244efb3d9",
            "01a3185c-507b-76a7-90a2-d8aced64ffac",
            "ffff82fe-c38e-8e8b-9534-ec256ee45ded",
        ];
        assert_eq!(keys.map(|key| key.to_string()), texts);
    }

    #[test]
    fn an_outboxs_id_is_its_own_key() {
        let id = MessageId::new();
        let key = InboxKey::from(id);
        assert_eq!(key.as_uuid(), id.as_uuid());
        let (seconds, nanos) = id.as_uuid().get_timestamp().expect("a time").to_unix();
        let made_at = SystemTime::UNIX_EPOCH + Duration::new(seconds, nanos);
        assert_eq!(key.created_at(), Some(made_at));
    }

    /// Version 4 has random bytes where version 7 has its time: such a message would be refused as too old, or its entry removed early.
    #[test]
    fn an_id_without_a_time_has_no_age() {
        for id in [
            "00000000-10b1-426f-9247-bb680e5fe0c8",
            "00000000-0000-7000-0000-000000000000",
            "ffff0000-0000-7000-8000-000000000000",
        ] {
            let key = InboxKey::from(id.parse::<Uuid>().expect("a UUID"));
            assert_eq!((key.created_at(), key.age_ms()), (None, i64::MAX), "{id}");
            assert!(key.as_uuid().as_bytes().starts_with(&UNDATED), "it is among the keys that are kept");
        }
    }

    #[test]
    fn a_time_out_of_range_is_the_nearest_one() {
        let key = InboxKey::of_text("order-17");
        let early = key.dated(SystemTime::UNIX_EPOCH - Duration::from_secs(1));
        assert_eq!(early.age_ms(), 0);
        let late = key.dated(SystemTime::UNIX_EPOCH + Duration::from_secs(1 << 45));
        assert_eq!(late.age_ms(), 0xfffe_ffff_ffff);
    }

    #[test]
    fn different_ids_have_different_keys() {
        let at = SystemTime::UNIX_EPOCH + Duration::from_secs(1);
        let keys = [
            InboxKey::of_text("a"),
            InboxKey::of_text("b"),
            InboxKey::of_text("b").dated(at),
            InboxKey::of_text("b").dated(at + Duration::from_millis(1)),
            InboxKey::of_offset("a", 0, 1),
            InboxKey::of_offset("a", 1, 0),
            InboxKey::of_offset("b", 1, 0),
        ];
        let different: std::collections::HashSet<InboxKey> = keys.into_iter().collect();
        assert_eq!(different.len(), keys.len());
    }
}
