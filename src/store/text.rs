//! SQL texts: how a page writes each statement for every database, and the text that one database gets.

// Each database uses a part of it.
#![cfg_attr(not(all(feature = "postgres", feature = "mysql", feature = "sqlite")), allow(dead_code))]

use std::borrow::Cow;
use std::sync::Arc;

use super::schema::{IndexNaming, named};
use crate::naming::TableNames;
use crate::planted::{Mistake, planted};

/// How one database writes its statements.
#[derive(Debug)]
pub struct Words {
    /// The name that marks its texts on a page.
    pub(crate) database: &'static str,
    /// The name of its store, for `Debug`.
    pub(crate) store: &'static str,
    pub(crate) indexes: IndexNaming,
    pub(crate) placeholders: Placeholders,
}

/// How a database writes a placeholder. A page may number them for every database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Placeholders {
    /// `$1`
    Dollars,
    /// `?1`
    Numbers,
    /// `?`, by order alone: a value that is used twice is bound twice.
    Places,
}

impl Placeholders {
    /// The placeholder of this number, from 1.
    pub(crate) fn of(self, number: usize) -> String {
        match self {
            Self::Dollars => format!("${number}"),
            Self::Numbers => format!("?{number}"),
            Self::Places => "?".to_owned(),
        }
    }
}

/// A named statement, with the table names of one outbox. Mostly it is one text; a database that needs several runs them one after the
/// other. It has none where a database does not need the statement.
#[derive(Debug, Clone)]
pub struct Text(Arc<[Step]>);

#[derive(Debug)]
pub struct Step {
    pub(crate) sql: String,
    /// Which binds the text takes, in order. None: all of them as they come, because the text does not number them.
    pub(crate) binds: Option<Vec<usize>>,
    /// How many columns of a JSON group the text reads.
    pub(crate) columns: usize,
}

impl Text {
    pub(crate) fn steps(&self) -> &[Step] {
        &self.0
    }

    /// The only text of most statements.
    pub(crate) fn first(&self) -> &Step {
        &self.0[0]
    }

    /// This text, with binds as they come.
    pub(crate) fn plain(sql: impl Into<String>) -> Self {
        Self([Step { sql: sql.into(), binds: None, columns: 0 }].into())
    }
}

impl From<&str> for Text {
    fn from(sql: &str) -> Self {
        Self::plain(sql)
    }
}

impl Step {
    fn new(sql: String, placeholders: Placeholders) -> Self {
        let columns = numbers(&sql, "'$[").max().map_or(0, |last| last + 1);
        let mark = if placeholders == Placeholders::Dollars { "$" } else { "?" };
        let named: Vec<usize> = numbers(&sql, mark).filter_map(|number| number.checked_sub(1)).collect();
        let Some(last) = named.iter().copied().max() else { return Self { sql, binds: None, columns } };
        match placeholders {
            Placeholders::Places => Self { sql: unnumbered(&sql), binds: Some(named), columns },
            Placeholders::Dollars | Placeholders::Numbers => Self { binds: Some((0..=last).collect()), sql, columns },
        }
    }
}

/// The numbers that follow `mark` directly.
fn numbers(sql: &str, mark: &str) -> impl Iterator<Item = usize> {
    sql.split(mark).skip(1).filter_map(|behind| {
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
pub(crate) struct Writer<'n> {
    pub(crate) words: &'static Words,
    pub(crate) names: &'n TableNames,
    /// Parts that several pages use: a name in braces, and its text. A text may contain a later part.
    pub(crate) parts: Vec<(&'static str, &'static str)>,
}

impl Writer<'_> {
    /// The statement of this name; `of_page` are the parts of its page.
    pub(crate) fn text(&self, name: &str, steps: &[&str], of_page: &[(&str, &str)]) -> Text {
        let step = |sql: &&str| {
            let parts = of_page.iter().chain(&self.parts);
            let sql = parts.fold((*sql).to_owned(), |sql, (part, text)| sql.replace(part, text));
            let sql = if self.words.database == "postgres" { mistaken(name, &sql) } else { sql.into() };
            // The lines of a page are indented.
            let lines: Vec<&str> = sql.trim().lines().map(str::trim).collect();
            Step::new(named(&lines.join("\n"), self.names, self.words.indexes), self.words.placeholders)
        };
        Text(steps.iter().map(step).collect())
    }
}

/// Mistakes that can be planted: in which PostgreSQL statement, and which text is replaced by which.
pub(crate) const MISTAKES: &[(&str, Mistake, [&str; 2])] = &[
    ("claim", Mistake::ClaimUnlocked, ["FOR UPDATE SKIP LOCKED", ""]),
    ("dead", Mistake::DeadLetterNotKept, ["SELECT * FROM gone ON", "SELECT * FROM gone WHERE false ON"]),
    ("settle", Mistake::SettleById, [" AND m.message_id = k.message_id", ""]),
    ("settle_waiting", Mistake::SettleById, [" AND m.message_id = k.message_id", ""]),
    ("redrive", Mistake::RedriveLosesRow, ["to_lane < 0", "false"]),
];

/// The statement, with the planted mistake if one is chosen for it.
fn mistaken<'s>(name: &str, sql: &'s str) -> Cow<'s, str> {
    match MISTAKES.iter().find(|(of, mistake, _)| *of == name && planted(*mistake)) {
        Some((_, _, [right, wrong])) => Cow::Owned(sql.replace(right, wrong)),
        None => Cow::Borrowed(sql),
    }
}

/// Declares a page of named statements: the versions of all databases, one below the other. A part that several of them use comes first
/// (`@name`). Lines of a text may be indented.
macro_rules! statements {
    (
        $(#[$about:meta])*
        $page:ident
        $(@$part:ident { $($of:ident: $sql:expr;)+ })*
        $($(#[$what:meta])* $name:ident { $($database:ident: $($text:expr),+;)+ })+
    ) => {
        $(#[$about])*
        #[derive(Debug)]
        pub(crate) struct $page {
            $($(#[$what])* pub(crate) $name: $crate::store::text::Text,)+
        }

        impl $page {
            pub(crate) fn new(writer: &$crate::store::text::Writer<'_>) -> Self {
                let database = writer.words.database;
                let parts: &[(&str, &str)] = &[$((
                    concat!("{", stringify!($part), "}"),
                    match database { $(stringify!($of) => $sql,)+ _ => "" },
                ),)*];
                Self {
                    $($name: match database {
                        $(stringify!($database) => writer.text(stringify!($name), &[$(&$text[..]),+], parts),)+
                        _ => writer.text(stringify!($name), &[], parts),
                    },)+
                }
            }
        }
    };
}

pub(crate) use statements;
