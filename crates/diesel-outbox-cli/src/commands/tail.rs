use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, SystemTime};

use clap::Args;
use diesel_outbox::MessageId;
use diesel_outbox::admin::{AuditEntry, AuditFilter, DeadLetterFilter, TopicStatus};
use serde::Serialize;
use tokio::time::{MissedTickBehavior, interval};

use super::audit::compact;
use super::dead::{DeadRow, LETTERS_PER_PAGE};
use crate::error::{Error, if_migrated};
use crate::exit::Exit;
use crate::output::{Row, age, cut, instant, note, optional};
use crate::session::Session;

/// How far back each poll goes: what was written before may become visible later, when its transaction commits.
const POLLED_BACK: Duration = Duration::from_secs(30);

/// Entries of the audit that one poll reads.
const ENTRIES_PER_POLL: usize = 100;

/// What is followed, until Ctrl-C.
#[derive(Debug, Clone, Args)]
pub(crate) struct TailArgs {
    /// Only this topic; who does what is followed of all
    #[arg(long)]
    topic: Option<String>,
    /// How often to poll the database
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration, default_value = "1s")]
    interval: Duration,
}

/// Something that has happened.
#[derive(Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
enum Event {
    /// The backlog of a topic is another one, or the topic was paused or resumed.
    Backlog {
        at: String,
        status: TopicStatus,
    },
    /// The tables hold nothing of the topic any more.
    Empty {
        at: String,
        topic: String,
    },
    DeadLetter {
        at: String,
        letter: DeadRow,
    },
    /// Somebody has done something, or has come further with it.
    Audit {
        at: String,
        entry: AuditEntry,
    },
}

impl Row for Event {
    const HEADINGS: &'static [&'static str] = &["at", "event", "what"];

    fn cells(&self) -> Vec<String> {
        let (at, event, what) = match self {
            Self::Backlog { at, status } => {
                let TopicStatus { topic, live, due, dead, overdue_by, paused_since, .. } = status;
                let paused = if paused_since.is_some() { ", paused" } else { "" };
                let overdue = if due.count > 0 { format!(" for {}", age(*overdue_by)) } else { String::new() };
                (at, "backlog", format!("{topic}: {live} live, {due} due{overdue}, {dead} dead{paused}"))
            }
            Self::Empty { at, topic } => (at, "backlog", format!("{topic}: nothing")),
            Self::DeadLetter { at, letter } => {
                let letter = &letter.letter;
                let key = optional(letter.key.as_deref());
                (at, "dead letter", format!("{}: {} {key} {}", letter.topic, letter.message_id, cut(&letter.reason)))
            }
            Self::Audit { at, entry } => {
                let of = entry.message_id.map(|id| id.to_string()).or_else(|| entry.filter.as_deref().map(compact));
                let (actor, of) = (optional(entry.actor.as_deref()), optional(of.as_deref().map(cut)));
                let ended = if entry.ended_at.is_some() { "" } else { " so far" };
                (at, "audit", format!("{actor}: {} of {of}, {}{ended}", entry.action, entry.changed))
            }
        };
        vec![at.clone(), event.to_owned(), what]
    }
}

impl TailArgs {
    pub(crate) async fn run(&self, session: &Session) -> Result<Exit, Error> {
        let mut follower = Follower { args: self, session, began: session.admin.now().await?, seen: Seen::default() };
        let mut ticks = interval(self.interval.max(Duration::from_millis(10)));
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                _ = ticks.tick() => {}
                stopped = tokio::signal::ctrl_c() => {
                    return stopped.map(|()| Exit::Fine).map_err(|error| Error::failed(format!("Ctrl-C: {error}")));
                }
            }
            match follower.poll().await {
                // The database may be back at the next poll.
                Err(Error::Admin(error)) if error.is_retriable() => note(&format!("this poll failed: {error}")),
                polled => polled?,
            }
        }
    }
}

/// What was written already.
#[derive(Default)]
struct Seen {
    topics: BTreeMap<String, Counts>,
    letters: BTreeSet<MessageId>,
    /// By the id of the operation: how far it was, and whether it had ended.
    operations: BTreeMap<String, (usize, bool)>,
}

/// What is compared of a topic: not for how long it has been due, which always changes.
type Counts = (usize, usize, usize, Option<SystemTime>);

struct Follower<'a> {
    args: &'a TailArgs,
    session: &'a Session,
    began: SystemTime,
    seen: Seen,
}

impl Follower<'_> {
    async fn poll(&mut self) -> Result<(), Error> {
        let now = self.session.admin.now().await?;
        let since = now.checked_sub(POLLED_BACK).unwrap_or(self.began).max(self.began);
        let mut events = self.backlog(instant(now)).await?;
        events.extend(self.dead_letters(since).await?);
        events.extend(self.operations(since).await?);
        self.session.output.entries(&events)
    }

    async fn backlog(&mut self, at: String) -> Result<Vec<Event>, Error> {
        let (mut events, mut counted) = (Vec::new(), BTreeMap::new());
        for status in self.session.admin.topics().await? {
            let name = status.topic.to_string();
            if self.args.topic.as_ref().is_some_and(|wanted| *wanted != name) {
                continue;
            }
            let counts = (status.live.count, status.due.count, status.dead.count, status.paused_since);
            if self.seen.topics.remove(&name) != Some(counts) {
                events.push(Event::Backlog { at: at.clone(), status });
            }
            counted.insert(name, counts);
        }
        let gone = std::mem::replace(&mut self.seen.topics, counted).into_keys();
        events.extend(gone.map(|topic| Event::Empty { at: at.clone(), topic }));
        Ok(events)
    }

    async fn dead_letters(&mut self, since: SystemTime) -> Result<Vec<Event>, Error> {
        let mut filter = DeadLetterFilter::new().dead_from(since);
        if let Some(topic) = &self.args.topic {
            filter = filter.topic(topic.as_str());
        }
        let (mut events, mut recent, mut after) = (Vec::new(), BTreeSet::new(), None);
        loop {
            let page = self.session.admin.dead_letters(&filter, after.as_ref(), LETTERS_PER_PAGE).await?;
            for letter in page.items {
                recent.insert(letter.message_id);
                if !self.seen.letters.contains(&letter.message_id) {
                    let letter = DeadRow { letter, has_payload: false };
                    events.push(Event::DeadLetter { at: instant(letter.letter.dead_at), letter });
                }
            }
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        self.seen.letters = recent;
        Ok(events)
    }

    async fn operations(&mut self, since: SystemTime) -> Result<Vec<Event>, Error> {
        let filter = AuditFilter::new().began_from(since);
        let page = self.session.admin.audit(&filter, None, ENTRIES_PER_POLL).await;
        // Without the audit's table there is nothing to follow of it.
        let Some(page) = if_migrated(page)? else { return Ok(Vec::new()) };
        let mut events = Vec::new();
        for entry in page.items.into_iter().rev() {
            let state = (entry.changed, entry.ended_at.is_some());
            if self.seen.operations.insert(entry.id.to_string(), state) != Some(state) {
                events.push(Event::Audit { at: instant(entry.began_at), entry });
            }
        }
        Ok(events)
    }
}
