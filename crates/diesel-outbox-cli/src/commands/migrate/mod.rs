//! The outbox's tables.

mod act;
mod check;
mod connection;
mod list;
mod sql;

use clap::Subcommand;
use diesel_outbox::Outbox;

use self::act::{DownArgs, UpArgs};
use self::connection::MigrationConnection;
use self::sql::SqlArgs;
use crate::application::Application;
use crate::arguments::Options;
use crate::error::Error;
use crate::exit::Exit;
use crate::session::Session;

#[derive(Debug, Clone, Subcommand)]
pub(crate) enum MigrateCommand {
    /// List the migrations, and which have run
    List,
    /// Create or upgrade the tables
    Up(UpArgs),
    /// Revert the last migration: drops its tables with all that is in them
    Down(DownArgs),
    /// Print the SQL of the migrations, to be reviewed or copied
    Sql(SqlArgs),
    /// Look whether every table is there; ends with 3 if one is missing
    Check,
}

impl MigrateCommand {
    pub(crate) async fn run(&self, options: &Options, application: &Application) -> Result<Exit, Error> {
        match self {
            Self::List => list::run(options, application).await,
            Self::Up(args) => args.run(options, application).await,
            Self::Down(args) => args.run(options, application).await,
            Self::Sql(args) => args.run(options, application),
            Self::Check => check::run(&Session::open(options, application)?).await,
        }
    }
}

/// Another connection to the database. The first one says in plain words if it cannot be reached, or refuses the login.
async fn open(options: &Options, application: &Application) -> Result<(Outbox, MigrationConnection), Error> {
    let session = Session::open(options, application)?;
    session.admin.now().await?;
    let conn = MigrationConnection::open(options).await?;
    Ok((session.outbox, conn))
}
