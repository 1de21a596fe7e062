//! Where the next page of a list begins.

use std::fmt;
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::AdminError;
use crate::store::{AuditCursor, DeadLetterCursor, LiveCursor, LivePosition, SentCursor};

/// A position in a list of [`Admin`](super::Admin), after which the next page begins. From [`Page::next`](super::Page::next); for the
/// same list with the same filter only.
///
/// For pages and commands that pass it on, it is a text without characters that a URL would escape. It is no secret, and no promise:
/// another version may not read it. A text that is no position in a list is refused by the list
/// ([`WrongCursor`](AdminError::WrongCursor)).
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// use diesel_outbox::admin::{AdminError, AuditFilter, Cursor};
/// # use diesel_outbox::store::MemoryStore;
/// # use diesel_outbox::{Outbox, Topic};
/// # let outbox = Outbox::builder().topic(Topic::new("orders")).build()?;
/// # let admin = outbox.admin(MemoryStore::new());
/// let after = Cursor::from("page two");
/// let page = admin.audit(&AuditFilter::new(), Some(&after), 50).await;
/// assert!(matches!(page, Err(AdminError::WrongCursor { .. })));
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// # }).unwrap();
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Cursor(String);

impl From<&str> for Cursor {
    fn from(text: &str) -> Self {
        Self(text.to_owned())
    }
}

impl From<String> for Cursor {
    fn from(text: String) -> Self {
        Self(text)
    }
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Cursor {
    pub(super) fn at(list: List, position: &impl Position) -> Self {
        Self(format!("{}_{}", list.name(), position.write()))
    }

    /// Where a page of the list begins; `None` if it is the first. Refuses a page of size 0, which would look like the end of the list.
    pub(super) fn begin<P: Position>(
        list: List,
        after: Option<&Self>,
        items_max: usize,
    ) -> Result<Option<P>, AdminError> {
        if items_max == 0 {
            return Err(AdminError::EmptyPage);
        }
        let Some(Self(cursor)) = after else { return Ok(None) };
        let text = cursor.strip_prefix(list.name()).and_then(|rest| rest.strip_prefix('_'));
        let position = text.and_then(P::read).ok_or_else(|| AdminError::WrongCursor { cursor: cursor.clone() })?;
        Ok(Some(position))
    }
}

/// A list of [`Admin`](super::Admin). Its name begins each of its cursors, so that another list refuses them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum List {
    Live,
    /// Live messages that wait behind failed ones.
    Blocked,
    BlockedKeys,
    DeadLetters,
    SentOfKey,
    SentOfTopic,
    Unprocessed,
    Audit,
    Parked,
}

impl List {
    fn name(self) -> &'static str {
        match self {
            Self::Live => "live",
            Self::Blocked => "blocked",
            Self::BlockedKeys => "keys",
            Self::DeadLetters => "dead",
            Self::SentOfKey => "sent",
            Self::SentOfTopic => "scan",
            Self::Unprocessed => "unprocessed",
            Self::Audit => "audit",
            Self::Parked => "parked",
        }
    }
}

/// A position as a store takes it.
pub(super) trait Position: Sized {
    fn write(&self) -> String;

    fn read(text: &str) -> Option<Self>;
}

impl Position for LiveCursor {
    fn write(&self) -> String {
        let LivePosition { lane, due_at, id } = self.position;
        let head = self.head.map(|head| format!("_{head}")).unwrap_or_default();
        format!("{lane}_{due_at}_{id}{head}")
    }

    fn read(text: &str) -> Option<Self> {
        let mut parts = text.split('_');
        let (lane, due_at, id) = (parts.next()?.parse().ok()?, number(parts.next())?, number(parts.next())?);
        let head = parts.next().map(str::parse).transpose().ok()?;
        parts.next().is_none().then_some(Self { position: LivePosition { lane, due_at, id }, head })
    }
}

impl Position for DeadLetterCursor {
    fn write(&self) -> String {
        format!("{}_{}_{}", nanos(self.dead_at), Uuid::from(self.message_id).simple(), self.topic)
    }

    fn read(text: &str) -> Option<Self> {
        let mut parts = text.splitn(3, '_');
        let (dead_at, message_id) = (instant(parts.next())?, id(parts.next())?);
        Some(Self { topic: parts.next()?.into(), dead_at, message_id: message_id.into() })
    }
}

impl Position for SentCursor {
    fn write(&self) -> String {
        format!("{}_{}", nanos(self.sent_at), Uuid::from(self.message_id).simple())
    }

    fn read(text: &str) -> Option<Self> {
        let (at, message_id) = text.split_once('_')?;
        Some(Self { sent_at: instant(Some(at))?, message_id: id(Some(message_id))?.into() })
    }
}

impl Position for AuditCursor {
    fn write(&self) -> String {
        format!("{}_{}", nanos(self.began_at), self.id.simple())
    }

    fn read(text: &str) -> Option<Self> {
        let (at, operation) = text.split_once('_')?;
        Some(Self { began_at: instant(Some(at))?, id: id(Some(operation))? })
    }
}

/// The row of a parked record.
impl Position for i64 {
    fn write(&self) -> String {
        self.to_string()
    }

    fn read(text: &str) -> Option<Self> {
        text.parse().ok()
    }
}

const NANOS_PER_SECOND: u128 = 1_000_000_000;

/// Since 1970.
fn nanos(at: SystemTime) -> u128 {
    at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_nanos()
}

fn instant(text: Option<&str>) -> Option<SystemTime> {
    let nanos: u128 = text?.parse().ok()?;
    let (seconds, nanos) = (nanos / NANOS_PER_SECOND, nanos % NANOS_PER_SECOND);
    SystemTime::UNIX_EPOCH.checked_add(Duration::new(u64::try_from(seconds).ok()?, u32::try_from(nanos).ok()?))
}

fn number(text: Option<&str>) -> Option<i64> {
    text?.parse().ok()
}

pub(super) fn id(text: Option<&str>) -> Option<Uuid> {
    Uuid::parse_str(text?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn comes_back<P: Position + PartialEq + fmt::Debug>(position: P) {
        let cursor = Cursor::from(Cursor::at(List::Live, &position).to_string());
        assert_eq!(Cursor::begin(List::Live, Some(&cursor), 1).expect("it is one"), Some(position));
    }

    #[test]
    fn each_position_comes_back_from_its_text() {
        let (since, id) = (Duration::from_nanos(1_709_251_199_250_001_999), Uuid::now_v7());
        for head in [None, Some(7)] {
            comes_back(LiveCursor { position: LivePosition { lane: -1, due_at: -5, id: 3 }, head });
        }
        // Also a date that only a broken clock has.
        for at in [since, since * 100].map(|since| SystemTime::UNIX_EPOCH + since) {
            comes_back(DeadLetterCursor { topic: "a_b-c.d".into(), dead_at: at, message_id: id.into() });
            comes_back(SentCursor { sent_at: at, message_id: id.into() });
            comes_back(AuditCursor { began_at: at, id });
        }
        comes_back(17_i64);
    }

    fn is_refused<P: Position>(list: List, text: &str) {
        let error = Cursor::begin::<P>(list, Some(&Cursor::from(text)), 1).err();
        assert!(matches!(error, Some(AdminError::WrongCursor { .. })), "{list:?} took {text:?}");
    }

    #[test]
    fn another_text_is_refused() {
        let texts = ["", "_", "1", "1_2", "a_b_c", "1_2_3_4_5", "1_2_3_", "99999999999999999999_2_3", "1_2_\0"];
        for text in texts {
            is_refused::<LiveCursor>(List::Live, &format!("live_{text}"));
            is_refused::<DeadLetterCursor>(List::DeadLetters, &format!("dead_{text}"));
            is_refused::<SentCursor>(List::SentOfKey, &format!("sent_{text}"));
            is_refused::<AuditCursor>(List::Audit, &format!("audit_{text}"));
            is_refused::<LiveCursor>(List::Live, text);
        }
        is_refused::<i64>(List::Parked, "parked_x");
        assert_eq!(Cursor::begin::<i64>(List::Parked, None, 1).expect("the first page"), None);
    }

    #[test]
    fn the_cursor_of_another_list_is_refused() {
        let all = [
            List::Live,
            List::Blocked,
            List::BlockedKeys,
            List::DeadLetters,
            List::SentOfKey,
            List::SentOfTopic,
            List::Unprocessed,
            List::Audit,
            List::Parked,
        ];
        for of in all {
            let text = Cursor::at(of, &17_i64).to_string();
            for other in all.into_iter().filter(|other| *other != of) {
                is_refused::<i64>(other, &text);
            }
        }
    }
}
