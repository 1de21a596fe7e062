//! The table "Where do I find" of the architecture page: each file is there, and has what the table names.

use super::Source;

const PAGE: &str = "docs/internals/architecture.md";
const HEADING: &str = "## Where do I find";

/// A table with fewer rows was not read.
const ROWS_MIN: usize = 10;

pub(super) fn check(sources: &[Source]) -> Vec<String> {
    let Some(page) = sources.iter().find(|source| source.path == PAGE) else { return vec![format!("no {PAGE}")] };
    let lines = page.text.lines().skip_while(|line| !line.starts_with(HEADING)).skip(1);
    let rows: Vec<_> = lines.take_while(|line| !line.starts_with("## ")).filter_map(row).collect();
    let mut violations = Vec::new();
    if rows.len() < ROWS_MIN {
        violations.push(format!("{PAGE}: {} rows of at least {ROWS_MIN} below \"{HEADING}\"", rows.len()));
    }
    for (path, item) in rows {
        match sources.iter().find(|source| source.path == path) {
            None => violations.push(format!("{PAGE} names {path}, which is not there")),
            Some(source) if !source.text.contains(item) => violations.push(format!("{PAGE}: {path} has no `{item}`")),
            Some(_) => {}
        }
    }
    violations
}

/// `| what | `file` | `item` |`
fn row(line: &str) -> Option<(&str, &str)> {
    let [_, _, file, item, _] = line.split('|').collect::<Vec<_>>()[..] else { return None };
    Some((code(file)?, code(item)?))
}

/// What a cell has between its backticks.
fn code(cell: &str) -> Option<&str> {
    cell.trim().strip_prefix('`')?.strip_suffix('`')
}

#[cfg(test)]
mod tests {
    use super::super::{assert_one_violation, file};
    use super::*;

    fn violations(row: &str) -> Vec<String> {
        let rows = "| a thing | `src/a.rs` | `fn a` |\n".repeat(ROWS_MIN);
        let page = format!(
            "# Page\n{HEADING} ..\n| what | file | look for |\n|---|---|---|\n{rows}{row}\n## Next\n| x | `y` | `z` |"
        );
        check(&[file(PAGE, &page), file("src/a.rs", "fn a() {}")])
    }

    #[test]
    fn the_table_is_held_to_the_files() {
        assert_eq!(violations(""), [""; 0]);
        assert_one_violation(&violations("| a thing | `src/b.rs` | `fn a` |"), "names src/b.rs");
        assert_one_violation(&violations("| a thing | `src/a.rs` | `fn b` |"), "has no `fn b`");
        assert_one_violation(&check(&[file(PAGE, "# Page")]), "0 rows");
    }
}
