//! The tables of a consumer, and those of its inbox.

use diesel::connection::Connection;

use super::error::ConsumerStartError;
use super::options::Options;
#[cfg(feature = "async")]
use crate::enqueue::AsyncOutboxBackend;
use crate::enqueue::OutboxBackend;
use crate::migrations::{EmbeddedMigrations, Migrations};

pub(super) fn migrate<C>(options: &Options, conn: &mut C) -> Result<Vec<String>, ConsumerStartError>
where
    C: Connection,
    C::Backend: OutboxBackend<C> + EmbeddedMigrations,
{
    let inbox = options.build_inbox()?;
    let mut ran = crate::outbox::migrate::migrate(&Migrations::consumer(options.tables.clone()), conn)?;
    if let Some(inbox) = inbox {
        ran.extend(inbox.migrate(conn)?);
    }
    Ok(ran)
}

#[cfg(feature = "async")]
pub(super) async fn migrate_async<C>(options: &Options, conn: &mut C) -> Result<Vec<String>, ConsumerStartError>
where
    C: diesel_async::AsyncConnection,
    C::Backend: AsyncOutboxBackend<C> + EmbeddedMigrations,
{
    let (inbox, tables) = (options.build_inbox()?, Migrations::consumer(options.tables.clone()));
    let mut ran = crate::outbox::migrate_async::migrate_async(&tables, conn).await?;
    if let Some(inbox) = inbox {
        ran.extend(inbox.migrate_async(conn).await?);
    }
    Ok(ran)
}
