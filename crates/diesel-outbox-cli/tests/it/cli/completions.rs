//! Completions, sourced and asked in each shell.

use std::fs;
use std::process::Command;

use xtask::test_servers;

use super::program::run;

/// What is asked of a shell: the script's path, and a line to be completed. Prints the candidates.
struct ShellUnderTest {
    name: &'static str,
    ask: &'static str,
}

/// Fills in the line as readline does, then calls the function that `complete` has registered.
const BASH: ShellUnderTest = ShellUnderTest {
    name: "bash",
    ask: r#"source "$1"; COMP_WORDS=(outbox dead re); COMP_CWORD=2; COMP_LINE="outbox dead re"; COMP_POINT=14
        registered=$(complete -p outbox) || exit 9
        function=$(sed -E 's/.*-F ([^ ]+).*/\1/' <<< "$registered")
        "$function" outbox re dead; printf '%s\n' "${COMPREPLY[@]}""#,
};

/// The functions of zsh's completion run only in its line editor: so `compadd` prints here what it is given.
const ZSH: ShellUnderTest = ShellUnderTest {
    name: "zsh",
    ask: r#"autoload -Uz compinit && compinit -u -d "$2/zcompdump"
        source "$1" || exit 9
        [[ -n ${functions[_outbox]} ]] || exit 9
        [[ ${_comps[outbox]} == _outbox ]] || exit 9
        print -r -- ${functions[_outbox__subcmd__dead_commands]:-${functions[_outbox__dead_commands]}}"#,
};

const FISH: ShellUnderTest =
    ShellUnderTest { name: "fish", ask: r#"source $argv[1]; complete --do-complete "outbox dead re""# };

fn completes(shell: &ShellUnderTest) {
    let ShellUnderTest { name, ask } = shell;
    if Command::new(name).arg("--version").output().is_err() {
        test_servers::skip_without(name, &format!("it is not installed; on Debian: apt-get install {name}"));
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let script = folder.path().join("completions");
    fs::write(&script, run("", &["completions", name]).ok()).expect("write");
    let mut command = Command::new(name);
    match *name {
        "fish" => command.args(["--no-config", "-c", ask]),
        "zsh" => command.args(["-f", "-c", ask, "zsh"]),
        _ => command.args(["--norc", "-c", ask, "bash"]),
    };
    command.arg(&script).arg(folder.path()).env("HOME", folder.path());
    let asked = command.output().expect("run the shell");
    let (stdout, stderr) = (String::from_utf8_lossy(&asked.stdout), String::from_utf8_lossy(&asked.stderr));
    assert!(asked.status.success() && stderr.is_empty(), "{name}: {}, {stderr}, {stdout}", asked.status);
    assert!(stdout.contains("redrive"), "{name}: {stdout}");
}

#[test]
fn bash_completes_commands() {
    completes(&BASH);
}

#[test]
fn zsh_completes_commands() {
    completes(&ZSH);
}

#[test]
fn fish_completes_commands() {
    completes(&FISH);
}
