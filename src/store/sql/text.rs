//! SQL texts: how a file writes each statement for every database, and the text that one database gets.

// Each database uses a part of it.
#![cfg_attr(not(all(feature = "postgres", feature = "mysql", feature = "sqlite")), allow(dead_code))]

use std::borrow::Cow;
use std::sync::Arc;

use crate::injected_bugs::{InjectedBug, is_injected};
use crate::naming::TableNames;
use crate::store::schema::{IndexNaming, rename_tables};

/// How one database writes its statements.
#[derive(Debug)]
pub struct Syntax {
    /// The name that marks its texts in a file of statements.
    pub(crate) database: &'static str,
    /// The name of its store, for `Debug`.
    pub(crate) store: &'static str,
    pub(crate) indexes: IndexNaming,
    pub(crate) placeholders: Placeholders,
}

/// How a database writes a placeholder. A file of statements may number them for every database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Placeholders {
    /// `$1`
    Dollar,
    /// `?1`
    Numbered,
    /// `?`, by order alone: a value that is used twice is bound twice.
    Positional,
}

impl Placeholders {
    /// The placeholder of this number, from 1.
    pub(crate) fn of(self, number: usize) -> String {
        match self {
            Self::Dollar => format!("${number}"),
            Self::Numbered => format!("?{number}"),
            Self::Positional => "?".to_owned(),
        }
    }
}

/// A named statement, with the table names of one outbox. Usually it is one text; a database that needs several runs them in order.
/// It has none if a database does not need the statement.
#[derive(Debug, Clone)]
pub struct StatementSql(Arc<[Step]>);

#[derive(Debug)]
pub struct Step {
    pub(crate) sql: String,
    /// Which binds the text takes, in order. `None`: all of them in the order given, because the text does not number them.
    pub(crate) binds: Option<Vec<usize>>,
    /// How many columns of a JSON batch the text reads.
    pub(crate) columns: usize,
}

impl StatementSql {
    pub(crate) fn steps(&self) -> &[Step] {
        &self.0
    }

    /// The only text of most statements.
    pub(crate) fn first(&self) -> &Step {
        &self.0[0]
    }

    /// This text, with binds in the order given.
    pub(crate) fn plain(sql: impl Into<String>) -> Self {
        Self([Step { sql: sql.into(), binds: None, columns: 0 }].into())
    }
}

impl From<&str> for StatementSql {
    fn from(sql: &str) -> Self {
        Self::plain(sql)
    }
}

impl Step {
    fn new(sql: String, placeholders: Placeholders) -> Self {
        let columns = numbers(&sql, "'$[").max().map_or(0, |last| last + 1);
        let prefix = if placeholders == Placeholders::Dollar { "$" } else { "?" };
        let named: Vec<usize> = numbers(&sql, prefix).filter_map(|number| number.checked_sub(1)).collect();
        let Some(last) = named.iter().copied().max() else { return Self { sql, binds: None, columns } };
        match placeholders {
            Placeholders::Positional => Self { sql: unnumbered(&sql), binds: Some(named), columns },
            Placeholders::Dollar | Placeholders::Numbered => Self { binds: Some((0..=last).collect()), sql, columns },
        }
    }
}

/// The numbers that directly follow `prefix`.
fn numbers(sql: &str, prefix: &str) -> impl Iterator<Item = usize> {
    sql.split(prefix).skip(1).filter_map(|behind| {
        let end = behind.find(|c: char| !c.is_ascii_digit()).unwrap_or(behind.len());
        behind[..end].parse().ok()
    })
}

fn unnumbered(sql: &str) -> String {
    let mut parts = sql.split('?');
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |sql, part| sql + "?" + part.trim_start_matches(|c: char| c.is_ascii_digit()))
}

/// Writes the statements of one outbox.
pub(crate) struct SqlRenderer<'n> {
    pub(crate) syntax: &'static Syntax,
    pub(crate) names: &'n TableNames,
    /// Parts used in several files: a name in braces, and its text. A text may contain a later part.
    pub(crate) fragments: Vec<(&'static str, &'static str)>,
}

impl SqlRenderer<'_> {
    /// The statement of this name; `own_fragments` are the parts of its file.
    pub(crate) fn render(&self, name: &str, steps: &[&str], own_fragments: &[(&str, &str)]) -> StatementSql {
        let step = |sql: &&str| {
            let fragments = own_fragments.iter().chain(&self.fragments);
            let sql = fragments.fold((*sql).to_owned(), |sql, (name, text)| sql.replace(name, text));
            let sql = if self.syntax.database == "postgres" { with_bug(name, &sql) } else { sql.into() };
            // The lines of a text are indented in the source.
            let lines: Vec<&str> = sql.trim().lines().map(str::trim).collect();
            Step::new(rename_tables(&lines.join("\n"), self.names, self.syntax.indexes), self.syntax.placeholders)
        };
        StatementSql(steps.iter().map(step).collect())
    }
}

/// Bugs that can be injected: in which PostgreSQL statement, and which text is replaced by which.
pub(crate) const INJECTED_BUGS: &[(&str, InjectedBug, [&str; 2])] = &[
    ("claim", InjectedBug::ClaimUnlocked, ["FOR UPDATE SKIP LOCKED", ""]),
    ("dead_letter", InjectedBug::DeadLetterNotKept, ["SELECT * FROM gone ON", "SELECT * FROM gone WHERE false ON"]),
    ("settle", InjectedBug::SettleById, [" AND m.message_id = k.message_id", ""]),
    ("settle_waiting", InjectedBug::SettleById, [" AND m.message_id = k.message_id", ""]),
    ("move_offset", InjectedBug::OffsetNotCompared, ["next_offset = $4", "$4 IS NOT NULL"]),
    ("move_offset_flagged", InjectedBug::OffsetNotCompared, ["next_offset = $4", "$4 IS NOT NULL"]),
    ("redrive", InjectedBug::RedriveLosesRow, ["to_lane < 0", "false"]),
];

/// The statement, with the injected bug if one is chosen for it.
fn with_bug<'s>(name: &str, sql: &'s str) -> Cow<'s, str> {
    match INJECTED_BUGS.iter().find(|(of, bug, _)| *of == name && is_injected(*bug)) {
        Some((_, _, [right, wrong])) => Cow::Owned(sql.replace(right, wrong)),
        None => Cow::Borrowed(sql),
    }
}

/// Declares named statements: the versions of all databases, one below the other. A part that several of them use comes first
/// (`@name`). Lines of a text may be indented.
macro_rules! statements {
    (
        $(#[$about:meta])*
        $set:ident
        $(@$fragment:ident { $($of:ident: $sql:expr;)+ })*
        $($(#[$what:meta])* $name:ident { $($database:ident: $($text:expr),+;)+ })+
    ) => {
        $(#[$about])*
        #[derive(Debug)]
        pub(crate) struct $set {
            $($(#[$what])* pub(crate) $name: $crate::store::sql::text::StatementSql,)+
        }

        impl $set {
            pub(crate) fn new(renderer: &$crate::store::sql::text::SqlRenderer<'_>) -> Self {
                let database = renderer.syntax.database;
                let fragments: &[(&str, &str)] = &[$((
                    concat!("{", stringify!($fragment), "}"),
                    match database { $(stringify!($of) => $sql,)+ _ => "" },
                ),)*];
                Self {
                    $($name: match database {
                        $(stringify!($database) => renderer.render(stringify!($name), &[$(&$text[..]),+], fragments),)+
                        _ => renderer.render(stringify!($name), &[], fragments),
                    },)+
                }
            }
        }
    };
}

pub(crate) use statements;
