//! Runs the program.

use std::process::{Command, Output, Stdio};

/// How the program ended, and what it wrote.
#[derive(Debug)]
pub(super) struct Ran {
    pub(super) exit: i32,
    pub(super) stdout: String,
    pub(super) stderr: String,
}

impl Ran {
    pub(super) fn of(output: Output) -> Self {
        let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
        Self {
            exit: output.status.code().expect("it was not killed"),
            stdout: text(output.stdout),
            stderr: text(output.stderr),
        }
    }

    /// The answer of a command that was to succeed.
    #[track_caller]
    pub(super) fn ok(self) -> String {
        assert_eq!(self.exit, 0, "{}", self.stderr);
        self.stdout
    }

    /// The same, as JSON.
    #[track_caller]
    pub(super) fn json(self) -> serde_json::Value {
        let answer = self.ok();
        serde_json::from_str(&answer).unwrap_or_else(|error| panic!("{error}: {answer}"))
    }
}

/// The program with these arguments on a database. Nothing of the environment reaches it that could change what it does.
pub(super) fn program(url: &str, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_outbox"));
    command.args(args).env("DATABASE_URL", url).stdin(Stdio::null());
    for variable in ["EDITOR", "VISUAL", "NO_COLOR"] {
        command.env_remove(variable);
    }
    command
}

pub(super) fn run(url: &str, args: &[&str]) -> Ran {
    Ran::of(program(url, args).output().expect("run the program"))
}
