use std::fmt::{Display, Write as _};

use comfy_table::{ContentArrangement, Table, presets};

use super::{Row, printable};

/// The width of a field's name.
const NAME_WIDTH: usize = 16;

/// An answer for people: fields and tables, one below the other.
#[derive(Debug)]
pub(crate) struct Page {
    text: String,
    has_colors: bool,
}

impl Page {
    pub(crate) fn new(has_colors: bool) -> Self {
        Self { text: String::new(), has_colors }
    }

    pub(crate) fn into_text(self) -> String {
        self.text
    }

    /// A name and its value.
    pub(crate) fn field(&mut self, name: &str, value: impl Display) {
        self.line(&format!("{name:NAME_WIDTH$}{value}"));
    }

    /// The same, if there is a value.
    pub(crate) fn field_of(&mut self, name: &str, value: Option<impl Display>) {
        if let Some(value) = value {
            self.field(name, value);
        }
    }

    /// A text of several lines, below its name.
    pub(crate) fn block(&mut self, name: &str, text: &str) {
        self.line(&format!("{name}:"));
        for line in text.lines() {
            self.line(&format!("  {line}"));
        }
    }

    pub(crate) fn line(&mut self, text: &str) {
        self.push(printable(text).trim_end());
    }

    pub(crate) fn gap(&mut self) {
        self.text.push('\n');
    }

    /// A table with headings; nothing without rows.
    pub(crate) fn rows<T: Row>(&mut self, rows: &[T]) {
        if rows.is_empty() {
            return;
        }
        let mut table = Table::new();
        table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
        table.set_header(T::HEADINGS.iter().map(|heading| heading.to_uppercase()));
        for row in rows {
            table.add_row(row.cells().iter().map(|cell| printable(cell)));
        }
        let bold = console::Style::new().bold().force_styling(self.has_colors);
        for (index, line) in table.to_string().lines().enumerate() {
            let line = line.strip_prefix(' ').unwrap_or(line).trim_end();
            match index {
                0 => self.push(&bold.apply_to(line).to_string()),
                _ => self.push(line),
            }
        }
    }

    fn push(&mut self, line: &str) {
        // Writing to a string never fails.
        let _ = writeln!(self.text, "{line}");
    }
}
