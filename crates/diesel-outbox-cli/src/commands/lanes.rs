use clap::Args;
use diesel_outbox::relay::LaneStatus;
use serde::Serialize;

use crate::error::Error;
use crate::exit::Exit;
use crate::output::{List, Row, note, optional};
use crate::session::{Session, unknown_topic};

/// Which lanes are shown.
#[derive(Debug, Clone, Args)]
pub(crate) struct LanesArgs {
    /// Show each lane of this topic; by default the ordered topics are listed
    topic: Option<String>,
}

/// An ordered topic of the list.
#[derive(Debug, Serialize)]
struct OrderedTopic {
    topic: String,
    lanes: usize,
    owned: usize,
    /// The relays that share them.
    relays: usize,
}

impl Row for OrderedTopic {
    const HEADINGS: &'static [&'static str] = &["topic", "lanes", "owned", "relays"];

    fn cells(&self) -> Vec<String> {
        vec![self.topic.clone(), self.lanes.to_string(), self.owned.to_string(), self.relays.to_string()]
    }
}

#[derive(Debug, Serialize)]
#[serde(transparent)]
struct LaneRow(LaneStatus);

impl Row for LaneRow {
    const HEADINGS: &'static [&'static str] = &["topic", "lane", "owner"];

    fn cells(&self) -> Vec<String> {
        vec![self.0.topic.to_string(), self.0.lane.to_string(), optional(self.0.owner)]
    }
}

impl LanesArgs {
    pub(crate) async fn run(&self, session: &Session) -> Result<Exit, Error> {
        let topics = session.admin.topics().await?;
        let Some(name) = &self.topic else {
            let mut items = Vec::new();
            for topic in topics.iter().filter(|topic| topic.lanes.is_some()) {
                let lanes = session.admin.lanes(&topic.topic).await?;
                items.push(OrderedTopic {
                    topic: topic.topic.to_string(),
                    lanes: lanes.len(),
                    owned: lanes.iter().filter(|lane| lane.owner.is_some()).count(),
                    relays: lanes.first().map_or(0, |lane| lane.nodes),
                });
            }
            session.output.list(&List { items, more: false }, "no topic is ordered")?;
            return Ok(Exit::Fine);
        };
        if !topics.iter().any(|topic| *topic.topic == **name) {
            return Err(unknown_topic(name, &topics));
        }
        let items: Vec<_> = session.admin.lanes(name).await?.into_iter().map(LaneRow).collect();
        let nothing = format!("topic {name:?} has no lanes: it is not ordered, or no relay has sent from it yet");
        if items.iter().any(|lane| lane.0.owner.is_none()) {
            note("a relay takes a lane without an owner within its poll interval: if none does, none runs");
        }
        session.output.list(&List { items, more: false }, &nothing)?;
        Ok(Exit::Fine)
    }
}
