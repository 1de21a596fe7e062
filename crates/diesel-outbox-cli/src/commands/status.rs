use diesel_outbox::admin::TopicStatus;
use serde::Serialize;

use super::topics::TopicRow;
use crate::error::{Error, hint_of};
use crate::exit::Exit;
use crate::output::{Document, Page, instant};
use crate::session::Session;

/// The outbox at a glance.
#[derive(Debug, Serialize)]
struct Status {
    database: String,
    /// The time of the database's clock, RFC 3339.
    database_time: String,
    tables: String,
    /// What is wrong with the tables.
    table_problems: Vec<String>,
    live: usize,
    due: usize,
    dead: usize,
    /// Whether a topic has more than were counted.
    is_bounded: bool,
    topics: Vec<TopicRow>,
    #[serde(skip)]
    hint: Option<&'static str>,
}

pub(crate) async fn run(session: &Session) -> Result<Exit, Error> {
    let problems = session.admin.check_tables().await?;
    let topics = session.admin.topics().await?;
    let sum = |count: fn(&TopicStatus) -> usize| topics.iter().map(count).sum();
    let status = Status {
        database: session.place.clone(),
        database_time: instant(session.admin.now().await?),
        tables: session.outbox.tables().messages(),
        hint: problems.iter().find_map(hint_of),
        table_problems: problems.iter().map(ToString::to_string).collect(),
        live: sum(|topic| topic.live.count),
        due: sum(|topic| topic.due.count),
        dead: sum(|topic| topic.dead.count),
        is_bounded: topics.iter().any(|topic| topic.live.more || topic.due.more || topic.dead.more),
        topics: topics.into_iter().map(TopicRow).collect(),
    };
    session.output.document(&status)?;
    Ok(Exit::Fine)
}

impl Document for Status {
    fn show(&self, page: &mut Page) {
        page.field("database", &self.database);
        page.field("database time", &self.database_time);
        page.field("tables", format!("{} and the others beside it", self.tables));
        for problem in &self.table_problems {
            page.field("problem", problem);
        }
        page.field_of("hint", self.hint);
        let at_least = if self.is_bounded { "at least " } else { "" };
        for (name, count) in [("live", self.live), ("due", self.due), ("dead", self.dead)] {
            page.field(name, format!("{at_least}{count}"));
        }
        if !self.topics.is_empty() {
            page.gap();
            page.rows(&self.topics);
        }
    }
}
