//! Dead letters that are edited, in an editor or by files.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use diesel_outbox::admin::LiveFilter;
use diesel_outbox::{Message, MessageId};
use serde_json::Value;

use super::program::{Ran, program};
use super::shop::{Kind, Shop, order};

/// An editor that does this to the file.
fn editor(folder: &Path, does: &str) -> PathBuf {
    let path = folder.join("editor");
    fs::write(&path, format!("#!/bin/sh\n{does}\n")).expect("write");
    fs::set_permissions(&path, Permissions::from_mode(0o755)).expect("make it a program");
    path
}

fn edit(shop: &Shop, letter: MessageId, editor: &Path, more: &[&str]) -> Ran {
    let id = letter.to_string();
    let args = [&["dead", "edit", &id, "--output", "json"], more].concat();
    Ran::of(program(&shop.url, &args).env("EDITOR", editor).output().expect("run the program"))
}

#[tokio::test]
async fn a_dead_letter_is_edited_in_the_editor_on_sqlite() {
    let (shop, folder) = (Shop::fresh(Kind::Sqlite).await.expect("a file"), tempfile::tempdir().expect("a folder"));
    let letter = shop.dead_letter(&order("42").header("raw", [0xff]), "refused: no such field").await;
    let nothing = editor(folder.path(), "true");
    let ran = edit(&shop, letter, &nothing, &["--yes"]);
    assert!(ran.exit == 1 && ran.stderr.contains("nothing was changed"), "{ran:?}");
    let broken = editor(folder.path(), "echo '{' > \"$1\"");
    let ran = edit(&shop, letter, &broken, &["--yes"]);
    assert!(ran.exit == 1 && ran.stderr.contains("the edited message is not one"), "{ran:?}");
    let failing = editor(folder.path(), "exit 3");
    let ran = edit(&shop, letter, &failing, &["--yes"]);
    assert!(ran.exit == 1 && ran.stderr.contains("failed"), "{ran:?}");

    let renaming = editor(folder.path(), "sed -i 's/order_id/order_number/; s/order.placed/order.corrected/' \"$1\"");
    let refused = edit(&shop, letter, &renaming, &[]);
    assert!(refused.exit == 2 && refused.stderr.contains("--yes"), "{refused:?}");
    let diff = [r#"-  "kind": "order.placed""#, r#"+  "kind": "order.corrected""#];
    assert!(diff.iter().all(|line| refused.stderr.contains(line)), "{}", refused.stderr);
    let done = edit(&shop, letter, &renaming, &["--yes"]).json();
    let new: MessageId = done["replaced_by"].as_str().expect("an id").parse().expect("a message id");
    assert_ne!(new, letter);

    let live = shop.admin().live_message(new).await.expect("it is sent");
    assert_eq!((live.kind.as_str(), live.key.as_deref()), ("order.corrected", Some("42")));
    assert_eq!(live.payload.as_deref(), Some(&br#"{"order_number":42}"#[..]));
    let headers = live.headers().expect("headers");
    assert_eq!(
        (headers.get("source"), headers.get("raw")),
        (Some(&b"shop"[..]), Some(&[0xff][..])),
        "they stay as they were"
    );
    let gone = shop.run(&["dead", "show", &letter.to_string()]);
    assert!(gone.exit == 1 && gone.stderr.contains("is not a dead letter"), "{gone:?}");
}

#[tokio::test]
async fn a_dead_letter_takes_its_content_from_files_on_sqlite() {
    let (shop, folder) = (Shop::fresh(Kind::Sqlite).await.expect("a file"), tempfile::tempdir().expect("a folder"));
    let payload = folder.path().join("payload");
    fs::write(&payload, [0xff, 0x00]).expect("write");
    let letter = shop.dead_letter(&order("1"), "refused: no").await.to_string();
    let path = payload.to_str().expect("a plain path");
    let args = [
        "dead",
        "edit",
        &letter,
        "--payload-file",
        path,
        "--topic",
        "invoices",
        "--key",
        "9",
        "--header",
        "source=crm",
        "--yes",
    ];
    let unknown = shop.run(&args);
    assert!(unknown.exit == 1 && unknown.stderr.contains(r#"["orders"]"#), "the tables know no invoices: {unknown:?}");
    let other = shop.enqueue(&Message::to("invoices")).await.to_string();
    shop.run(&args).ok();
    shop.run(&["live", "cancel", &other, "--yes"]).ok();
    let page = shop.admin().live_messages(&LiveFilter::of("invoices"), None, 10).await.expect("live");
    let [message] = page.items.as_slice() else { panic!("{page:?}") };
    assert_eq!((message.payload.as_deref(), message.key.as_deref()), (Some(&[0xff, 0x00][..]), Some("9")));
    assert_eq!(message.headers_json, r#"[["source","crm"]]"#, "a header is set, not added");

    let letter = shop.dead_letter(&Message::to("orders").key("1"), "refused: no").await.to_string();
    let whole = folder.path().join("message.json");
    let document = r#"{"topic":"orders","key":"1","kind":"k","headers":[],"payload":null}"#;
    fs::write(&whole, document).expect("write");
    let done = shop
        .run(&["dead", "edit", &letter, "--file", whole.to_str().expect("a path"), "--yes", "--output", "json"])
        .json();
    assert!(done["diff"].as_str().expect("a diff").contains(r#"+  "kind": "k""#), "{done}");
    let refused = shop.dead_letter(&order("1"), "refused: no").await.to_string();
    let ran = shop.run(&["dead", "edit", &refused, "--header", "outbox-kind=x", "--yes"]);
    assert!(ran.exit == 1 && ran.stderr.contains("outbox-kind"), "checked as at enqueue: {ran:?}");
    let Value::Array(left) = &shop.run(&["dead", "list", "--output", "json"]).json()["items"] else {
        panic!("no list")
    };
    assert_eq!(left.len(), 1);
}
