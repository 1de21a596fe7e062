use std::sync::Arc;

use super::notice_connection::NoticeConnection;
use crate::naming::TableNames;
use crate::store::schema::{IndexNaming, named};

/// Where notices come from, and the statements for them.
#[derive(Debug)]
pub(super) struct NoticeSide {
    pub(super) connection: NoticeConnection,
    pub(super) tell: Arc<str>,
    pub(super) channel: Arc<str>,
}

// The channel has the number of the table in its name and not the schema: it would be too long for the 63 bytes of a name, and
// another one for a process that finds the table by its search path.
const TELL: &str = "
SELECT pg_notify('outbox_lanes_' || 'outbox_lanes'::regclass::oid::text, told) FROM unnest($1) told";

const CHANNEL: &str = "SELECT 'outbox_lanes_' || 'outbox_lanes'::regclass::oid::text";

impl NoticeSide {
    pub(super) fn new(connection: NoticeConnection, names: &TableNames) -> Self {
        let text = |sql: &str| named(sql, names, IndexNaming::ByTable).into();
        Self { connection, tell: text(TELL), channel: text(CHANNEL) }
    }
}
