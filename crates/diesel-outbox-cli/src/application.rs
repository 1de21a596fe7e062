use std::fmt;

use clap::Command;
use diesel_outbox::Outbox;
use diesel_outbox::admin::Admin;

use crate::arguments::Options;
use crate::error::Error;

/// The application whose outbox is operated.
///
/// ```
/// use diesel_outbox::{Outbox, Topic};
/// use diesel_outbox_cli::Application;
///
/// let outbox = Outbox::builder().topic(Topic::new("orders")).build()?;
/// let application = Application::new(&outbox);
/// # let _ = application;
/// # Ok::<_, diesel_outbox::BuildError>(())
/// ```
#[derive(Default)]
pub struct Application {
    outbox: Option<Outbox>,
    admin: Option<Admin>,
    command: Option<Command>,
}

impl Application {
    /// The application with this outbox: its topics, tables and registered message types.
    pub fn new(outbox: &Outbox) -> Self {
        Self { outbox: Some(outbox.clone()), ..Self::default() }
    }

    /// An application of which only the tables are known. Commands take the topics from there, and payloads stay as they are.
    pub fn unknown() -> Self {
        Self::default()
    }

    /// Uses this handle in place of one that is opened for `--database-url`: for connections with TLS, or a pool that is there already.
    /// Only `migrate` still opens a connection of its own.
    #[must_use]
    pub fn admin(mut self, admin: Admin) -> Self {
        self.admin = Some(admin);
        self
    }

    /// The command line of the application as a whole, for `completions`. By default they are those of the program `outbox`.
    #[must_use]
    pub fn command(mut self, command: Command) -> Self {
        self.command = Some(command);
        self
    }

    /// Whether the configuration is known.
    pub(crate) fn is_known(&self) -> bool {
        self.outbox.is_some()
    }

    pub(crate) fn own_admin(&self) -> Option<&Admin> {
        self.admin.as_ref()
    }

    /// The same, with this command line if it has named none.
    pub(crate) fn or_command(self, default: impl FnOnce() -> Command) -> Self {
        Self { command: self.command.or_else(|| Some(default())), ..self }
    }

    pub(crate) fn whole_command(self) -> Command {
        self.command.unwrap_or_default()
    }

    /// The outbox of the application, or one over the tables that the options name.
    pub(crate) fn outbox(&self, options: &Options) -> Result<Outbox, Error> {
        match &self.outbox {
            Some(_) if options.schema.is_some() || options.prefix.is_some() => {
                Err(Error::usage("--schema and --prefix do not apply here: the application names its tables itself"))
            }
            Some(outbox) => Ok(outbox.clone()),
            None => {
                let outbox = Outbox::builder().allow_no_topics().tables(options.table_names()?).build();
                outbox.map_err(|error| Error::failed(error.to_string()))
            }
        }
    }
}

impl fmt::Debug for Application {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Application").field("outbox", &self.outbox).field("admin", &self.admin).finish_non_exhaustive()
    }
}
