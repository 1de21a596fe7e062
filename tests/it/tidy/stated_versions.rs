//! The version and the minimum Rust version are stated once, in the root's Cargo.toml; every other mention agrees.

use super::Source;

const OWN_CRATES: &[&str] = &[
    "diesel-outbox",
    "diesel-outbox-cli",
    "diesel-outbox-codecs",
    "diesel-outbox-derive",
    "diesel-outbox-otel",
    "diesel-outbox-verify",
    "diesel-outbox-web",
];

pub(super) fn check(sources: &[Source]) -> Vec<String> {
    let root = sources.iter().find(|source| source.path == "Cargo.toml").expect("a root manifest");
    let (Some(version), Some(rust)) = (value(&root.text, "version"), value(&root.text, "rust-version")) else {
        return vec!["Cargo.toml states no version or no rust-version".to_owned()];
    };
    let mut violations = Vec::new();
    for source in sources.iter().filter(|source| source.path != "Cargo.lock") {
        for (at, line) in current_lines(source) {
            let mut expect = |what: &str, stated: &str, real: &str| {
                if !is_prefix(stated, real) {
                    let position = format!("{}:{}", source.path, at + 1);
                    violations.push(format!("{position}: states {what} {stated}, which is {real}"));
                }
            };
            stated(line, OWN_CRATES).for_each(|found| expect("version", found, version));
            stated(line, &["rust", "rustc", "msrv", "rust-version"]).for_each(|found| expect("Rust", found, rust));
            if source.path.ends_with("Cargo.toml") && line.starts_with("version = ") {
                stated(line, &["version"]).for_each(|found| expect("version", found, version));
            }
            if source.path == "CHANGELOG.md" && line.starts_with("## ") {
                stated(line, &["##"]).for_each(|found| expect("version", found, version));
            }
        }
    }
    violations
}

/// The lines that speak to the reader of today: of a program its comments, of a changelog those up to the end of its
/// newest release.
fn current_lines(source: &Source) -> impl Iterator<Item = (usize, &str)> {
    let is_release = |line: &str| line.starts_with("## ") && stated(line, &["##"]).next().is_some();
    let mut releases = 0;
    let program = source.path.ends_with(".rs");
    let in_prose = move |(_, line): &(usize, &str)| !program || line.trim_start().starts_with("//");
    source.text.lines().enumerate().filter(in_prose).take_while(move |(_, line)| {
        releases += usize::from(is_release(line));
        source.path != "CHANGELOG.md" || releases < 2
    })
}

fn value<'a>(manifest: &'a str, name: &str) -> Option<&'a str> {
    let found = |line: &'a str| line.strip_prefix(name)?.strip_prefix(" = \"")?.strip_suffix('"');
    manifest.lines().find_map(found)
}

/// The versions in `line` that follow one of `names` (in small letters), quotes and small words between them not counted.
fn stated<'a>(line: &'a str, names: &[&str]) -> impl Iterator<Item = &'a str> {
    let separators = |letter: char| letter.is_whitespace() || "\"'`=(){}[]:,;@*|".contains(letter);
    let words = line.split(separators).map(|word| word.trim_end_matches('.'));
    // `..` of a path dependency is empty by now, as its dots were trimmed.
    let fillers = ["", "is", "of", "version", "the", "path"];
    let words: Vec<_> = words.filter(|word| !fillers.contains(word) || names.contains(word)).collect();
    let found = |pair: &[&'a str]| {
        let named = names.contains(&pair[0].to_lowercase().as_str());
        (named && is_version(pair[1])).then_some(pair[1])
    };
    words.windows(2).filter_map(found).collect::<Vec<_>>().into_iter()
}

/// `1.95`, `0.1.0`, `v0.1.0`, `1.95+`
fn is_version(word: &str) -> bool {
    let parts: Vec<_> = trimmed(word).split('.').collect();
    parts.len() > 1 && parts.iter().all(|part| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit()))
}

fn trimmed(word: &str) -> &str {
    word.trim_start_matches(['v', '^', '~']).trim_end_matches('+')
}

/// `0.1` stands for `0.1.0`, and `1.95.0` for `1.95`.
fn is_prefix(stated: &str, real: &str) -> bool {
    trimmed(stated).split('.').zip(real.split('.')).all(|(one, other)| one == other)
}

#[cfg(test)]
mod tests {
    use super::super::{assert_one_violation, file};
    use super::*;

    const ROOT: &str = "[workspace.package]\nversion = \"0.1.0\"\nrust-version = \"1.95\"\n";

    fn violations(path: &str, text: &str) -> Vec<String> {
        check(&[file("Cargo.toml", ROOT), file(path, text)])
    }

    #[test]
    fn mentions_that_agree_are_fine() {
        let readme = "diesel-outbox = \"0.1\"\ndiesel-outbox = { version = \"0.1.0\" }\nRust 1.95 or newer, MSRV: 1.95.0\n\
                      Tried with diesel 2.3.14, tokio 1.48, PostgreSQL 15.3";
        assert_eq!(violations("README.md", readme), [""; 0]);
        assert_eq!(
            violations("crates/derive/Cargo.toml", "version.workspace = true\nsyn = \"2.0\"\nversion = \"0.1.0\""),
            [""; 0]
        );
        let log = "# Changelog\n## [Unreleased]\n## [0.1.0] - 2025-01-01\n## [0.0.9]\nMSRV 1.80";
        assert_eq!(violations("CHANGELOG.md", log), [""; 0]);
    }

    #[test]
    fn mentions_that_differ_are_found() {
        let differ = [
            ("README.md", "diesel-outbox = \"0.2\""),
            ("README.md", "diesel-outbox = { version = \"1.0\", features = [] }"),
            ("docs/a.md", "needs Rust 1.85."),
            ("docs/a.md", "The MSRV is **1.85**"),
            ("src/lib.rs", "fn a() {} \n//! rustc 1.94.1"),
            ("crates/derive/Cargo.toml", "version = \"0.2.0\""),
            ("crates/derive/Cargo.toml", "rust-version = \"1.85\""),
            ("crates/derive/Cargo.toml", "diesel-outbox = { path = \"..\", version = \"0.2.0\" }"),
            ("CHANGELOG.md", "## [Unreleased]\n## [0.0.9] - 2025-01-01\n## [0.0.8]\nMSRV 1.80"),
        ];
        for (path, text) in differ {
            assert_one_violation(&violations(path, text), "states");
        }
    }
}
