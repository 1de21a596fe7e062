use clap::{Args, ValueEnum};
use diesel_outbox::admin::{AdminError, LiveFilter, LiveMessage, LiveState};
use serde::{Serialize, Serializer};

use crate::arguments::{Header, Limit};
use crate::commands::messages::without_payload;
use crate::error::Error;
use crate::exit::Exit;
use crate::output::{Listing, Row, bytes, cut, instant, optional};
use crate::session::Session;

/// Messages that one call of the library returns: payloads come along, and may have a megabyte each.
const MESSAGES_PER_PAGE: usize = 100;

/// Which live messages are listed.
#[derive(Debug, Clone, Args)]
pub(crate) struct ListArgs {
    /// Of this topic; by default of each topic
    #[arg(long)]
    topic: Option<String>,
    /// In this state
    #[arg(long, value_enum)]
    state: Option<State>,
    /// Of this key
    #[arg(long)]
    key: Option<String>,
    /// Of this kind
    #[arg(long)]
    kind: Option<String>,
    /// With this header, the whole value
    #[arg(long, value_name = "NAME=VALUE")]
    header: Option<Header>,
    /// With payloads, in JSON
    #[arg(long)]
    payloads: bool,
    #[command(flatten)]
    limit: Limit,
}

/// What a message waits for.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum State {
    /// The next free relay sends it
    Due,
    /// A relay holds it, or the process that has enqueued it
    Leased,
    /// It is to be sent later
    Delayed,
    /// It has failed, and waits for its next attempt
    Retrying,
    /// It waits for its turn in a lane of an ordered topic
    InLane,
    /// It waits behind a failed message of its key
    Blocked,
}

impl From<State> for LiveState {
    fn from(state: State) -> Self {
        match state {
            State::Due => Self::Due,
            State::Leased => Self::Leased,
            State::Delayed => Self::Delayed,
            State::Retrying => Self::Retrying,
            State::InLane => Self::InLane,
            State::Blocked => Self::Blocked,
        }
    }
}

struct LiveRow {
    message: LiveMessage,
    has_payload: bool,
}

impl Serialize for LiveRow {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.has_payload {
            true => self.message.serialize(serializer),
            false => without_payload(&self.message, self.message.payload.as_deref(), serializer),
        }
    }
}

impl Row for LiveRow {
    const HEADINGS: &'static [&'static str] =
        &["id", "topic", "state", "key", "kind", "bytes", "attempts", "due at", "last error"];

    fn cells(&self) -> Vec<String> {
        let message = &self.message;
        vec![
            message.message_id.to_string(),
            message.topic.to_string(),
            state_name(message.state),
            optional(message.key.as_deref()),
            message.kind.clone(),
            bytes(message.payload.as_deref()),
            message.attempts.to_string(),
            optional(message.due_at.map(instant)),
            optional(message.last_error().map(|note| cut(&format!("{}: {}", note.class, note.error)))),
        ]
    }
}

/// As in JSON.
pub(super) fn state_name(state: LiveState) -> String {
    match serde_json::to_value(state) {
        Ok(serde_json::Value::String(name)) => name,
        _ => format!("{state:?}"),
    }
}

impl ListArgs {
    pub(super) async fn run(&self, session: &Session) -> Result<Exit, Error> {
        let mut listing = Listing::new(session.output, self.limit.max());
        let mut more = false;
        for topic in self.topics(session).await? {
            if listing.is_full() {
                more = true;
                break;
            }
            more = match self.list(&topic, session, &mut listing).await {
                // Only the application knows the topics that have no rows at the moment.
                Err(Error::Admin(AdminError::NoSuchTopic { .. })) if !session.is_configured => false,
                listed => listed?,
            };
        }
        let nothing = match listing.is_empty() {
            true => session.explain_nothing("live message matches", self.topic.as_deref()).await?,
            false => String::new(),
        };
        listing.finish(more, &nothing)?;
        Ok(Exit::Fine)
    }

    async fn topics(&self, session: &Session) -> Result<Vec<String>, Error> {
        if let Some(topic) = &self.topic {
            return Ok(vec![topic.clone()]);
        }
        let topics = session.admin.topics().await?.into_iter().filter(|topic| topic.live.count > 0);
        Ok(topics.map(|topic| topic.topic.to_string()).collect())
    }

    /// Lists those of a topic; returns whether there are more than were listed.
    async fn list(&self, topic: &str, session: &Session, listing: &mut Listing<LiveRow>) -> Result<bool, Error> {
        let (filter, mut after) = (self.filter(topic), None);
        loop {
            let wanted = listing.wanted(MESSAGES_PER_PAGE);
            let page = session.admin.live_messages(&filter, after.as_ref(), wanted).await?;
            let has_payload = self.payloads;
            listing.push(page.items.into_iter().map(|message| LiveRow { message, has_payload }))?;
            after = page.next;
            if after.is_none() || listing.is_full() {
                return Ok(after.is_some());
            }
        }
    }

    fn filter(&self, topic: &str) -> LiveFilter {
        let mut filter = LiveFilter::of(topic);
        if let Some(state) = self.state {
            filter = filter.state(state.into());
        }
        if let Some(key) = &self.key {
            filter = filter.key(key.as_str());
        }
        if let Some(kind) = &self.kind {
            filter = filter.kind(kind.as_str());
        }
        if let Some(Header { name, value }) = &self.header {
            filter = filter.header(name.as_str(), value.as_str());
        }
        filter
    }
}
