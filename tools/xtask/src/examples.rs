//! The examples. Each has the command that runs it in its text.

use std::fs;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};
use xtask::cache;
use xtask::servers::ServerKind;

use crate::commands::{cargo, workspace};
use crate::steps::{Steps, in_ci};

/// The README's first command.
const QUICKSTART: &str = "quickstart";

/// An example, and the arguments of Cargo in its text.
#[derive(Debug, PartialEq, Eq)]
struct Example {
    name: String,
    text: String,
    command: Vec<String>,
}

impl Example {
    fn new(name: &str, text: String) -> Self {
        let plain = ["run", "--example", name].map(str::to_owned);
        let commands = text.lines().filter_map(|line| line.strip_prefix("//! cargo "));
        let mut commands = commands.map(|command| command.split_whitespace().map(str::to_owned).collect::<Vec<_>>());
        let command = commands.find(|command| command.starts_with(&plain)).unwrap_or_else(|| plain.to_vec());
        Self { name: name.to_owned(), text, command }
    }

    /// Whether it is built as its command says, and not as the tests are. That takes another build of all crates that it uses: for
    /// most others [`check_of_examples`] is enough.
    fn has_own_build(&self) -> bool {
        self.name == QUICKSTART
    }

    /// Whether its command names features or a package.
    fn has_features(&self) -> bool {
        self.command.iter().any(|argument| ["--features", "--package"].contains(&argument.as_str()))
    }

    /// It needs the servers whose variables its text names.
    fn needs(&self, kind: ServerKind) -> bool {
        self.text.contains(kind.variable())
    }
}

fn all() -> Result<Vec<Example>> {
    let folders = ["examples", "crates/diesel-outbox-otel/examples"].map(|folder| workspace().join(folder));
    let mut examples = Vec::new();
    for path in folders.iter().flat_map(fs::read_dir).flatten().flatten().map(|entry| entry.path()) {
        let file = if path.is_dir() { path.join("main.rs") } else { path.clone() };
        if file.is_file() && file.extension().is_some_and(|extension| extension == "rs") {
            let text = fs::read_to_string(&file).with_context(|| format!("read {}", file.display()))?;
            examples.push(Example::new(&path.file_stem().unwrap_or_default().to_string_lossy(), text));
        }
    }
    examples.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(examples)
}

/// Checks the examples whose commands name no feature: they have fewer than the tests.
pub(crate) fn check_of_examples() -> Result<Command> {
    let mut check = cargo(&["check"]);
    for example in all()?.iter().filter(|example| !example.has_features()) {
        check.args(["--example", &example.name]);
    }
    Ok(check)
}

impl Steps<'_> {
    /// Runs each example.
    pub(crate) fn examples(&mut self) -> Result<()> {
        let examples = all()?;
        if !examples.iter().any(|example| example.name == QUICKSTART) {
            self.report.check("example: quickstart is missing", false, Duration::ZERO);
        }
        // One build for all, which uses every processor: one example links on one.
        let mut build = cargo(&["build", "--workspace", "--features", "_test"]);
        for example in examples.iter().filter(|example| !example.has_own_build()) {
            build.args(["--example", &example.name]);
        }
        self.check("examples: build", &mut build)?;
        for example in examples {
            let suite = format!("example: {}", example.name);
            let needed = ServerKind::ALL.into_iter().filter(|kind| example.needs(*kind));
            let mut lacking = needed.filter_map(|kind| Some((kind, self.shared.missing(kind)?)));
            match lacking.next() {
                Some((kind, reason)) => self.report.skip(&suite, &format!("no {kind}: {reason}"), in_ci()),
                None if example.has_own_build() => {
                    let command: Vec<_> = example.command.iter().map(String::as_str).collect();
                    self.check(&suite, &mut cargo(&command))?;
                }
                None => {
                    let mut program = Command::new(cache::place("debug/examples").join(&example.name));
                    program.args(example.command.iter().skip_while(|argument| *argument != "--").skip(1));
                    self.check(&suite, program.current_dir(workspace()))?;
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_example_is_run_as_its_text_says() {
        let command = |text: &str| Example::new("shop", text.to_owned()).command.join(" ");
        assert_eq!(command("//! A shop.\n"), "run --example shop");
        assert_eq!(command("//! cargo run --example shop --features a/b\n"), "run --example shop --features a/b");
        assert_eq!(command("//! cargo run --example shops --features a/b\n"), "run --example shop");
    }

    #[test]
    fn the_command_of_an_example_names_the_features_that_it_requires() {
        let manifest = fs::read_to_string(workspace().join("Cargo.toml")).expect("a Cargo.toml");
        let mut found = 0;
        for section in manifest.split("[[example]]").skip(1) {
            let section = section.split("\n[").next().unwrap_or_default();
            let value = |name: &str| section.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(" = "));
            let name = value("name").expect("a name").trim_matches('"');
            let Some(required) = value("required-features") else { continue };
            let example = all().expect("examples").into_iter().find(|example| example.name == name).expect("its file");
            let required =
                required.trim_matches(['[', ']']).split(", ").map(|feature| feature.trim_matches('"').to_owned());
            let named = example.command.iter().skip_while(|argument| *argument != "--features").nth(1);
            let named: Vec<_> = named.map(|named| named.split(',').map(str::to_owned).collect()).unwrap_or_default();
            assert_eq!(named, required.collect::<Vec<_>>(), "{name}");
            found += 1;
        }
        assert!(found >= 2, "{found}");
    }
}
