//! Writes the answer to standard output, and everything else to standard error.

mod page;
mod text;

pub(crate) use page::Page;
pub(crate) use text::{age, bytes, cut, instant, optional, plural, printable};

use std::io::{self, Write as _};

use serde::Serialize;

use crate::arguments::Format;
use crate::error::Error;

/// An answer that is one thing.
pub(crate) trait Document: Serialize {
    /// Writes it for people.
    fn show(&self, page: &mut Page);
}

/// An entry of a list.
pub(crate) trait Row: Serialize {
    /// The headings of its columns.
    const HEADINGS: &'static [&'static str];

    /// What its columns have, in their order.
    fn cells(&self) -> Vec<String>;
}

/// A list that may have been cut.
#[derive(Debug, Serialize)]
pub(crate) struct List<T> {
    pub(crate) items: Vec<T>,
    /// Whether there are more.
    pub(crate) more: bool,
}

/// Where the answer goes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Output {
    pub(crate) format: Format,
}

impl Output {
    pub(crate) fn new(format: Format) -> Self {
        Self { format }
    }

    /// Writes one document.
    pub(crate) fn document(self, document: &impl Document) -> Result<(), Error> {
        match self.format {
            Format::Table => {
                let mut page = Page::new(has_colors(&io::stdout()));
                document.show(&mut page);
                write(&page.into_text())
            }
            Format::Json => write(&json(document, true)?),
            Format::Jsonl => write(&json(document, false)?),
        }
    }

    /// Writes a list, and says where there is nothing in it, or more than it has.
    pub(crate) fn list<T: Row>(self, list: &List<T>, nothing: &str) -> Result<(), Error> {
        match self.format {
            Format::Table if list.items.is_empty() => {}
            Format::Table => {
                let mut page = Page::new(has_colors(&io::stdout()));
                page.rows(&list.items);
                write(&page.into_text())?;
            }
            Format::Json => write(&json(list, true)?)?,
            Format::Jsonl => self.entries(&list.items)?,
        }
        if list.items.is_empty() {
            note(nothing);
        } else {
            note_more(list.more);
        }
        Ok(())
    }

    /// Writes entries without headings, one per line, as they come.
    pub(crate) fn entries<T: Row>(self, entries: &[T]) -> Result<(), Error> {
        for entry in entries {
            match self.format {
                Format::Table => write(&format!("{}\n", entry.cells().join("  ")))?,
                Format::Json | Format::Jsonl => write(&json(entry, false)?)?,
            }
        }
        Ok(())
    }

    /// Writes a text as it is.
    pub(crate) fn text(self, text: &str) -> Result<(), Error> {
        write(text)
    }
}

/// A list that is read in pages, up to a bound. As JSON lines, each page is written as it comes.
#[derive(Debug)]
pub(crate) struct Listing<T> {
    output: Output,
    max: usize,
    listed: usize,
    items: Vec<T>,
}

impl<T: Row> Listing<T> {
    pub(crate) fn new(output: Output, max: usize) -> Self {
        Self { output, max, listed: 0, items: Vec::new() }
    }

    /// How many more there may be in a page that has at most `page`.
    pub(crate) fn wanted(&self, page: usize) -> usize {
        (self.max - self.listed).min(page)
    }

    pub(crate) fn is_full(&self) -> bool {
        self.listed >= self.max
    }

    pub(crate) fn push(&mut self, page: impl IntoIterator<Item = T>) -> Result<(), Error> {
        let before = self.items.len();
        self.items.extend(page);
        self.listed += self.items.len() - before;
        if self.output.format == Format::Jsonl {
            self.output.entries(&self.items)?;
            self.items.clear();
        }
        Ok(())
    }

    /// Writes what is not written yet. `nothing` says that there is none.
    pub(crate) fn finish(self, more: bool, nothing: &str) -> Result<(), Error> {
        match self.output.format {
            Format::Jsonl if self.listed > 0 => {
                note_more(more);
                Ok(())
            }
            _ => self.output.list(&List { items: self.items, more }, nothing),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.listed == 0
    }
}

fn note_more(more: bool) {
    if more {
        note("there are more: --all lists all of them, --limit so many");
    }
}

/// Says something on standard error.
pub(crate) fn note(text: &str) {
    eprintln!("{}", printable(text));
}

/// A word that marks an error, in red on a terminal.
pub(crate) fn paint_error(text: &str) -> String {
    let style = console::Style::new().red().bold().force_styling(has_colors(&io::stderr()));
    style.apply_to(text).to_string()
}

/// Only on a terminal, and not under `NO_COLOR`.
fn has_colors(stream: &impl io::IsTerminal) -> bool {
    stream.is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

fn json(value: &impl Serialize, pretty: bool) -> Result<String, Error> {
    let text = if pretty { serde_json::to_string_pretty(value) } else { serde_json::to_string(value) };
    text.map(|text| text + "\n")
        .map_err(|error| Error::failed(format!("the answer cannot be written as JSON: {error}")))
}

fn write(text: &str) -> Result<(), Error> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()).map_err(Error::Output)
}
