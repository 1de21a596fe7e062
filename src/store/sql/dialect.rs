//! Statements as the stores run them: a fixed text with binds.

// Each database uses a part of it.
#![cfg_attr(not(all(feature = "postgres", feature = "mysql", feature = "sqlite")), allow(dead_code, unused_imports))]

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use diesel::QueryResult;
use diesel::RunQueryDsl;
use diesel::backend::{Backend, DieselReserveSpecialization};
use diesel::expression::QueryMetadata;
use diesel::query_builder::{AstPass, Query, QueryFragment, QueryId};
use diesel::sql_types::Untyped;
use serde_json::Value;

use super::text::{StatementSql, Step, Syntax};

/// A database: the syntax of its statements and the values that they bind.
pub trait Dialect: Backend + DieselReserveSpecialization + QueryMetadata<Untyped> + Sized + 'static {
    /// How its statements are written.
    const SYNTAX: &'static Syntax;

    /// Whether a call runs to its end even if nobody waits for it.
    const SPAWNS_CALLS: bool = false;

    /// A value that no other database binds.
    type Native: fmt::Debug + Clone + Send + Sync + 'static;

    /// What its store holds in addition to the common fields.
    type Extra: fmt::Debug + Send + Sync + 'static;

    /// Binds a value whose placeholder is already in the text.
    fn bind<'b>(bind: &'b Bind<Self::Native>, out: &mut AstPass<'_, 'b, Self>) -> QueryResult<()>;
}

/// One bound value.
#[derive(Debug, Clone)]
pub enum Bind<Native> {
    Text(Arc<str>),
    Number(i64),
    OptionalText(Option<String>),
    OptionalBytes(Option<Vec<u8>>),
    Native(Native),
}

/// What a database's statements bind.
pub(crate) type BindOf<DB> = Bind<<DB as Dialect>::Native>;

impl<Native> Bind<Native> {
    pub(crate) fn text(text: &Arc<str>) -> Self {
        Self::Text(Arc::clone(text))
    }

    /// A JSON array: a batch, for databases without arrays.
    pub(crate) fn json(rows: impl Iterator<Item = Value>) -> Self {
        Self::Text(Value::Array(rows.collect()).to_string().into())
    }

    /// The bound of a LIMIT.
    pub(crate) fn limit(rows_max: usize) -> Self {
        Self::Number(i64::try_from(rows_max).unwrap_or(i64::MAX))
    }
}

/// One statement: a text that is the same in every call, so that the driver caches it by that text, and binds.
///
/// Not `sql_query`, which is never cached: each call would prepare it again, with a round trip of its own.
pub struct Statement<DB: Dialect> {
    text: StatementSql,
    step: usize,
    binds: Vec<BindOf<DB>>,
}

impl<DB: Dialect> Statement<DB> {
    pub(crate) fn new(text: &StatementSql, binds: impl Into<Vec<BindOf<DB>>>) -> Self {
        Self::step(text, 0, binds)
    }

    /// All texts from this one on, each with its binds.
    pub(crate) fn steps_from(text: &StatementSql, first: usize, binds: impl Fn(&Step) -> Vec<BindOf<DB>>) -> Vec<Self> {
        let steps = text.steps().iter().enumerate().skip(first);
        steps.map(|(at, step)| Self::step(text, at, binds(step))).collect()
    }

    /// One of several texts.
    pub(crate) fn step(text: &StatementSql, step: usize, binds: impl Into<Vec<BindOf<DB>>>) -> Self {
        Self { text: text.clone(), step, binds: binds.into() }
    }
}

impl<DB: Dialect> QueryFragment<DB> for Statement<DB> {
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, DB>) -> QueryResult<()> {
        let step = &self.text.steps()[self.step];
        out.push_sql(&step.sql);
        match &step.binds {
            None => self.binds.iter().try_for_each(|bind| DB::bind(bind, &mut out)),
            Some(places) => places.iter().try_for_each(|place| DB::bind(&self.binds[*place], &mut out)),
        }
    }
}

impl<DB: Dialect> QueryId for Statement<DB> {
    type QueryId = ();
    // One type has many texts, so the text is the cache key.
    const HAS_STATIC_QUERY_ID: bool = false;
}

impl<DB: Dialect> Query for Statement<DB> {
    type SqlType = Untyped;
}

impl<DB: Dialect, Conn> RunQueryDsl<Conn> for Statement<DB> {}

// Binds hold keys and error texts of the application.
impl<DB: Dialect> fmt::Debug for Statement<DB> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = self.text.steps().get(self.step).map(|step| &step.sql);
        f.debug_struct("Statement").field("text", &text).field("binds", &self.binds.len()).finish()
    }
}

/// A count that a statement returned.
pub(crate) fn count(rows: i64) -> usize {
    usize::try_from(rows).unwrap_or(0)
}

/// Whole microseconds, the unit of durations in statements.
pub(crate) fn micros(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)
}
