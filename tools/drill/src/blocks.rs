//! The commands in a runbook that the drill runs: fenced blocks that are marked `drill`.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

/// What follows the fence of a block, by its language.
const MARKS: [(&str, Language); 2] = [("```sh drill", Language::Shell), ("```sql drill", Language::Sql)];
/// In seconds: how long a block may run.
const TIMEOUT: &str = "120";

/// In what a block is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Language {
    Shell,
    Sql,
}

/// One block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Block {
    /// The heading above it.
    pub(crate) section: String,
    pub(crate) language: Language,
    pub(crate) text: String,
}

/// The blocks of an alert's runbook, in their order.
pub(crate) fn of_alert(alert: &str) -> Result<Vec<Block>> {
    let path = runbook(alert);
    let text = std::fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))?;
    Ok(marked(&text))
}

pub(crate) fn runbook(alert: &str) -> PathBuf {
    crate::ops().join("runbooks").join(alert).with_extension("md")
}

fn marked(text: &str) -> Vec<Block> {
    let (mut blocks, mut section, mut open) = (Vec::<Block>::new(), String::new(), false);
    for line in text.lines() {
        if open && line.starts_with("```") {
            open = false;
        } else if open {
            if let Some(block) = blocks.last_mut() {
                block.text += &format!("{line}\n");
            }
        } else if let Some(heading) = line.strip_prefix("## ") {
            heading.clone_into(&mut section);
        } else if let Some((_, language)) = MARKS.iter().find(|(mark, _)| line == *mark) {
            blocks.push(Block { section: section.clone(), language: *language, text: String::new() });
            open = true;
        }
    }
    blocks
}

/// Where a block runs.
#[derive(Debug)]
pub(crate) struct Environment {
    pub(crate) variables: Vec<(String, String)>,
}

impl Environment {
    /// Runs the block; returns what it printed.
    ///
    /// # Errors
    ///
    /// It failed; the message has what it printed.
    pub(crate) fn run(&self, block: &Block) -> Result<String> {
        let mut command = Command::new("timeout");
        match block.language {
            Language::Shell => command.args([TIMEOUT, "sh", "-eu"]),
            Language::Sql => {
                let url = self.variables.iter().find(|(name, _)| name == "DATABASE_URL").map_or("", |(_, url)| url);
                command.args([TIMEOUT, "psql", "-X", "-v", "ON_ERROR_STOP=1", url])
            }
        };
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        let mut child = child.context("run a block")?;
        child.stdin.take().context("piped above")?.write_all(block.text.as_bytes()).context("pass on a block")?;
        let output = child.wait_with_output().context("wait for a block")?;
        let printed = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
        ensure!(output.status.success(), "the block\n{}ended with {}:\n{printed}", block.text, output.status);
        Ok(printed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_marked_blocks_are_run() {
        let text = "# A\n\n## Remedy\n\n```sh\nrm -r /\n```\n\n```sql drill\nSELECT 1;\n```\n\n## Other\n```sh drill\na\nb\n```\n";
        let block = |section: &str, language, text: &str| Block {
            section: section.to_owned(),
            language,
            text: text.to_owned(),
        };
        assert_eq!(
            marked(text),
            [block("Remedy", Language::Sql, "SELECT 1;\n"), block("Other", Language::Shell, "a\nb\n"),]
        );
    }
}
