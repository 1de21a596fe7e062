//! The table "Where do I find" of the architecture page: each file is there, and has what the table names. Of the files with the columns
//! of a message, none is missing.

use super::Source;

const PAGE: &str = "docs/internals/architecture.md";
const HEADING: &str = "## Where do I find";

/// How the rows begin that say what a new column changes.
const NEW_COLUMN: &str = "a new column";

/// Where statements are.
const STATEMENTS: &[&str] = &["src/enqueue/statement/", "src/store/sql/statements/"];

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
    for Row { files, item, .. } in &rows {
        for path in files {
            match sources.iter().find(|source| source.path == *path) {
                None => violations.push(format!("{PAGE} names {path}, which is not there")),
                Some(source) if !source.text.contains(item) => {
                    violations.push(format!("{PAGE}: {path} has no `{item}`"));
                }
                Some(_) => {}
            }
        }
    }
    let of_column = rows.iter().filter(|row| row.what.starts_with(NEW_COLUMN));
    let named: Vec<&str> = of_column.flat_map(|row| &row.files).copied().collect();
    let missing = sources.iter().filter(|source| has_columns(source) && !named.contains(&&*source.path));
    violations.extend(missing.map(|source| format!("{PAGE}: no row \"{NEW_COLUMN}\" names {}", source.path)));
    violations
}

/// Whether the file has a statement with the columns of a message.
fn has_columns(source: &Source) -> bool {
    let is_migration = source.path.starts_with("migrations/") && source.path.ends_with("/up.sql");
    let has_statements = STATEMENTS.iter().any(|folder| source.path.starts_with(folder));
    let lists_columns = |line: &str| line.contains("headers") && line.contains("payload");
    let makes_column = |line: &str| line.trim_start().starts_with("payload ");
    (is_migration && source.text.lines().any(makes_column))
        || (has_statements && source.text.lines().any(lists_columns))
}

struct Row<'a> {
    what: &'a str,
    files: Vec<&'a str>,
    item: &'a str,
}

/// `| what | `file`, `file` | `item` |`
fn row(line: &str) -> Option<Row<'_>> {
    let [_, what, files, item, _] = line.split('|').collect::<Vec<_>>()[..] else { return None };
    let files = files.split(',').map(code).collect::<Option<_>>()?;
    Some(Row { what: what.trim(), files, item: code(item)? })
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
        let files = [
            ("src/a.rs", "fn a() {}"),
            ("src/c.rs", "fn a() {}"),
            ("src/store/sql/statements/x.rs", "SELECT headers, payload"),
            ("src/store/sql/statements/y.rs", "SELECT payload"),
            ("migrations/outbox/sqlite/01/up.sql", "CREATE TABLE t (\n    payload blob\n)"),
            ("migrations/outbox/sqlite/02/up.sql", "CREATE TABLE t (id int)"),
        ];
        check(&files.iter().map(|(path, text)| file(path, text)).chain([file(PAGE, &page)]).collect::<Vec<_>>())
    }

    const COLUMN_ROWS: &str =
        "| a new column: all | `src/store/sql/statements/x.rs`, `migrations/outbox/sqlite/01/up.sql` | `payload` |";

    fn violations_beside_columns(row: &str) -> Vec<String> {
        violations(&format!("{COLUMN_ROWS}\n{row}"))
    }

    #[test]
    fn the_table_is_held_to_the_files() {
        assert_eq!(violations_beside_columns(""), [""; 0]);
        assert_eq!(violations_beside_columns("| things | `src/a.rs`, `src/c.rs` | `fn a` |"), [""; 0]);
        assert_one_violation(&violations_beside_columns("| a thing | `src/b.rs` | `fn a` |"), "names src/b.rs");
        assert_one_violation(
            &violations_beside_columns("| things | `src/a.rs`, `src/b.rs` | `fn a` |"),
            "names src/b.rs",
        );
        assert_one_violation(&violations_beside_columns("| a thing | `src/a.rs` | `fn b` |"), "has no `fn b`");
        assert_one_violation(&check(&[file(PAGE, "# Page")]), "0 rows");
    }

    #[test]
    fn a_statement_that_nobody_names_is_found() {
        let without = |path: &str| violations(&COLUMN_ROWS.replace(path, "`src/store/sql/statements/y.rs`"));
        assert_one_violation(&without("`src/store/sql/statements/x.rs`"), "names src/store/sql/statements/x.rs");
        assert_one_violation(
            &without("`migrations/outbox/sqlite/01/up.sql`"),
            "names migrations/outbox/sqlite/01/up.sql",
        );
        let elsewhere = COLUMN_ROWS.replace("a new column", "an old column");
        assert_eq!(violations(&elsewhere).len(), 2, "{elsewhere}");
    }
}
