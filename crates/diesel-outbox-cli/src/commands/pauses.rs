use clap::Args;

use super::acts::Acts;
use crate::error::Error;
use crate::exit::Exit;
use crate::session::{Session, unknown_topic};

/// Which topics are paused or resumed.
#[derive(Debug, Clone, Args)]
pub(crate) struct PauseArgs {
    /// The topics
    #[arg(required = true, value_name = "TOPIC")]
    topics: Vec<String>,
}

impl PauseArgs {
    pub(crate) async fn pause(&self, session: &Session) -> Result<Exit, Error> {
        let known = session.admin.topics().await?;
        let mut acts = Acts::new("pause", session);
        for name in &self.topics {
            let Some(topic) = known.iter().find(|topic| &*topic.topic == name) else {
                return Err(unknown_topic(name, &known));
            };
            let done = match (topic.paused_since, session.options.dry_run) {
                (Some(_), _) => Ok("was paused already"),
                (None, true) => Ok("would be paused"),
                (None, false) => session.admin.pause(name).await.map(|()| "paused"),
            };
            acts.note(name, done, session)?;
        }
        acts.finish(session)
    }

    pub(crate) async fn resume(&self, session: &Session) -> Result<Exit, Error> {
        let mut acts = Acts::new("resume", session);
        for name in &self.topics {
            let done = match session.options.dry_run {
                true => Ok(match session.admin.paused().await?.iter().any(|(topic, _)| **topic == *name) {
                    true => "would be resumed",
                    false => "is not paused",
                }),
                false => session.admin.resume(name).await.map(|()| "resumed"),
            };
            acts.note(name, done, session)?;
        }
        acts.finish(session)
    }
}
