//! Who may do what. Every request passes [`guard`](crate::guard), and each route says in one table which rights it
//! needs.

pub(crate) mod headers;
pub(crate) mod origin;
mod right;

pub use self::right::{Right, Rights};

use std::sync::Arc;

use axum::http::request::Parts;

/// Somebody who may use the dashboard, and what they may do. Returned by the function that you give to
/// [`Dashboard::new`](crate::Dashboard::new).
///
/// ```
/// use diesel_outbox_web::{Access, Right, Rights};
/// let operator = Access::new("alice", Rights::all().without(Right::Purge));
/// assert!(operator.rights.has(Right::Redrive) && !operator.rights.has(Right::Purge));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Access {
    /// Their name, which the audit records.
    pub actor: Arc<str>,
    /// What they may do.
    pub rights: Rights,
}

impl Access {
    /// Somebody with these rights.
    pub fn new(actor: impl Into<Arc<str>>, rights: Rights) -> Self {
        Self { actor: actor.into(), rights }
    }
}

/// The application's decision.
pub(crate) type Decide = dyn Fn(&Parts) -> Option<Access> + Send + Sync;
