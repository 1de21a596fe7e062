use axum::extract::{Form, State};
use serde::Deserialize;

use super::required;
use crate::failure::Failure;
use crate::pages::Answer;
use crate::state::Shared;
use crate::visit::Visit;

#[derive(Debug, Deserialize)]
pub(crate) struct Given {
    id: String,
    reason: String,
}

/// The row of a parked record.
pub(crate) fn parse_row(id: &str) -> Result<i64, Failure> {
    id.parse().map_err(|_| Failure::bad(format!("{id:?} is no row of a parked record.")))
}

pub(crate) async fn release(visit: Visit, State(shared): State<Shared>, Form(given): Form<Given>) -> Answer {
    shared.writer(&visit, required(&given.reason)?).release_parked(parse_row(&given.id)?).await?;
    Ok(visit.go(visit.to("/parked"), "released"))
}

pub(crate) async fn discard(visit: Visit, State(shared): State<Shared>, Form(given): Form<Given>) -> Answer {
    shared.writer(&visit, required(&given.reason)?).discard_parked(parse_row(&given.id)?).await?;
    Ok(visit.go(visit.to("/parked"), "discarded"))
}
