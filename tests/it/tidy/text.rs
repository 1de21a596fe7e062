//! Rules about plain text.

use syn::visit::{self, Visit};

use super::Source;

/// Complains about tests that are ignored without a reason and about examples in texts that nothing compiles.
pub(super) fn ignored_tests_and_examples(sources: &[Source]) -> Vec<String> {
    let mut violations = Vec::new();
    for source in sources {
        if source.is_rust() {
            let mut finder = Ignored { path: &source.path, violations: Vec::new() };
            finder.visit_file(&source.parse());
            violations.extend(finder.violations);
        }
        if source.is_rust() || source.path.ends_with(".md") {
            let ignored = source.text.lines().enumerate().filter(|(_, line)| is_ignored_example(line));
            violations.extend(ignored.map(|(at, _)| format!("{}:{}: an example is ignored", source.path, at + 1)));
        }
    }
    violations
}

/// Complains about paths that exist on one machine only.
pub(super) fn foreign_paths(sources: &[Source]) -> Vec<String> {
    // In two pieces, or this file would be its own first finding.
    let foreign = [concat!("/", "work/"), concat!("/", "root/"), concat!("/tmp", "/prep")];
    let mut violations = Vec::new();
    for source in sources {
        for (at, line) in source.text.lines().enumerate() {
            let named = foreign.iter().filter(|path| line.contains(*path));
            violations.extend(named.map(|path| format!("{}:{}: names {path}", source.path, at + 1)));
        }
    }
    violations
}

/// Complains about runs of spaces within a line of the library's code: the formatter leaves none, so they stand in a text that was put
/// on one line by hand, and people read them in an error.
pub(super) fn runs_of_spaces(sources: &[Source]) -> Vec<String> {
    let mut violations = Vec::new();
    for source in sources.iter().filter(|source| source.path.starts_with("src/") && source.is_rust()) {
        for (at, line) in source.text.lines().enumerate() {
            let line = line.trim();
            // What follows may be a comment, in a column of such.
            let is_run = line.find("   ").is_some_and(|run| !line[run..].trim_start().starts_with("//"));
            if !line.starts_with("//") && is_run {
                violations.push(format!("{}:{}: a run of spaces", source.path, at + 1));
            }
        }
    }
    violations
}

/// Three backticks and a list of words with `ignore` or `ignore-<target>`, perhaps in a comment.
fn is_ignored_example(line: &str) -> bool {
    let line = line.trim_start();
    let line = ["///", "//!", "*"].iter().find_map(|comment| line.strip_prefix(comment)).unwrap_or(line).trim_start();
    let words = line.strip_prefix("```").map(|words| words.split([',', ' ', '{', '}']));
    words.is_some_and(|mut words| words.any(|word| word == "ignore" || word.starts_with("ignore-")))
}

struct Ignored<'a> {
    path: &'a str,
    violations: Vec<String>,
}

impl<'ast> Visit<'ast> for Ignored<'_> {
    fn visit_attribute(&mut self, attribute: &'ast syn::Attribute) {
        if matches!(&attribute.meta, syn::Meta::Path(path) if path.is_ident("ignore")) {
            let line = attribute.pound_token.span.start().line;
            self.violations.push(format!("{}:{line}: a test is ignored without a reason", self.path));
        }
        visit::visit_attribute(self, attribute);
    }
}

#[cfg(test)]
mod tests {
    use super::super::{assert_one_violation, file};
    use super::*;

    #[test]
    fn an_ignored_test_needs_a_reason() {
        assert_eq!(
            ignored_tests_and_examples(&[file("a.rs", "#[test]\n#[ignore = \"needs a moon\"]\nfn a() {}")]),
            [""; 0]
        );
        assert_one_violation(
            &ignored_tests_and_examples(&[file("a.rs", "mod m {\n#[test]\n#[ignore]\nfn a() {} }")]),
            "a.rs:3: a test",
        );
    }

    #[test]
    fn an_ignored_example_is_found() {
        let fence = "```";
        for words in ["ignore", "rust,ignore", "ignore-windows", "rust, ignore"] {
            assert_one_violation(
                &ignored_tests_and_examples(&[file(
                    "a.rs",
                    &format!("/// {fence}{words}\n/// x\n/// {fence}\nfn a() {{}}"),
                )]),
                "a.rs:1",
            );
            assert_one_violation(
                &ignored_tests_and_examples(&[file("README.md", &format!("text\n\n{fence}{words}"))]),
                "README.md:3",
            );
        }
        for words in ["", "rust", "no_run", "compile_fail", "sh"] {
            assert_eq!(
                ignored_tests_and_examples(&[file("README.md", &format!("we ignore it\n{fence}{words}\n"))]),
                [""; 0]
            );
        }
    }

    #[test]
    fn a_path_of_one_machine_is_named() {
        assert_one_violation(
            &foreign_paths(&[file("docs/a.md", &format!("x\nsee {}b", concat!("/", "work/")))]),
            "docs/a.md:2",
        );
        assert_eq!(foreign_paths(&[file("docs/a.md", "homework/b and /usr/lib")]), [""; 0]);
    }

    #[test]
    fn a_text_put_on_one_line_is_seen() {
        let of = |path: &str, line: &str| runs_of_spaces(&[file(path, &format!("fn a() {{\n        {line}\n}}"))]);
        assert_one_violation(&of("src/a.rs", "f(\"let a             relay\")"), "src/a.rs:2");
        assert_one_violation(&of("src/a.rs", "f(\"let a     relay\")    // why"), "src/a.rs:2");
        for line in ["f(\"let a relay\")    // why", "/// | a    | b |", "f(\"let a \\"] {
            assert_eq!(of("src/a.rs", line), [""; 0], "{line}");
        }
        assert_eq!(of("tests/a.rs", "f(\"a      b\")"), [""; 0]);
    }
}
