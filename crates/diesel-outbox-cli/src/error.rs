//! Errors, and what to do about them on the command line.

use std::io::{self, ErrorKind};

use diesel_outbox::NameError;
use diesel_outbox::admin::AdminError;
use diesel_outbox::migrations::MigrateError;
use diesel_outbox::store::{SchemaProblem, StoreError};
use diesel_outbox_verify::VerifyError;

use crate::exit::Exit;

/// Why a command failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// The arguments do not fit together, or lack something.
    #[error("{0}")]
    Usage(String),
    /// It cannot be done.
    #[error("{0}")]
    Failed(String),
    #[error(transparent)]
    Admin(#[from] AdminError),
    #[error(transparent)]
    Migrate(#[from] MigrateError),
    #[error(transparent)]
    Verify(VerifyError),
    /// The answer could not be written.
    #[error("the answer could not be written: {0}")]
    Output(io::Error),
    /// A file could not be read or written.
    #[error("{what}: {error}")]
    File { what: String, error: io::Error },
}

impl Error {
    pub(crate) fn usage(text: impl Into<String>) -> Self {
        Self::Usage(text.into())
    }

    pub(crate) fn failed(text: impl Into<String>) -> Self {
        Self::Failed(text.into())
    }

    /// How the program ends by it.
    pub(crate) fn exit(&self) -> Exit {
        match self {
            Self::Usage(_) => Exit::Usage,
            // The reader has seen enough, as `head` has.
            Self::Output(error) if error.kind() == ErrorKind::BrokenPipe => Exit::Fine,
            Self::Verify(VerifyError::EmptyPeriod) => Exit::Usage,
            Self::Failed(_)
            | Self::Admin(_)
            | Self::Migrate(_)
            | Self::Verify(_)
            | Self::Output(_)
            | Self::File { .. } => Exit::Failed,
        }
    }

    /// What to do about it by a command, where the error speaks of the library.
    pub(crate) fn hint(&self) -> Option<String> {
        match self {
            Self::Admin(AdminError::Store(StoreError::Schema(problem))) => hint_of(problem).map(str::to_owned),
            Self::Admin(AdminError::NoFilter) => {
                Some("give a filter, or --all if you mean every dead letter".to_owned())
            }
            Self::Admin(AdminError::ReportsNotExpected { .. }) => {
                Some("the program `outbox` does not know the topic's settings: give --older-than".to_owned())
            }
            _ => None,
        }
    }
}

impl From<VerifyError> for Error {
    fn from(error: VerifyError) -> Self {
        match error {
            // With the hints of other commands.
            VerifyError::Admin(error) => Self::Admin(error),
            error => Self::Verify(error),
        }
    }
}

impl From<StoreError> for Error {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Url(problem) => Self::Usage(problem),
            error => Self::Admin(error.into()),
        }
    }
}

impl From<NameError> for Error {
    fn from(error: NameError) -> Self {
        Self::Usage(error.to_string())
    }
}

/// What was read, or `None` if a migration creates its table that was not run.
pub(crate) fn if_migrated<T>(read: Result<T, AdminError>) -> Result<Option<T>, Error> {
    match read {
        Ok(value) => Ok(Some(value)),
        Err(AdminError::Store(StoreError::Schema(
            SchemaProblem::Missing { .. } | SchemaProblem::NotMigrated { .. },
        ))) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// What to do about tables that are not right.
pub(crate) fn hint_of(problem: &SchemaProblem) -> Option<&'static str> {
    match problem {
        SchemaProblem::NotMigrated { migration, .. } if migration.starts_with("0000consumer") => {
            Some("if the consumer's tables have other names, give --schema and --prefix")
        }
        SchemaProblem::Missing { .. } | SchemaProblem::NotMigrated { .. } => {
            Some("run `outbox migrate up`; or, if the tables have other names, give --schema and --prefix")
        }
        SchemaProblem::Version { .. } => {
            Some("`outbox migrate list` shows what has run; use the `outbox` of the same release")
        }
        _ => None,
    }
}
