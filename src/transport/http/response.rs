use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use reqwest::Response;

/// A receiver's answer, as far as it was read.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct HttpResponse<'a> {
    /// The status.
    pub status: u16,
    /// The body, up to the given limit.
    pub body: &'a [u8],
    /// Whether that is all of it.
    pub is_complete: bool,
}

/// What counts as success.
#[derive(Clone)]
pub(super) enum Success {
    Statuses(BTreeSet<u16>),
    /// With at most this many bytes of the body.
    Predicate(usize, Arc<dyn Fn(&HttpResponse<'_>) -> bool + Send + Sync>),
}

impl Success {
    /// Whether an answer is a success. Reads no more of it than the rule needs: a status alone is enough, even if the
    /// body never ends.
    pub(super) async fn accepts(&self, response: &mut Response) -> Result<bool, reqwest::Error> {
        let status = response.status().as_u16();
        match self {
            Self::Statuses(statuses) => Ok(statuses.contains(&status)),
            Self::Predicate(bytes_max, is_success) => {
                let (body, is_complete) = read(response, *bytes_max).await?;
                Ok(is_success(&HttpResponse { status, body: &body, is_complete }))
            }
        }
    }
}

async fn read(response: &mut Response, bytes_max: usize) -> Result<(Vec<u8>, bool), reqwest::Error> {
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await? {
        let room = bytes_max - body.len();
        body.extend_from_slice(&chunk[..chunk.len().min(room)]);
        if chunk.len() > room {
            return Ok((body, false));
        }
    }
    Ok((body, true))
}

/// Reads the rest of an answer, so that its connection can be used again. Stops if the rest is too long.
pub(super) async fn drain(mut response: Response, bytes_max: usize) {
    let mut bytes = 0_usize;
    // An error here means that the connection is gone; nothing else depends on it.
    while let Ok(Some(chunk)) = response.chunk().await {
        bytes += chunk.len();
        if bytes > bytes_max {
            return;
        }
    }
}

impl fmt::Debug for Success {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Statuses(statuses) => f.debug_set().entries(statuses).finish(),
            Self::Predicate(bytes_max, _) => f.debug_tuple("Predicate").field(bytes_max).finish(),
        }
    }
}
