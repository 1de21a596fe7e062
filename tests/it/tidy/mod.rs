//! The house rules that no compiler checks. Each is a function over its inputs that returns its violations; its unit
//! tests show that it complains about a bad input, and the tests here hold this repository to it.

mod adapters;
mod banned_calls;
mod consumers;
mod dead_files;
mod engine;
mod errors;
mod file_index;
mod import_cycles;
mod layers;
mod limit_constants;
mod logged;
mod module_files;
mod module_tree;
mod outermost;
mod public;
mod sizes;
mod stated_versions;
mod text;
mod used_paths;

use std::fs;
use std::path::Path;

const FIXTURES: [&str; 2] = ["/tests/ui/", "/tests/expansions/"];

/// A text file, by its path from the root of the workspace.
#[derive(Debug, Clone)]
struct Source {
    path: String,
    text: String,
}

impl Source {
    /// A module of ours; not what the derive's tests compile or compare, which is data.
    fn is_rust(&self) -> bool {
        self.path.ends_with(".rs") && !FIXTURES.iter().any(|folder| self.path.contains(folder))
    }

    fn parse(&self) -> syn::File {
        syn::parse_file(&self.text).unwrap_or_else(|error| panic!("{}: {error}", self.path))
    }
}

/// Every text file of the workspace except what builds leave behind.
fn workspace() -> Vec<Source> {
    let mut found = Vec::new();
    gather(Path::new(env!("CARGO_MANIFEST_DIR")), "", &mut found);
    assert!(found.iter().any(|source| source.path == "src/lib.rs"), "this is not the workspace");
    found
}

fn gather(folder: &Path, prefix: &str, found: &mut Vec<Source>) {
    for entry in fs::read_dir(folder).expect("read a folder of the workspace") {
        let entry = entry.expect("read a folder of the workspace");
        let name = entry.file_name().into_string().expect("names in the workspace are UTF-8");
        let path = format!("{prefix}{name}");
        let kind = entry.file_type().expect("the kind of a file");
        if ["target", ".git"].contains(&name.as_str()) {
            continue;
        }
        if kind.is_dir() {
            gather(&entry.path(), &format!("{path}/"), found);
        } else if kind.is_file()
            && let Ok(text) = fs::read_to_string(entry.path())
        {
            found.push(Source { path, text });
        }
    }
}

fn rust(sources: &[Source]) -> Vec<Source> {
    sources.iter().filter(|source| source.is_rust()).cloned().collect()
}

#[track_caller]
fn assert_no_violations(violations: &[String]) {
    assert!(violations.is_empty(), "{} violations:\n{}", violations.len(), violations.join("\n"));
}

#[test]
fn imports_go_down_the_layers() {
    assert_no_violations(&layers::check(&workspace(), layers::LAYERS));
}

#[test]
fn small_crates_have_no_import_cycles() {
    assert_no_violations(&import_cycles::check(&workspace()));
}

#[test]
fn banned_calls_are_only_where_allowed() {
    assert_no_violations(&banned_calls::check(&workspace()));
}

#[test]
fn the_architecture_page_names_what_is_there() {
    assert_no_violations(&file_index::check(&workspace()));
}

#[test]
fn limits_are_defined_in_one_module() {
    assert_no_violations(&limit_constants::check(&workspace()));
}

#[test]
fn the_metric_of_panics_lists_every_call() {
    let help = diesel_outbox::metrics::ALL.iter().find(|metric| metric.name == "outbox_call_panicked_total");
    let help = help.expect("the metric").help;
    let listed: Vec<&str> =
        help.split(':').nth(1).expect("a list").split(". ").next().expect("a sentence").split(", ").collect();
    let sources = rust(&workspace());
    let texts = sources.iter().filter(|source| source.path.starts_with("src/")).map(|source| &source.text);
    let calls = texts.flat_map(|text| text.split("catch_panic").skip(1)).filter_map(|call| {
        let (name, rest) = call.trim_start_matches("_async").strip_prefix("(\"")?.split_once('"')?;
        (name != "test" && rest.starts_with(',')).then_some(name)
    });
    let mut calls: Vec<&str> = calls.collect();
    calls.sort_unstable();
    calls.dedup();
    assert!(calls.len() > 10, "{calls:?}");
    let missing: Vec<_> = calls.iter().filter(|call| !listed.iter().any(|of| of.trim() == **call)).collect();
    assert!(missing.is_empty(), "{missing:?} are not in {listed:?}");
}

#[test]
fn log_events_are_those_of_the_table() {
    assert_no_violations(&logged::check(&workspace()));
}

#[test]
fn public_names_are_those_of_the_list() {
    assert_no_violations(&public::check(&workspace(), include_str!("../public_names.txt")));
}

#[test]
fn errors_state_their_cause_once_and_can_grow() {
    assert_no_violations(&errors::check(&workspace()));
}

#[test]
fn files_and_functions_are_short() {
    assert_no_violations(&sizes::check(&rust(&workspace())));
}

#[test]
fn every_file_is_compiled() {
    assert_no_violations(&dead_files::check(&workspace()));
}

#[test]
fn a_module_with_a_folder_is_in_it() {
    assert_no_violations(&module_files::check(&workspace()));
}

#[test]
fn stated_versions_are_the_real_ones() {
    assert_no_violations(&stated_versions::check(&workspace()));
}

#[test]
fn no_test_or_example_is_ignored() {
    assert_no_violations(&text::ignored_tests_and_examples(&workspace()));
}

#[test]
fn no_file_names_a_path_of_somebodys_machine() {
    assert_no_violations(&text::foreign_paths(&workspace()));
}

#[test]
fn no_string_contains_a_run_of_spaces() {
    assert_no_violations(&text::runs_of_spaces(&workspace()));
}

/// A made-up file for the unit tests of the rules.
fn file(path: &str, text: &str) -> Source {
    Source { path: path.to_owned(), text: text.to_owned() }
}

/// Asserts that exactly one violation was made and that it says `what`.
#[track_caller]
fn assert_one_violation(violations: &[String], what: &str) {
    assert!(violations.len() == 1 && violations[0].contains(what), "wanted one about {what:?}, got {violations:#?}");
}
