//! Cursors as texts, for pages and commands that pass the position on to their next call.

use std::time::{Duration, SystemTime};

use uuid::Uuid;

use super::audit::AuditCursor;
use super::dead_letter::DeadLetterCursor;
use super::history::SentCursor;
use super::live::{LiveCursor, LivePosition};

impl LiveCursor {
    /// The position as a short text without characters that a URL would escape. It is no secret, and no promise: another version may
    /// not read it.
    pub fn to_token(&self) -> String {
        let LivePosition { lane, due_at, id } = self.position;
        let head = self.head.map(|head| format!("_{head}")).unwrap_or_default();
        format!("{lane}_{due_at}_{id}{head}")
    }

    /// The position in a text of [`to_token`](Self::to_token); `None` if it is no such text.
    pub fn from_token(token: &str) -> Option<Self> {
        let mut parts = token.split('_');
        let (lane, due_at, id) = (parts.next()?.parse().ok()?, number(parts.next())?, number(parts.next())?);
        let head = parts.next().map(str::parse).transpose().ok()?;
        parts.next().is_none().then_some(Self { position: LivePosition { lane, due_at, id }, head })
    }
}

impl DeadLetterCursor {
    /// As [`LiveCursor::to_token`](super::live::LiveCursor::to_token).
    pub fn to_token(&self) -> String {
        format!("{}_{}_{}", micros(self.dead_at), Uuid::from(self.message_id).simple(), self.topic)
    }

    /// As [`LiveCursor::from_token`](super::live::LiveCursor::from_token).
    pub fn from_token(token: &str) -> Option<Self> {
        let mut parts = token.splitn(3, '_');
        let (dead_at, message_id) = (instant(parts.next())?, id(parts.next())?);
        Some(Self { topic: parts.next()?.into(), dead_at, message_id: message_id.into() })
    }
}

impl SentCursor {
    /// As [`LiveCursor::to_token`](super::live::LiveCursor::to_token).
    pub fn to_token(&self) -> String {
        format!("{}_{}", micros(self.sent_at), Uuid::from(self.message_id).simple())
    }

    /// As [`LiveCursor::from_token`](super::live::LiveCursor::from_token).
    pub fn from_token(token: &str) -> Option<Self> {
        let (at, message_id) = token.split_once('_')?;
        Some(Self { sent_at: instant(Some(at))?, message_id: id(Some(message_id))?.into() })
    }
}

impl AuditCursor {
    /// As [`LiveCursor::to_token`](super::live::LiveCursor::to_token).
    pub fn to_token(&self) -> String {
        format!("{}_{}", micros(self.began_at), self.id.simple())
    }

    /// As [`LiveCursor::from_token`](super::live::LiveCursor::from_token).
    pub fn from_token(token: &str) -> Option<Self> {
        let (at, operation) = token.split_once('_')?;
        Some(Self { began_at: instant(Some(at))?, id: id(Some(operation))? })
    }
}

/// Since 1970: no database has finer instants.
fn micros(at: SystemTime) -> u128 {
    at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_micros()
}

fn instant(text: Option<&str>) -> Option<SystemTime> {
    SystemTime::UNIX_EPOCH.checked_add(Duration::from_micros(text?.parse().ok()?))
}

fn number(text: Option<&str>) -> Option<i64> {
    text?.parse().ok()
}

fn id(text: Option<&str>) -> Option<Uuid> {
    Uuid::parse_str(text?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at() -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_micros(1_709_251_199_250_001)
    }

    #[test]
    fn each_cursor_comes_back_from_its_token() {
        for head in [None, Some(7)] {
            let cursor = LiveCursor { position: LivePosition { lane: -1, due_at: -5, id: 3 }, head };
            assert_eq!(LiveCursor::from_token(&cursor.to_token()), Some(cursor));
        }
        let dead = DeadLetterCursor { topic: "a_b-c.d".into(), dead_at: at(), message_id: Uuid::now_v7().into() };
        assert_eq!(DeadLetterCursor::from_token(&dead.to_token()), Some(dead));
        let sent = SentCursor { sent_at: at(), message_id: Uuid::now_v7().into() };
        assert_eq!(SentCursor::from_token(&sent.to_token()), Some(sent));
        let audit = AuditCursor { began_at: at(), id: Uuid::now_v7() };
        assert_eq!(AuditCursor::from_token(&audit.to_token()), Some(audit));
    }

    #[test]
    fn another_text_is_no_token() {
        for text in ["", "_", "1", "1_2", "a_b_c", "1_2_3_4_5", "1_2_3_", "99999999999999999999_2_3", "1_2_\0"] {
            assert_eq!(LiveCursor::from_token(text), None, "{text:?}");
            assert_eq!(DeadLetterCursor::from_token(text), None, "{text:?}");
            assert_eq!(SentCursor::from_token(text), None, "{text:?}");
            assert_eq!(AuditCursor::from_token(text), None, "{text:?}");
        }
    }
}
