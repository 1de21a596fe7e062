//! The database as an operator sets it up.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

/// The migrations of the outbox, and of its consumer.
const MIGRATIONS: [&str; 3] = ["outbox/postgres", "inbox/postgres", "consumer/postgres"];

/// A table of the application, which the handler writes.
const ACCOUNTS: &str = "CREATE TABLE accounts (account bytea PRIMARY KEY, events bigint NOT NULL);\n";

/// The tables, as the migrations make them, and the application's.
pub(crate) fn migrations() -> Result<String> {
    let mut texts = ACCOUNTS.to_owned();
    for folder in MIGRATIONS {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../migrations").join(folder);
        let entries = fs::read_dir(&folder).context("list the migrations")?;
        let mut folders = entries.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>>>()?;
        folders.sort();
        for folder in folders {
            texts += &fs::read_to_string(folder.join("up.sql")).context("read a migration")?;
        }
    }
    Ok(texts)
}

/// The roles of the application: its own, one that may only listen, and the consumer's.
pub(crate) fn roles(password: &str) -> String {
    format!(
        "CREATE ROLE shop LOGIN PASSWORD '{password}';
         CREATE ROLE shop_notices LOGIN PASSWORD '{password}';
         CREATE ROLE billing LOGIN PASSWORD '{password}';
         GRANT CREATE, USAGE ON SCHEMA public TO shop, billing;"
    )
}

/// The rights that the relay and the consumer need, whatever a fault took away.
pub(crate) const RIGHTS: &str = "
    GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO shop;
    GRANT USAGE ON ALL SEQUENCES IN SCHEMA public TO shop;
    ALTER ROLE shop_notices LOGIN;
    ALTER ROLE billing LOGIN;
    GRANT SELECT, INSERT, UPDATE, DELETE ON outbox_consumer_offsets, outbox_parked, accounts TO billing;
    ALTER TABLE outbox_inbox OWNER TO billing;
    ALTER TABLE outbox_inbox_default OWNER TO billing;
    ALTER TABLE outbox_inbox_undated OWNER TO billing;
    ALTER TABLE outbox_inbox_consumers OWNER TO billing;
    ALTER SEQUENCE outbox_inbox_start OWNER TO billing;
    ALTER TABLE outbox_history OWNER TO shop;
    SELECT format('ALTER TABLE %s OWNER TO shop', inhrelid::regclass) FROM pg_inherits
    WHERE inhparent = 'outbox_history'::regclass
    \\gexec
";

/// What faults leave behind in the tables.
pub(crate) const CLEAN: &str = "
    DELETE FROM outbox_paused_topics;
    DELETE FROM outbox_dead_letters;
    DELETE FROM outbox_parked;
    DELETE FROM outbox_nodes WHERE expires_at > now() + interval '10 minutes';
    UPDATE outbox_lanes SET owner = NULL, expires_at = 'epoch', quiet_until = 'epoch'
    WHERE expires_at > now() + interval '10 minutes';
";
