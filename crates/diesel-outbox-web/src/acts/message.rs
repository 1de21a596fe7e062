use axum::extract::{Form, State};
use diesel_outbox::MessageId;
use diesel_outbox::admin::{Admin, SendNowOutcome};
use serde::Deserialize;

use super::required;
use crate::failure::Failure;
use crate::pages::Answer;
use crate::pages::message::parse_id;
use crate::state::Shared;
use crate::visit::{Link, Visit};

#[derive(Debug, Deserialize)]
pub(crate) struct Given {
    id: String,
    reason: String,
}

impl Given {
    /// The handle that acts, and the message.
    fn acting(&self, visit: &Visit, shared: &Shared) -> Result<(Admin, MessageId), Failure> {
        Ok((shared.writer(visit, required(&self.reason)?), parse_id(&self.id)?))
    }

    fn page(&self, visit: &Visit) -> Link {
        visit.to("/message").with("id", &self.id)
    }
}

pub(crate) async fn send_now(visit: Visit, State(shared): State<Shared>, Form(given): Form<Given>) -> Answer {
    let (admin, id) = given.acting(&visit, &shared)?;
    let done = match admin.send_now(id).await? {
        SendNowOutcome::Due => "due",
        _ => "soon",
    };
    // A relay may have sent it before the page is there.
    Ok(visit.go(visit.to("/messages"), done))
}

pub(crate) async fn cancel(visit: Visit, State(shared): State<Shared>, Form(given): Form<Given>) -> Answer {
    let (admin, id) = given.acting(&visit, &shared)?;
    admin.cancel_waiting(id).await?;
    Ok(visit.go(visit.to("/messages"), "cancelled"))
}

pub(crate) async fn redrive(visit: Visit, State(shared): State<Shared>, Form(given): Form<Given>) -> Answer {
    let (admin, id) = given.acting(&visit, &shared)?;
    admin.redrive(id).await?;
    Ok(visit.go(visit.to("/dead-letters"), "redriven"))
}

pub(crate) async fn purge(visit: Visit, State(shared): State<Shared>, Form(given): Form<Given>) -> Answer {
    let (admin, id) = given.acting(&visit, &shared)?;
    admin.purge(id).await?;
    Ok(visit.go(visit.to("/dead-letters"), "purged"))
}

pub(crate) async fn resend(visit: Visit, State(shared): State<Shared>, Form(given): Form<Given>) -> Answer {
    let (admin, id) = given.acting(&visit, &shared)?;
    admin.resend(id).await?;
    Ok(visit.go(given.page(&visit), "resent"))
}
