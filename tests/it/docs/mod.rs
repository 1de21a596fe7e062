//! What the documentation says, compared with what is there.

mod events;
mod ops;
mod sql;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use diesel_outbox::metrics::{ALL, Metric, MetricKind};

/// The most words of README.md, and of it and the users' pages together. The dashboard, the command line, traces and verify came with a
/// page each after the first limit of 22,000; then the consumer's half, receipts and exactly-once topics.
const README_WORDS_MAX: usize = 1_200;
const USER_WORDS_MAX: usize = 30_300;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

pub(crate) fn read(path: impl AsRef<Path>) -> String {
    let path = root().join(path);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("read {}: {error}", path.display()))
}

/// The pages of a folder, by their paths from the root.
fn pages(folder: &str) -> Vec<String> {
    let entries = fs::read_dir(root().join(folder)).expect("a folder of pages");
    let names = entries.filter_map(|entry| entry.expect("an entry of a folder").file_name().into_string().ok());
    let mut pages: Vec<_> = names.filter(|name| name.ends_with(".md")).map(|name| format!("{folder}/{name}")).collect();
    pages.sort();
    pages
}

fn documents() -> Vec<String> {
    let above = ["README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"].map(str::to_owned);
    above.into_iter().chain(pages("docs")).chain(pages("docs/internals")).collect()
}

/// What stands between backticks, outside of code blocks.
fn code_spans(text: &str) -> Vec<&str> {
    let mut in_block = false;
    let prose = text.lines().filter(|line| {
        let fence = line.trim_start().starts_with("```");
        in_block ^= fence;
        !in_block && !fence
    });
    prose.flat_map(|line| line.split('`').skip(1).step_by(2)).collect()
}

fn metric_row(metric: &Metric) -> String {
    let kind = match metric.kind {
        MetricKind::Counter => "counter",
        MetricKind::Gauge => "gauge",
        MetricKind::Histogram => "histogram",
    };
    format!("| `{}` | {kind} | {} |", metric.name, metric.help)
}

#[test]
fn operations_lists_every_metric_as_the_code_says() {
    let expected: Vec<String> = ALL.iter().map(metric_row).collect();
    let text = read("docs/operations.md");
    let kinds = ["| counter |", "| gauge |", "| histogram |"];
    let is_row = |line: &&str| line.starts_with("| `outbox_") && kinds.iter().any(|kind| line.contains(kind));
    let listed: Vec<&str> = text.lines().filter(is_row).collect();
    let rows = expected.join("\n");
    assert_eq!(listed, expected, "the table in docs/operations.md should be:\n{rows}\n");
}

#[test]
fn metrics_that_the_documents_name_exist() {
    let names: BTreeSet<&str> = ALL.iter().map(|metric| metric.name).collect();
    let tables = [
        "messages",
        "dead_letters",
        "lanes",
        "nodes",
        "key_locks",
        "half_messages",
        "paused_topics",
        "history",
        "history_default",
        "processed_marks",
        "audit",
        "inbox",
        "inbox_default",
        "inbox_consumers",
        "inbox_start",
        "consumer_offsets",
        "parked",
    ];
    let is_table = |span: &str| span.strip_prefix("outbox_").is_some_and(|name| tables.contains(&name));
    for document in documents() {
        let text = read(&document);
        for span in code_spans(&text).into_iter().filter(|span| span.starts_with("outbox_")) {
            assert!(names.contains(span) || is_table(span), "{document} names {span}");
        }
    }
}

/// The file of a test's module: of this binary, or of the crate.
fn test_file(module: &[&str]) -> PathBuf {
    let (folder, module) = match module {
        ["it", module @ ..] => (root().join("tests/it"), module),
        module => (root().join("src"), module),
    };
    let path = module.iter().fold(folder, |path, part| path.join(part));
    let file = path.with_extension("rs");
    if file.exists() { file } else { path.join("mod.rs") }
}

#[test]
fn tests_that_the_documents_name_exist() {
    let mut named = 0;
    for document in documents() {
        let text = read(&document);
        let is_test = |span: &&str| span.starts_with("it::") || span.contains("::tests::");
        for span in code_spans(&text).into_iter().filter(is_test).filter(|span| !span.ends_with("..")) {
            let parts: Vec<&str> = span.split("::").collect();
            let (test, module) = parts.split_last().expect("a split is never empty");
            let file = test_file(module);
            let source = fs::read_to_string(&file).unwrap_or_default();
            // As a function, as one that runs on each database, or made by a macro from a table.
            let forms = [format!("fn {test}("), format!("fn {test}<"), format!("    {test} = \"")];
            let found = forms.iter().any(|form| source.contains(form));
            assert!(found, "{document} names {span}, not found in {}", file.display());
            named += 1;
        }
    }
    assert!(named > 20, "{named}: the names are written as `relay::tests::file::name` or `it::file::name`");
}

/// The targets of link definitions, `[name]: target`, and of inline links.
fn links(text: &str) -> Vec<&str> {
    let definitions =
        text.lines().filter_map(|line| line.strip_prefix('[')?.split_once("]: ")).map(|(_, target)| target);
    let inline = text.split("](").skip(1).filter_map(|rest| rest.split_once(')')).map(|(target, _)| target);
    definitions.chain(inline).collect()
}

/// What a heading is called in links.
fn slug(line: &str) -> Option<String> {
    let heading = line.strip_prefix('#')?.trim_start_matches('#').strip_prefix(' ')?;
    let kept = heading.chars().filter(|kept| kept.is_alphanumeric() || " -_".contains(*kept));
    Some(kept.collect::<String>().to_lowercase().replace(' ', "-"))
}

#[test]
fn links_between_files_lead_somewhere() {
    for document in documents() {
        let text = read(&document);
        let folder = root().join(&document).parent().expect("a file has a folder").to_owned();
        for link in links(&text).into_iter().filter(|link| !link.starts_with("http") && !link.starts_with('#')) {
            let (file, heading) = link.split_once('#').map_or((link, None), |(file, heading)| (file, Some(heading)));
            assert!(folder.join(file).exists(), "{document} links to {link}");
            if let Some(heading) = heading {
                let target = fs::read_to_string(folder.join(file)).expect("a link with a heading is to a text");
                assert!(target.lines().filter_map(slug).any(|slug| slug == heading), "{document} links to {link}");
            }
        }
    }
}

#[test]
fn links_by_name_are_defined() {
    let guides = [
        "architecture",
        "changelog",
        "consumers",
        "contributing",
        "design",
        "glossary",
        "guarantees",
        "history",
        "http",
        "inbox",
        "internals",
        "kafka",
        "migrating",
        "model",
        "operations",
        "ordering",
        "pgbouncer",
        "protocol",
        "receipts",
        "rocketmq",
        "schemas",
        "tracing",
        "transports",
        "tuning",
        "upgrading",
    ];
    for document in documents() {
        let text = read(&document);
        for guide in guides {
            let used = [" ", ".", ","].iter().any(|after| text.contains(&format!("[{guide}]{after}")));
            let defined = text.contains(&format!("\n[{guide}]: "));
            assert!(!used || defined, "{document} uses [{guide}] and does not define it");
        }
    }
}

/// The page of tests has the sections of the guarantees, and some of its own behind them.
#[test]
fn sections_of_tests_are_those_of_the_guarantees() {
    let headings = |page: &str| -> Vec<String> {
        let text = read(page);
        text.lines().filter(|line| line.starts_with("##")).map(|line| line.trim_start_matches('#').to_owned()).collect()
    };
    let guarantees = headings("docs/guarantees.md");
    let tests = headings("docs/internals/testing.md");
    let tests: Vec<&String> = tests.iter().skip_while(|heading| !heading.contains("Which test")).skip(1).collect();
    let places: Vec<_> = tests.iter().map(|heading| guarantees.iter().position(|other| other == *heading)).collect();
    let shared = places.iter().take_while(|place| place.is_some()).count();
    assert!(shared >= 10 && places[..shared].is_sorted(), "{tests:?}");
    assert_eq!(places.len() - shared, 2, "docs/internals/testing.md says that two more follow");
}

#[test]
fn getting_started_lists_every_example() {
    let text = read("docs/getting-started.md");
    let examples = fs::read_dir(root().join("examples")).expect("the examples");
    for path in examples.map(|entry| entry.expect("an example").path()) {
        let name = path.file_stem().and_then(|name| name.to_str()).expect("a plain name");
        let is_program = path.is_file() || path.join("main.rs").exists();
        let is_listed = text.contains(&format!("| [`{name}`](../examples/"));
        assert!(!is_program || is_listed, "docs/getting-started.md does not list {name}");
    }
}

/// The names of a table of Cargo.toml, without private ones.
fn features() -> BTreeSet<String> {
    let manifest = read("Cargo.toml");
    let (_, table) = manifest.split_once("[features]\n").expect("a table of features");
    let table = table.split("\n[").next().unwrap_or_default();
    let names = table.lines().filter_map(|line| line.split_once(" = ")).map(|(name, _)| name.to_owned());
    names.filter(|name| name != "default" && !name.starts_with(['_', '#'])).collect()
}

#[test]
fn getting_started_and_crate_documentation_list_every_feature() {
    for document in ["docs/getting-started.md", "src/lib.rs"] {
        let text = read(document);
        let (_, section) = text.split_once("# Features").unwrap_or_else(|| panic!("{document} has a section Features"));
        let table: Vec<&str> =
            section.lines().skip_while(|line| !line.contains('|')).take_while(|line| line.contains('|')).collect();
        let listed: BTreeSet<String> = table
            .iter()
            .filter_map(|row| row.split('|').nth(1))
            .flat_map(|cell| cell.split('`').skip(1).step_by(2))
            .map(str::to_owned)
            .collect();
        assert_eq!(listed, features(), "{document}");
    }
}

#[test]
fn the_pages_for_users_are_short() {
    let words = |page: &str| read(page).split_whitespace().count();
    let readme = words("README.md");
    assert!(readme <= README_WORDS_MAX, "README.md has {readme} words of at most {README_WORDS_MAX}");
    // The page of log events is for looking up one row; nobody reads it.
    let read = pages("docs").into_iter().filter(|page| page != "docs/events.md");
    let all = readme + read.map(|page| words(&page)).sum::<usize>();
    assert!(all <= USER_WORDS_MAX, "the users' pages have {all} words of at most {USER_WORDS_MAX}");
}

#[test]
fn examples_of_every_page_are_compiled() {
    let guide = read("src/guide.rs");
    for page in pages("docs").into_iter().chain(pages("docs/internals")) {
        assert!(guide.contains(&format!("\"../{page}\"")), "src/guide.rs does not include {page}");
    }
}
