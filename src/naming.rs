//! The names of the tables: their schema and prefix.

use std::fmt;

use crate::limits::IDENTIFIER_CHARS_MAX;

/// Schema and prefix of the tables of an outbox or an [inbox](crate::inbox); by default they are `outbox_messages`,
/// `outbox_dead_letters`, `outbox_inbox` and so on, on the search path.
///
/// Set once, in [`OutboxBuilder::tables`](crate::OutboxBuilder::tables). The relay passes them on to its store.
///
/// ```
/// use diesel_outbox::TableNames;
/// let names = TableNames::default().prefix("shop_outbox_")?.schema("events")?;
/// assert_eq!(names.messages(), "events.shop_outbox_messages");
/// assert!(TableNames::default().prefix("shop; DROP TABLE").is_err());
/// # Ok::<_, diesel_outbox::NameError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct TableNames {
    schema: Option<String>,
    prefix: String,
}

impl Default for TableNames {
    fn default() -> Self {
        Self { schema: None, prefix: "outbox_".to_owned() }
    }
}

impl TableNames {
    /// Sets the prefix of all tables.
    ///
    /// # Errors
    /// Returns an error if it is not a plain identifier: statements use names without quotes.
    pub fn prefix(mut self, prefix: impl Into<String>) -> Result<Self, NameError> {
        self.prefix = identifier("prefix", prefix.into())?;
        Ok(self)
    }

    /// Sets the schema (on MySQL and SQLite the database) that holds the tables.
    ///
    /// # Errors
    /// Returns an error if it is not a plain identifier.
    pub fn schema(mut self, schema: impl Into<String>) -> Result<Self, NameError> {
        self.schema = Some(identifier("schema", schema.into())?);
        Ok(self)
    }

    /// The schema, if one is set.
    pub fn schema_name(&self) -> Option<&str> {
        self.schema.as_deref()
    }

    /// The table of live messages, with its schema.
    pub fn messages(&self) -> String {
        self.qualified("messages")
    }

    /// The table of dead letters, with its schema.
    pub fn dead_letters(&self) -> String {
        self.qualified("dead_letters")
    }

    /// The table of an ordered topic's lanes, with its schema.
    pub fn lanes(&self) -> String {
        self.qualified("lanes")
    }

    /// The table of the nodes that share the lanes, with its schema.
    pub fn nodes(&self) -> String {
        self.qualified("nodes")
    }

    /// The table of half messages' marks, with its schema.
    pub fn half_messages(&self) -> String {
        self.qualified("half_messages")
    }

    /// The table of paused topics, with its schema.
    pub fn paused_topics(&self) -> String {
        self.qualified("paused_topics")
    }

    /// The table of sent messages that are kept, with its schema.
    pub fn history(&self) -> String {
        self.qualified("history")
    }

    /// The table of consumers' marks that arrived before their message was settled, with its schema.
    pub fn processed_marks(&self) -> String {
        self.qualified("processed_marks")
    }

    /// The table of what was done through [`Admin`](crate::admin::Admin), with its schema.
    pub fn audit(&self) -> String {
        self.qualified("audit")
    }

    /// The table of an [inbox](crate::inbox), with its schema.
    pub fn inbox(&self) -> String {
        self.qualified("inbox")
    }

    /// A table or index of the outbox, without its schema.
    pub fn unqualified(&self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }

    /// The same with its schema.
    pub(crate) fn qualified(&self, name: &str) -> String {
        match &self.schema {
            Some(schema) => format!("{schema}.{}{name}", self.prefix),
            None => self.unqualified(name),
        }
    }
}

fn identifier(what: &'static str, name: String) -> Result<String, NameError> {
    let starts_well = name.starts_with(|first: char| first.is_ascii_lowercase() || first == '_');
    let rest_is_plain = name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
    if starts_well && rest_is_plain && name.len() <= IDENTIFIER_CHARS_MAX {
        Ok(name)
    } else {
        Err(NameError { what, name })
    }
}

/// A prefix or schema that cannot be used in a statement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NameError {
    what: &'static str,
    name: String,
}

impl std::error::Error for NameError {}

impl fmt::Display for NameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "the table {} {:?} is not a plain identifier: use 1 to {IDENTIFIER_CHARS_MAX} of a-z, 0-9 and _, not starting with a digit",
            self.what, self.name
        )
    }
}
