use clap::Args;
use diesel_outbox::admin::{DeadLetterCount, LiveCount, SentCount, TopicStatus};
use serde::Serialize;

use crate::error::Error;
use crate::exit::Exit;
use crate::output::{Document, List, Page, Row, age, instant, optional};
use crate::session::{Session, unknown_topic};

/// Where counting a topic's sent messages stops: the history may have hundreds of millions.
const SENT_COUNTED_MAX: usize = 10_000;

/// Which topics are shown.
#[derive(Debug, Clone, Args)]
pub(crate) struct TopicsArgs {
    /// Show this topic with what it holds in each state; by default all are listed
    topic: Option<String>,
}

/// A topic of the list.
#[derive(Debug, Serialize)]
#[serde(transparent)]
pub(crate) struct TopicRow(pub(crate) TopicStatus);

impl Row for TopicRow {
    const HEADINGS: &'static [&'static str] = &["topic", "lanes", "live", "due", "overdue", "dead", "paused since"];

    fn cells(&self) -> Vec<String> {
        let TopicStatus { topic, lanes, live, due, overdue_by, dead, paused_since, .. } = &self.0;
        vec![
            topic.to_string(),
            optional(*lanes),
            live.to_string(),
            due.to_string(),
            optional((due.count > 0).then(|| age(*overdue_by))),
            dead.to_string(),
            optional(paused_since.map(instant)),
        ]
    }
}

/// One topic.
#[derive(Debug, Serialize)]
struct TopicDetail {
    #[serde(flatten)]
    status: TopicStatus,
    live_by_state: LiveCount,
    dead_by_reason: Vec<DeadLetterCount>,
    /// What the history has of it; `null` if there is no history.
    history: Option<SentCount>,
    #[serde(skip)]
    is_application_known: bool,
}

impl TopicsArgs {
    pub(crate) async fn run(&self, session: &Session) -> Result<Exit, Error> {
        let topics = session.admin.topics().await?;
        let Some(name) = self.topic.as_deref() else {
            let items = topics.into_iter().map(TopicRow).collect();
            session.output.list(&List { items, more: false }, "the tables hold nothing of any topic")?;
            return Ok(Exit::Fine);
        };
        let Some(status) = topics.iter().find(|topic| &*topic.topic == name).cloned() else {
            return Err(unknown_topic(name, &topics));
        };
        let dead = session.admin.count_dead_letters().await?;
        let detail = TopicDetail {
            live_by_state: session.admin.count_live(name).await?,
            dead_by_reason: dead.into_iter().filter(|count| &*count.topic == name).collect(),
            history: count_sent(name, session).await?,
            is_application_known: session.is_configured,
            status,
        };
        session.output.document(&detail)?;
        Ok(Exit::Fine)
    }
}

/// What the history has of a topic; nothing if its migration was not run.
async fn count_sent(topic: &str, session: &Session) -> Result<Option<SentCount>, Error> {
    match session.problem_of(&[session.outbox.tables().history()]).await? {
        Some(_) => Ok(None),
        None => Ok(Some(session.admin.count_sent(topic, SENT_COUNTED_MAX).await?)),
    }
}

impl Document for TopicDetail {
    fn show(&self, page: &mut Page) {
        let TopicStatus { topic, is_configured, lanes, paused_since, overdue_by, due, .. } = &self.status;
        page.field("topic", topic);
        page.field_of("configured", self.is_application_known.then_some(if *is_configured { "yes" } else { "no" }));
        page.field_of("lanes", *lanes);
        page.field_of("paused since", paused_since.map(instant));
        let states = &self.live_by_state;
        page.field("due", states.due);
        page.field_of("overdue", (due.count > 0).then(|| age(*overdue_by)));
        page.field("leased", states.leased);
        page.field("delayed", states.delayed);
        page.field("retrying", states.retrying);
        page.field("in lanes", states.in_lanes);
        for DeadLetterCount { reason, count, .. } in &self.dead_by_reason {
            page.field("dead", format!("{count} {reason}"));
        }
        let sent = self.history.filter(|sent| sent.sent > 0);
        let stops =
            |count: usize| if count >= SENT_COUNTED_MAX { format!("at least {count}") } else { count.to_string() };
        page.field_of("in the history", sent.map(|sent| stops(sent.sent)));
        page.field_of("unprocessed", sent.filter(|sent| sent.unprocessed > 0).map(|sent| stops(sent.unprocessed)));
    }
}
