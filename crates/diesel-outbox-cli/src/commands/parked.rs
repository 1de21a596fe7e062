//! Records that consumers have parked.

use clap::{Args, Subcommand};
use diesel_outbox::admin::ParkedRecord;
use diesel_outbox::transport::header;
use serde::{Serialize, Serializer};

use super::acts::Acts;
use super::messages::{Decoded, Shown, without_payload};
use crate::arguments::Limit;
use crate::confirm::confirm;
use crate::error::Error;
use crate::exit::Exit;
use crate::output::{Document, Listing, Page, Row, cut, instant, optional, plural};
use crate::session::Session;

/// Records that one statement reads.
const RECORDS_PER_PAGE: usize = 500;

#[derive(Debug, Clone, Subcommand)]
pub(crate) enum ParkedCommand {
    /// List parked records
    List(ListArgs),
    /// Show one with its payload
    Show(ShowArgs),
    /// Let their consumer process records, each with what is parked of its key, in order
    Release(RecordsArgs),
    /// Remove records, so that nobody processes them
    Discard(RecordsArgs),
}

impl ParkedCommand {
    pub(crate) async fn run(&self, session: &Session) -> Result<Exit, Error> {
        match self {
            Self::List(args) => args.run(session).await,
            Self::Show(args) => args.run(session).await,
            Self::Release(args) => args.release(session).await,
            Self::Discard(args) => args.discard(session).await,
        }
    }
}

/// Which records are listed, in the order in which they were parked.
#[derive(Debug, Clone, Args)]
pub(crate) struct ListArgs {
    /// Of this consumer alone: of Kafka the group
    #[arg(long)]
    consumer: Option<String>,
    #[command(flatten)]
    limit: Limit,
}

/// A record of the list.
struct Parked(ParkedRecord);

impl Serialize for Parked {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        without_payload(&self.0, self.0.payload.as_deref(), serializer)
    }
}

impl Row for Parked {
    const HEADINGS: &'static [&'static str] = &["id", "consumer", "record", "key", "parked", "state", "error"];

    fn cells(&self) -> Vec<String> {
        let record = &self.0;
        vec![
            record.id.to_string(),
            record.consumer.clone(),
            place(record),
            optional(key(record)),
            instant(record.parked_at),
            state(record).to_owned(),
            cut(&record.error),
        ]
    }
}

fn place(record: &ParkedRecord) -> String {
    format!("{}/{}@{}", record.topic, record.partition, record.offset)
}

fn key(record: &ParkedRecord) -> Option<String> {
    record.key.as_deref().map(|key| String::from_utf8_lossy(key).into_owned())
}

fn state(record: &ParkedRecord) -> &'static str {
    match (record.is_released, record.holds_key) {
        (true, _) => "released",
        (false, true) => "holds its key",
        (false, false) => "alone",
    }
}

impl ListArgs {
    async fn run(&self, session: &Session) -> Result<Exit, Error> {
        let (mut listing, mut after) = (Listing::new(session.output, self.limit.max()), None);
        loop {
            let wanted = listing.wanted(RECORDS_PER_PAGE);
            let page = session.admin.parked(self.consumer.as_deref(), after.as_ref(), wanted).await?;
            listing.push(page.items.into_iter().map(Parked))?;
            after = page.next;
            if after.is_none() || listing.is_full() {
                break;
            }
        }
        listing.finish(after.is_some(), "no record is parked")?;
        Ok(Exit::Fine)
    }
}

/// Which record is shown.
#[derive(Debug, Clone, Args)]
pub(crate) struct ShowArgs {
    /// Its row, from the list
    id: i64,
}

impl ShowArgs {
    async fn run(&self, session: &Session) -> Result<Exit, Error> {
        let message = session.admin.find_parked(self.id).await?;
        let kind =
            message.headers.get(header::KIND).and_then(|kind| std::str::from_utf8(kind).ok()).unwrap_or_default();
        let decoded = Decoded::of(&session.admin, &message.topic, kind, message.payload.as_deref());
        session.output.document(&Shown { message, decoded })?;
        Ok(Exit::Fine)
    }
}

impl Document for Shown<ParkedRecord> {
    fn show(&self, page: &mut Page) {
        let record = &self.message;
        page.field("id", record.id);
        page.field("consumer", &record.consumer);
        page.field("record", place(record));
        page.field_of("key", key(record));
        page.field("parked", instant(record.parked_at));
        page.field("state", state(record));
        page.field("tried again", plural(record.replays as usize, false, "time"));
        page.field("error", &record.error);
        for (name, value) in record.headers.iter() {
            page.field("header", format!("{name}: {}", String::from_utf8_lossy(value)));
        }
        self.decoded.show(page);
    }
}

/// Which records.
#[derive(Debug, Clone, Args)]
pub(crate) struct RecordsArgs {
    /// Their rows, from the list
    #[arg(required = true, value_name = "ID")]
    ids: Vec<i64>,
}

impl RecordsArgs {
    async fn release(&self, session: &Session) -> Result<Exit, Error> {
        let mut acts = Acts::new("release_parked", session);
        for &id in &self.ids {
            let done = match session.options.dry_run {
                true => session.admin.find_parked(id).await.map(|_| "would be released"),
                false => session.admin.release_parked(id).await.map(|()| "released"),
            };
            acts.note(id, done, session)?;
        }
        acts.finish(session)
    }

    async fn discard(&self, session: &Session) -> Result<Exit, Error> {
        let mut acts = Acts::new("discard_parked", session);
        if !session.options.dry_run {
            let what = plural(self.ids.len(), false, "parked record");
            confirm(&session.options, &format!("Remove {what} for good"))?;
        }
        for &id in &self.ids {
            let done = match session.options.dry_run {
                true => session.admin.find_parked(id).await.map(|_| "would be removed"),
                false => session.admin.discard_parked(id).await.map(|()| "removed"),
            };
            acts.note(id, done, session)?;
        }
        acts.finish(session)
    }
}
