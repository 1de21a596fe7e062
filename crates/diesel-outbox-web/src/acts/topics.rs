use axum::extract::{Form, State};
use serde::Deserialize;

use super::required;
use crate::pages::Answer;
use crate::state::Shared;
use crate::visit::Visit;

#[derive(Debug, Deserialize)]
pub(crate) struct Given {
    topic: String,
    reason: String,
}

pub(crate) async fn pause(visit: Visit, State(shared): State<Shared>, Form(given): Form<Given>) -> Answer {
    shared.writer(&visit, required(&given.reason)?).pause(&given.topic).await?;
    Ok(visit.go(visit.to("/topics"), "paused"))
}

pub(crate) async fn resume(visit: Visit, State(shared): State<Shared>, Form(given): Form<Given>) -> Answer {
    shared.writer(&visit, required(&given.reason)?).resume(&given.topic).await?;
    Ok(visit.go(visit.to("/topics"), "resumed"))
}
