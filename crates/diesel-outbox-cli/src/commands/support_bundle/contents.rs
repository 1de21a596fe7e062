use std::time::Duration;

use diesel_outbox::MessageId;
use diesel_outbox::admin::{
    AdminError, AuditFilter, BlockedKey, BoundedCount, DeadLetter, DeadLetterCount, DeadLetterFilter, DeadLetterReason,
    LiveCount, LiveFilter, LiveMessage, LiveState, TopicStatus,
};
use diesel_outbox::relay::LaneStatus;
use serde::Serialize;

use crate::error::Error;
use crate::output::instant;
use crate::session::Session;

/// Failed messages, dead letters and blocked keys of each topic, and entries of the audit: enough to see a pattern.
const EXAMPLES: usize = 20;

/// What a maintainer needs to see of an outbox.
///
/// Each field is here because its source holds names, numbers and times only. Payloads, keys, header names and values, error texts, the
/// database's address, and actors, filters and reasons of the audit stay out: any of them may hold what nobody else should read.
#[derive(Debug, Serialize)]
pub(super) struct Contents {
    /// The version of this program.
    version: &'static str,
    database: String,
    database_time: String,
    statement_timeout: Option<Duration>,
    tables: Vec<String>,
    /// What is wrong with tables.
    table_problems: Vec<String>,
    /// Settings of the database that break a guarantee.
    settings: Answer<Vec<String>>,
    topics: Vec<Topic>,
    dead_letters: Answer<Vec<DeadLetterCount>>,
    recent_operations: Answer<Vec<Operation>>,
}

#[derive(Debug, Serialize)]
struct Topic {
    status: TopicStatus,
    live: Answer<LiveCount>,
    lanes: Answer<Vec<LaneStatus>>,
    blocked_keys: Answer<Vec<Blocked>>,
    retrying: Answer<Vec<Failing>>,
    dead: Answer<Vec<Failing>>,
}

/// What was read, or that it could not be. The text of an error may hold anything, so only its kind is here.
#[derive(Debug, Serialize)]
#[serde(rename_all = "snake_case")]
enum Answer<T> {
    Read(T),
    Failed(&'static str),
}

impl<T> From<Result<T, AdminError>> for Answer<T> {
    fn from(read: Result<T, AdminError>) -> Self {
        match read {
            Ok(value) => Self::Read(value),
            Err(AdminError::Store(error)) if error.is_retriable() => Self::Failed("the database did not answer"),
            Err(AdminError::Store(_)) => Self::Failed("the database refused"),
            Err(_) => Self::Failed("refused"),
        }
    }
}

/// A failed message.
#[derive(Debug, Serialize)]
struct Failing {
    message_id: MessageId,
    payload_bytes: Option<usize>,
    attempts: u32,
    failures: u32,
    created_at: String,
    /// When it was dead-lettered, and the first word of the reason.
    dead: Option<(String, String)>,
    /// When each failure was, and its class.
    errors: Vec<(Option<String>, String)>,
}

/// A key that waits.
#[derive(Debug, Serialize)]
struct Blocked {
    lane: Option<u16>,
    behind: BoundedCount,
    head: Failing,
}

#[derive(Debug, Serialize)]
struct Operation {
    action: String,
    began_at: String,
    ended_at: Option<String>,
    changed: usize,
}

impl Contents {
    pub(super) async fn gather(session: &Session) -> Result<Self, Error> {
        let (admin, names) = (&session.admin, session.outbox.tables());
        let mut topics = Vec::new();
        for status in admin.topics().await? {
            topics.push(Topic::gather(status, session).await);
        }
        let problems = admin.check_tables().await?;
        let settings: Answer<Vec<String>> =
            admin.check_settings().await.map(|warnings| warnings.iter().map(ToString::to_string).collect()).into();
        let kind = session.place.split(':').next().unwrap_or_default();
        Ok(Self {
            version: env!("CARGO_PKG_VERSION"),
            database: kind.to_owned(),
            database_time: instant(admin.now().await?),
            statement_timeout: session.options.statement_timeout,
            tables: vec![names.messages(), names.dead_letters(), names.history(), names.audit()],
            table_problems: problems.iter().map(ToString::to_string).collect(),
            settings,
            topics,
            dead_letters: admin.count_dead_letters().await.map(with_known_words).into(),
            recent_operations: recent_operations(session).await.into(),
        })
    }
}

impl Topic {
    async fn gather(status: TopicStatus, session: &Session) -> Self {
        let (admin, name) = (&session.admin, &*status.topic);
        let retrying = LiveFilter::of(name).state(LiveState::Retrying);
        let dead = DeadLetterFilter::new().topic(name);
        Self {
            live: admin.count_live(name).await.into(),
            lanes: admin.lanes(name).await.into(),
            blocked_keys: admin
                .blocked_keys(name, None, EXAMPLES)
                .await
                .map(|page| page.items.iter().map(blocked).collect())
                .into(),
            retrying: admin
                .live_messages(&retrying, None, EXAMPLES)
                .await
                .map(|page| page.items.iter().map(live).collect())
                .into(),
            dead: admin
                .dead_letters(&dead, None, EXAMPLES)
                .await
                .map(|page| page.items.iter().map(letter).collect())
                .into(),
            status,
        }
    }
}

/// What somebody else has written as a reason may be anything.
fn known_reason(reason: DeadLetterReason) -> DeadLetterReason {
    match reason {
        DeadLetterReason::Other(_) => DeadLetterReason::Other("another".into()),
        known => known,
    }
}

fn with_known_words(mut counts: Vec<DeadLetterCount>) -> Vec<DeadLetterCount> {
    for count in &mut counts {
        count.reason = known_reason(count.reason.clone());
    }
    counts
}

async fn recent_operations(session: &Session) -> Result<Vec<Operation>, AdminError> {
    let page = session.admin.audit(&AuditFilter::new(), None, EXAMPLES).await?;
    let operations = page.items.into_iter().map(|entry| Operation {
        action: entry.action,
        began_at: instant(entry.began_at),
        ended_at: entry.ended_at.map(instant),
        changed: entry.changed,
    });
    Ok(operations.collect())
}

fn live(message: &LiveMessage) -> Failing {
    Failing {
        message_id: message.message_id,
        payload_bytes: message.payload.as_ref().map(Vec::len),
        attempts: message.attempts,
        failures: message.failures,
        created_at: instant(message.created_at),
        dead: None,
        errors: message.errors.iter().map(|note| (note.at.map(instant), note.class.clone())).collect(),
    }
}

fn letter(letter: &DeadLetter) -> Failing {
    Failing {
        message_id: letter.message_id,
        payload_bytes: letter.payload.as_ref().map(Vec::len),
        attempts: letter.attempts,
        failures: letter.failures,
        created_at: instant(letter.created_at),
        dead: Some((instant(letter.dead_at), known_reason(letter.typed_reason()).to_string())),
        errors: letter.errors.iter().map(|note| (note.at.map(instant), note.class.clone())).collect(),
    }
}

fn blocked(key: &BlockedKey) -> Blocked {
    Blocked { lane: key.head.lane, behind: key.behind, head: live(&key.head) }
}
