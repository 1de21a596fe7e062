//! The house rules that no compiler checks. Each is a function over its inputs that returns its complaints; its unit
//! tests show that it complains about a bad input, and the tests here hold this repository to it.

mod adapters;
mod bounds;
mod circles;
mod edges;
mod floors;
mod names;
mod places;
mod reach;
mod sizes;
mod stated;
mod text;

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
fn assert_tidy(complaints: &[String]) {
    assert!(complaints.is_empty(), "{} complaints:\n{}", complaints.len(), complaints.join("\n"));
}

#[test]
fn imports_go_down_the_floors() {
    assert_tidy(&floors::check(&workspace(), floors::FLOORS));
}

#[test]
fn files_of_small_crates_import_in_no_circle() {
    assert_tidy(&circles::check(&workspace()));
}

#[test]
fn calls_stand_where_they_belong() {
    assert_tidy(&places::check(&workspace()));
}

#[test]
fn bounds_stand_in_one_place() {
    assert_tidy(&bounds::check(&workspace()));
}

#[test]
fn files_and_functions_are_short() {
    assert_tidy(&sizes::check(&rust(&workspace())));
}

#[test]
fn every_file_is_compiled() {
    assert_tidy(&reach::check(&workspace()));
}

#[test]
fn stated_versions_are_the_real_ones() {
    assert_tidy(&stated::check(&workspace()));
}

#[test]
fn no_test_or_example_is_silenced() {
    assert_tidy(&text::silenced(&workspace()));
}

#[test]
fn no_file_names_a_path_of_somebodys_machine() {
    assert_tidy(&text::foreign_paths(&workspace()));
}

#[test]
fn no_text_holds_a_run_of_spaces() {
    assert_tidy(&text::runs_of_spaces(&workspace()));
}

/// A made-up file for the unit tests of the rules.
fn file(path: &str, text: &str) -> Source {
    Source { path: path.to_owned(), text: text.to_owned() }
}

/// Asserts that exactly one complaint was made and that it says `what`.
#[track_caller]
fn assert_one(complaints: &[String], what: &str) {
    assert!(complaints.len() == 1 && complaints[0].contains(what), "wanted one about {what:?}, got {complaints:#?}");
}
