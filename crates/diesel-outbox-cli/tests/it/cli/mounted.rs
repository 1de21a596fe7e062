//! The commands as a subcommand of an application, which knows its topics and decodes its payloads.

use std::io::Write as _;
use std::process::{Command, ExitCode};

use clap::{CommandFactory, Parser};
use diesel_outbox::CodecError;
use diesel_outbox::codec::Codec;
use diesel_outbox::{Outbox, OutboxMessage, Topic};
use diesel_outbox_cli::{Application, Arguments, run};

use super::program::Ran;
use super::shop::{Kind, Shop, order};

/// The variable with the arguments of the application.
const ARGUMENTS: &str = "OUTBOX_TEST_MOUNTED";
const BEGIN: &str = "<answer>";
const END: &str = "<exit ";

#[derive(Parser)]
#[command(name = "shop")]
struct App {
    #[command(subcommand)]
    command: AppCommand,
}

#[derive(clap::Subcommand)]
enum AppCommand {
    /// Serve requests
    Serve,
    /// Operate the outbox
    Outbox(Arguments),
}

/// The order's number, in words.
struct Words;

impl Codec<Placed> for Words {
    fn encode(_: &Placed) -> Result<Vec<u8>, CodecError> {
        Err(CodecError::new("these tests encode by hand"))
    }

    fn text(payload: &[u8]) -> Result<String, CodecError> {
        let text = std::str::from_utf8(payload).map_err(CodecError::new)?;
        let number = text.strip_prefix(r#"{"order_id":"#).ok_or_else(|| CodecError::new("it names no order"))?;
        Ok(format!("order number {}", number.trim_end_matches('}')))
    }
}

struct Placed;

impl OutboxMessage for Placed {
    const TOPIC: Option<&'static str> = Some("orders");
    const KIND: &'static str = "order.placed";

    fn payload(&self) -> Result<Option<Vec<u8>>, CodecError> {
        Words::encode(self).map(Some)
    }

    fn payload_text(payload: &[u8]) -> Result<String, CodecError> {
        Words::text(payload)
    }
}

fn outbox() -> Outbox {
    let builder = Outbox::builder().topic(Topic::new("orders")).topic(Topic::new("ledger").ordered_by_key());
    builder.message::<Placed>().build().expect("build")
}

/// The application itself, if the variable is set: a process of this test binary.
#[tokio::test]
async fn an_application_is_one_of_these_tests() {
    let Ok(arguments) = std::env::var(ARGUMENTS) else { return };
    let app = App::try_parse_from(["shop"].into_iter().chain(arguments.split('\t'))).expect("arguments");
    let AppCommand::Outbox(arguments) = app.command else { panic!("the outbox's") };
    let print = |text: &str| writeln!(std::io::stdout(), "{text}").expect("write");
    print(BEGIN);
    let code = run(arguments, Application::new(&outbox()).command(App::command())).await;
    let number = (0..=4).find(|number| code == ExitCode::from(*number)).expect("a code that is written down");
    print(&format!("{END}{number}>"));
}

fn shop_program(shop: &Shop, args: &[&str]) -> Ran {
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command.args(["--exact", "cli::mounted::an_application_is_one_of_these_tests", "--nocapture"]);
    command.env(ARGUMENTS, args.join("\t")).env("DATABASE_URL", &shop.url);
    let output = command.output().expect("run the application");
    let stdout = String::from_utf8(output.stdout).expect("UTF-8");
    let (_, answer) = stdout.split_once(&format!("{BEGIN}\n")).expect(&stdout);
    let (answer, rest) = answer.split_once(END).expect(&stdout);
    let exit = rest.split('>').next().expect("the code").parse().expect("a number");
    Ran { exit, stdout: answer.to_owned(), stderr: String::from_utf8(output.stderr).expect("UTF-8") }
}

#[tokio::test]
async fn a_mounted_command_knows_the_topics_on_sqlite() {
    let shop = Shop::fresh(Kind::Sqlite).await.expect("a file");
    let topics = shop_program(&shop, &["outbox", "topics", "--output", "json"]).json();
    let known: Vec<_> =
        topics["items"].as_array().expect("a list").iter().map(|topic| topic["topic"].as_str()).collect();
    assert_eq!(known, [Some("ledger"), Some("orders")], "with nothing in the tables");
    assert_eq!(topics["items"][0]["lanes"], 16);
    shop_program(&shop, &["outbox", "pause", "ledger"]).ok();
    for list in [&["outbox", "dead", "list", "--topic", "order"][..], &["outbox", "live", "list", "--topic", "order"]] {
        let unknown = shop_program(&shop, list);
        assert_eq!(unknown.exit, 1, "{}", unknown.stderr);
        assert!(unknown.stderr.contains(r#"["ledger", "orders"]"#), "{}", unknown.stderr);
    }
    let renamed = shop_program(&shop, &["outbox", "status", "--prefix", "shop_"]);
    assert!(renamed.exit == 2 && renamed.stderr.contains("names its tables itself"), "{renamed:?}");
}

#[tokio::test]
async fn a_mounted_command_decodes_payloads_on_sqlite() {
    let shop = Shop::fresh(Kind::Sqlite).await.expect("a file");
    let readable = shop.dead_letter(&order("42"), "refused: no").await.to_string();
    let broken = shop.dead_letter(&order("42").payload_bytes("{}"), "refused: no").await.to_string();
    let shown = |id: &str| shop_program(&shop, &["outbox", "dead", "show", id, "--output", "json"]).json();
    assert_eq!(shown(&readable)["payload_text"], "order number 42");
    let unreadable = shown(&broken);
    assert!(unreadable["payload_text"].is_null() && unreadable["payload"] == "{}", "{unreadable}");
    let problem = unreadable["payload_problem"].as_str().expect("a reason");
    assert!(problem.contains("it names no order"), "{problem}");
    let standalone = shop.run(&["dead", "show", &readable]).ok();
    assert!(
        standalone.contains(r#"{"order_id":42}"#) && standalone.contains("no message type is registered"),
        "{standalone}"
    );
}

#[tokio::test]
async fn completions_of_an_application_are_its_own_on_sqlite() {
    let shop = Shop::empty(Kind::Sqlite).await.expect("a file");
    let script = shop_program(&shop, &["outbox", "completions", "bash"]).ok();
    assert!(script.contains("_shop") && script.contains("serve") && script.contains("support-bundle"), "{script}");
}
