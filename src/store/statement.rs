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

/// A backend with the values that its store binds.
pub trait Dialect: Backend + DieselReserveSpecialization + QueryMetadata<Untyped> + Sized + 'static {
    /// One bound value.
    type Bind: fmt::Debug + Send + Sync + 'static;

    /// Binds it, its placeholder standing in the text already.
    fn bind<'b>(bind: &'b Self::Bind, out: &mut AstPass<'_, 'b, Self>) -> QueryResult<()>;
}

/// One statement: a text that is the same in every call, so that the driver's cache holds it by that text, and binds.
///
/// Not `sql_query`, which is never cached: each call would prepare it again, with a round trip of its own.
pub struct Statement<DB: Dialect> {
    text: Arc<str>,
    binds: Vec<DB::Bind>,
}

impl<DB: Dialect> Statement<DB> {
    pub(crate) fn new(text: &Arc<str>, binds: impl Into<Vec<DB::Bind>>) -> Self {
        Self { text: Arc::clone(text), binds: binds.into() }
    }
}

impl<DB: Dialect> QueryFragment<DB> for Statement<DB> {
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, DB>) -> QueryResult<()> {
        out.push_sql(&self.text);
        self.binds.iter().try_for_each(|bind| DB::bind(bind, &mut out))
    }
}

impl<DB: Dialect> QueryId for Statement<DB> {
    type QueryId = ();
    // The text decides, and one type carries many texts.
    const HAS_STATIC_QUERY_ID: bool = false;
}

impl<DB: Dialect> Query for Statement<DB> {
    type SqlType = Untyped;
}

impl<DB: Dialect, Conn> RunQueryDsl<Conn> for Statement<DB> {}

// Binds hold keys and error texts of the application.
impl<DB: Dialect> fmt::Debug for Statement<DB> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Statement").field("text", &self.text).field("binds", &self.binds.len()).finish()
    }
}

/// What a statement counted.
pub(crate) fn count(rows: i64) -> usize {
    usize::try_from(rows).unwrap_or(0)
}

/// A bound of a statement's LIMIT.
pub(crate) fn limit(rows_max: usize) -> i64 {
    i64::try_from(rows_max).unwrap_or(i64::MAX)
}

/// Whole microseconds, as the statements take times.
pub(crate) fn micros(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)
}
