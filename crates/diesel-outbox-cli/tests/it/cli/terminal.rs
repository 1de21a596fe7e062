//! What differs on a terminal: colours, questions, the progress bar. `script` gives the program one.

use std::io::Write as _;
use std::process::{Command, Stdio};

use super::shop::{Kind, Shop, order};

/// The exit code, and everything that the terminal has shown.
fn on_terminal(shop: &Shop, args: &[&str], typed: &str, no_color: bool) -> (i32, String) {
    let quoted: Vec<String> = args.iter().map(|arg| format!("'{arg}'")).collect();
    let line = format!("{} {}", env!("CARGO_BIN_EXE_outbox"), quoted.join(" "));
    let mut command = Command::new("script");
    command.args(["--quiet", "--return", "--command", &line, "/dev/null"]).env("DATABASE_URL", &shop.url);
    command.env("TERM", "xterm").env_remove("NO_COLOR").stdin(Stdio::piped()).stdout(Stdio::piped());
    if no_color {
        command.env("NO_COLOR", "1");
    }
    let mut process = command.spawn().expect("script, of Debian's package bsdutils");
    process.stdin.take().expect("its input").write_all(typed.as_bytes()).expect("type");
    let output = process.wait_with_output().expect("its output");
    (output.status.code().expect("it was not killed"), String::from_utf8_lossy(&output.stdout).into_owned())
}

const ESCAPE: &str = "\x1b[";

#[tokio::test]
async fn colours_are_for_terminals_without_no_color_on_sqlite() {
    let shop = Shop::fresh(Kind::Sqlite).await.expect("a file");
    shop.dead_letter(&order("1"), "refused: no").await;
    for args in [&["dead", "list"][..], &["dead", "show", "0190b2a0-0000-7000-8000-000000000000"]] {
        let (_, shown) = on_terminal(&shop, args, "", false);
        assert!(shown.contains(ESCAPE), "{shown:?}");
        let (_, shown) = on_terminal(&shop, args, "", true);
        assert!(!shown.contains(ESCAPE), "{shown:?}");
        let piped = shop.run(args);
        assert!(!piped.stdout.contains(ESCAPE) && !piped.stderr.contains(ESCAPE), "{piped:?}");
    }
}

#[tokio::test]
async fn what_destroys_asks_on_a_terminal_on_sqlite() {
    let shop = Shop::fresh(Kind::Sqlite).await.expect("a file");
    shop.dead_letter(&order("1"), "refused: no").await;
    let purge = ["dead", "purge", "--topic", "orders"];
    for (answer, exit) in [("n\n", 1), ("\n", 1), ("y\n", 0)] {
        let (code, shown) = on_terminal(&shop, &purge, answer, true);
        assert!(shown.contains("Delete 1 dead letter for good? [y/N]"), "{shown:?}");
        assert_eq!(code, exit, "{shown:?}");
    }
    assert!(shop.run(&["dead", "list"]).ok().is_empty());
}

#[tokio::test]
async fn long_work_shows_its_progress_on_a_terminal_only_on_sqlite() {
    let shop = Shop::fresh(Kind::Sqlite).await.expect("a file");
    for key in ["1", "2", "3", "4", "5", "6"] {
        shop.dead_letter(&order(key), "refused: no").await;
    }
    let redrive = ["dead", "redrive", "--topic", "orders", "--rate", "4", "--batch", "1"];
    let (code, shown) = on_terminal(&shop, &redrive, "", true);
    assert_eq!(code, 0, "{shown:?}");
    assert!(shown.contains("sending again") && shown.contains("of 6"), "{shown:?}");
    shop.dead_letter(&order("7"), "refused: no").await;
    let piped = shop.run(&redrive);
    assert!(piped.exit == 0 && piped.stderr.is_empty(), "{piped:?}");
}
