//! What a command works with.

use diesel_outbox::admin::{Admin, AdminError, TopicStatus};
use diesel_outbox::store::{SchemaProblem, StoreError};
use diesel_outbox::{Outbox, Topic};

use crate::application::Application;
use crate::arguments::Options;
use crate::connect;
use crate::error::Error;
use crate::output::Output;

/// An outbox in a database, the options, and where the answer goes.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) outbox: Outbox,
    pub(crate) admin: Admin,
    pub(crate) options: Options,
    pub(crate) output: Output,
    /// Whether the configuration of the application is known.
    pub(crate) is_configured: bool,
    /// Where the database is, without its password.
    pub(crate) place: String,
}

impl Session {
    pub(crate) fn open(options: &Options, application: &Application) -> Result<Self, Error> {
        let outbox = application.outbox(options)?;
        let (mut admin, place) = match application.own_admin() {
            Some(admin) => (admin.clone(), "the application's connections".to_owned()),
            None => {
                let address = connect::address(options)?;
                (connect::admin(&outbox, &address, options)?, format!("{}: {address}", address.kind()))
            }
        };
        if let Some(lease) = options.lease_duration {
            admin = admin.lease_duration(lease);
        }
        let admin = attributed(admin, options);
        let output = Output::new(options.output);
        Ok(Self { outbox, admin, options: options.clone(), output, is_configured: application.is_known(), place })
    }

    /// Refuses to go on without these tables, or with tables of another version.
    pub(crate) async fn require_tables(&self, needed: &[String]) -> Result<(), Error> {
        match self.problem_of(needed).await? {
            Some(problem) => Err(AdminError::from(StoreError::Schema(problem)).into()),
            None => Ok(()),
        }
    }

    /// The first thing that is wrong with one of these tables.
    pub(crate) async fn problem_of(&self, tables: &[String]) -> Result<Option<SchemaProblem>, Error> {
        let problems = self.admin.check_tables().await?;
        let is_of =
            |problem: &SchemaProblem| table_of(problem).is_some_and(|table| tables.iter().any(|of| of == table));
        Ok(problems.into_iter().find(is_of))
    }

    /// A handle that can write to this topic. That of the application knows its topics; otherwise the database says which there are, and
    /// `was_in_lane` whether the topic was ordered when the message was enqueued.
    pub(crate) async fn admin_of_topic(&self, topic: &str, was_in_lane: Option<bool>) -> Result<Admin, Error> {
        if self.is_configured {
            return Ok(self.admin.clone());
        }
        let topics = self.admin.topics().await?;
        let known = topics.iter().find(|known| &*known.topic == topic).ok_or_else(|| unknown_topic(topic, &topics))?;
        let topic = match known.lanes.filter(|_| was_in_lane.unwrap_or(true)) {
            Some(lanes) => Topic::new(topic).ordered_by_key().lanes(lanes),
            None => Topic::new(topic),
        };
        let outbox = Outbox::builder().topic(topic).tables(self.outbox.tables().clone()).build();
        let outbox = outbox.map_err(|error| Error::failed(error.to_string()))?;
        let admin = connect::admin(&outbox, &connect::address(&self.options)?, &self.options)?;
        Ok(attributed(admin, &self.options))
    }

    /// What to say where a filter of a topic matches nothing: perhaps the topic is misspelt. An error if the application knows better.
    pub(crate) async fn explain_nothing(&self, what: &str, topic: Option<&str>) -> Result<String, Error> {
        let nothing = format!("no {what}");
        let Some(topic) = topic else { return Ok(nothing) };
        let topics = self.admin.topics().await?;
        if topics.iter().any(|known| &*known.topic == topic) {
            return Ok(nothing);
        }
        let known: Vec<String> = topics.iter().map(|known| known.topic.to_string()).collect();
        match self.is_configured {
            true => Err(Error::failed(format!("topic {topic:?} is not configured: use one of {known:?}"))),
            false => Ok(format!("{nothing}; the tables hold nothing of a topic {topic:?}, but of {known:?}")),
        }
    }
}

/// A topic that nobody knows.
pub(crate) fn unknown_topic(topic: &str, known: &[TopicStatus]) -> Error {
    let known: Vec<&str> = known.iter().map(|known| &*known.topic).collect();
    Error::failed(format!("there is no topic {topic:?}: use one of {known:?}"))
}

/// The one who acts: who was given, or else the user of the operating system.
pub(crate) fn actor(options: &Options) -> Option<String> {
    options.actor.clone().or_else(|| whoami::username().ok())
}

/// The handle that acts for them.
fn attributed(admin: Admin, options: &Options) -> Admin {
    let admin = match actor(options) {
        Some(actor) => admin.acting_as(actor),
        // Without a name, what is done is recorded as nobody's.
        None => admin,
    };
    match &options.reason {
        Some(reason) => admin.because(reason),
        None => admin,
    }
}

/// The table that a problem is about.
pub(crate) fn table_of(problem: &SchemaProblem) -> Option<&str> {
    match problem {
        SchemaProblem::Missing { table }
        | SchemaProblem::NotMigrated { table, .. }
        | SchemaProblem::Version { table, .. } => Some(table),
        _ => None,
    }
}
