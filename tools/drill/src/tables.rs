//! The database as an operator sets it up.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

/// The tables, as the migrations make them.
pub(crate) fn migrations() -> Result<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../migrations/outbox/postgres");
    let entries = fs::read_dir(&folder).context("list the migrations")?;
    let mut folders = entries.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>>>()?;
    folders.sort();
    let texts = folders.iter().map(|folder| fs::read_to_string(folder.join("up.sql")).context("read a migration"));
    texts.collect()
}

/// The roles of the application: its own, and one that may only listen.
pub(crate) fn roles(password: &str) -> String {
    format!(
        "CREATE ROLE shop LOGIN PASSWORD '{password}';
         CREATE ROLE shop_notices LOGIN PASSWORD '{password}';
         GRANT CREATE, USAGE ON SCHEMA public TO shop;"
    )
}

/// The rights that the relay needs, whatever a fault took away.
pub(crate) const RIGHTS: &str = "
    GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO shop;
    GRANT USAGE ON ALL SEQUENCES IN SCHEMA public TO shop;
    ALTER ROLE shop_notices LOGIN;
    ALTER TABLE outbox_history OWNER TO shop;
    SELECT format('ALTER TABLE %s OWNER TO shop', inhrelid::regclass) FROM pg_inherits
    WHERE inhparent = 'outbox_history'::regclass
    \\gexec
";

/// What faults leave behind in the tables.
pub(crate) const CLEAN: &str = "
    DELETE FROM outbox_paused_topics;
    DELETE FROM outbox_dead_letters;
    DELETE FROM outbox_nodes WHERE expires_at > now() + interval '10 minutes';
    UPDATE outbox_lanes SET owner = NULL, expires_at = 'epoch', quiet_until = 'epoch'
    WHERE expires_at > now() + interval '10 minutes';
";
