use axum::extract::{Form, State};
use serde::Deserialize;

use super::required;
use crate::pages::Answer;
use crate::pages::parked::parse_row;
use crate::state::Shared;
use crate::visit::Visit;

#[derive(Debug, Deserialize)]
pub(crate) struct Given {
    id: String,
    reason: String,
}

pub(crate) async fn release(visit: Visit, State(shared): State<Shared>, Form(given): Form<Given>) -> Answer {
    shared.writer(&visit, required(&given.reason)?).release_parked(parse_row(&given.id)?).await?;
    Ok(visit.go(visit.to("/parked"), "released"))
}

pub(crate) async fn discard(visit: Visit, State(shared): State<Shared>, Form(given): Form<Given>) -> Answer {
    shared.writer(&visit, required(&given.reason)?).discard_parked(parse_row(&given.id)?).await?;
    Ok(visit.go(visit.to("/parked"), "discarded"))
}
