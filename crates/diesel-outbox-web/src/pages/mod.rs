//! The pages: each a GET that changes nothing.

pub(crate) mod audit;
pub(crate) mod calendar;
pub(crate) mod dead_letters;
pub(crate) mod edit;
pub(crate) mod history;
pub(crate) mod jobs;
pub(crate) mod lanes;
pub(crate) mod layout;
pub(crate) mod message;
pub(crate) mod messages;
pub(crate) mod overview;
pub(crate) mod parked;
pub(crate) mod parts;
pub(crate) mod preview;
pub(crate) mod topics;
pub(crate) mod verify;

use axum::response::Response;

use crate::failure::Failure;

/// A page, or why there is none.
pub(crate) type Answer = Result<Response, Failure>;
