//! Who may import whom: a file imports from lower layers, and within its layer from files listed before it.

use super::adapters::ADAPTERS;
use super::consumers::CONSUMERS;
use super::engine::ENGINE;
use super::module_tree::{Modules, module_of};
use super::outermost::OUTERMOST;
use super::{Source, used_paths};

/// A name, and the modules of its files in the order in which they may import each other.
pub(super) type Layer = (&'static str, &'static [&'static str]);

/// The layers of the library, lowest first. `src/lib.rs` is the map of them all and stands outside.
pub(super) const LAYERS: &[Layer] = &[
    (
        "values",
        &[
            "lane",
            "clock",
            "limits::admin",
            "limits::consumers",
            "limits::http",
            "limits::inbox",
            "limits::kafka",
            "limits::lanes",
            "limits::messages",
            "limits::notices",
            "limits::relay",
            "limits::retention",
            "limits::rocketmq",
            "limits::stores",
            "limits::topics",
            "limits",
            "limits::setters",
            "limits::configured",
            "events::event",
            "events::table",
            "events",
            "repeated",
            "naming",
            "metrics",
            "panic_guard",
            "crash_points",
            "injected_bugs",
            "codec::error",
            "codec",
            "message::headers",
            "message::id",
            "message::envelope",
            "message::delivery",
            "message",
            "receipts::status",
            "receipts::waiters",
            "receipts",
            "message::delayed",
            "message::builder",
            "message::derive",
            "retry",
            "retry::configured",
            "retention",
            "topic::error",
            "topic",
            "topic::configured",
            "serialize",
        ],
    ),
    (
        "interfaces",
        &[
            "store::error",
            "store::row",
            "store::half",
            "store::horizon",
            "store::requeue",
            "store::audit",
            "store::parked",
            "store::history",
            "store::lanes",
            "store::poll",
            "store::lane_check",
            "store::notices",
            "store::dead_letter_reason",
            "store::dead_letter",
            "store::live",
            "store::live_scan",
            "store::admin",
            "store::interface",
            "store::measured::timer",
            "store::measured",
            "store::measured::audit",
            "store::measured::lanes",
            "store::measured::history",
            "store::measured::notices",
            "store::sealed",
            "store",
            "transport::outcome",
            "transport",
            "transport::in_flight",
            "transport::outcome_sender",
            "transport::exactly_once",
            "transport::fence",
        ],
    ),
    ("adapters", ADAPTERS),
    ("engine", ENGINE),
    (
        "facade",
        &[
            "inbox::prune_sql",
            "enqueue",
            "enqueue::error",
            "enqueue::interceptor",
            "enqueue::encode",
            "enqueue::statement",
            "enqueue::statement::mysql",
            "enqueue::statement::postgres",
            "enqueue::statement::sqlite",
            "enqueue::statement::still_there",
            "inbox",
            "inbox::key",
            "inbox::error",
            "inbox::claims",
            "inbox::statement",
            "inbox::statement::mysql",
            "inbox::statement::postgres",
            "inbox::statement::sqlite",
            "enqueue::mark",
            "enqueue::backend_async",
            "enqueue::backend_sync",
            "hook::pending",
            "hook::savepoints",
            "hook",
            "hook::connection",
            "outbox::unsent",
            "outbox",
            "outbox::write",
            "outbox::unsent_check",
            "outbox::relay",
            "outbox::pending_commit",
            "outbox::commit_async",
            "outbox::probe",
            "outbox::migrate",
            "outbox::migrate_async",
            "outbox::migrate_revert_async",
            "outbox::enqueue_async",
            "outbox::enqueue_sync",
            "outbox::batch",
            "outbox::testing",
            "outbox::transaction",
            "outbox::transaction::buffered",
            "outbox::transaction::connection_sync",
            "outbox::transaction::connection_async",
            "outbox::transaction::inner_connection",
            "outbox::transaction::begin",
            "outbox::transaction::begin_async",
            "outbox::transaction::begin_together",
            "outbox::transaction::checked_commit",
            "outbox::transaction::checked_commit_async",
            "outbox::transaction::pipeline",
            "outbox::transaction::run_sync",
            "outbox::transaction::run_async",
            "half_messages::error",
            "half_messages::resolver",
            "half_messages::shared",
            "half_messages::message",
            "half_messages",
            "outbox::test_hook",
            "outbox::builder",
            "inbox::builder",
            "inbox::outcomes",
            "inbox::find",
            "inbox::prune",
            "inbox::prune_async",
            "inbox::migrate",
            "inbox::migrate_async",
            "inbox::once",
            "inbox::pipeline",
            "inbox::asynchronous",
        ],
    ),
    ("consumers", CONSUMERS),
    ("edges", OUTERMOST),
];

/// Complains about files that are in no layer, about imports that go up, and about a list that is not that of the files.
pub(super) fn check(sources: &[Source], layers: &[Layer]) -> Vec<String> {
    let order: Vec<(&str, &str)> =
        layers.iter().flat_map(|(layer, modules)| modules.iter().map(|module| (*layer, *module))).collect();
    let place = |module: &str| order.iter().position(|(_, listed)| *listed == module);
    let modules = Modules::of(sources);
    let mut violations = check_list(sources, &order);
    for source in sources {
        let Some(module) = module_of(&source.path).filter(|module| !module.is_empty()) else { continue };
        if modules.is_test(&module) {
            continue;
        }
        let name = module.join("::");
        let Some(own) = place(&name) else {
            violations.push(format!("{} ({name}) is in no layer: list it in tests/it/tidy/layers.rs", source.path));
            continue;
        };
        for used in used_paths::of(&source.parse(), &module) {
            let Some(target) = modules.file_of(&used.module, &used.path) else { continue };
            // A parent shows its children's items as its own; it does not use them by that.
            let is_reexport = used.reexported && target.len() > module.len() && target.starts_with(&module);
            let target = target.join("::");
            if is_reexport || target == name {
                continue;
            }
            let position = format!("{}:{}", source.path, used.line);
            let path = used.path.join("::");
            match place(&target) {
                Some(at) if at < own => {}
                Some(at) => violations.push(format!(
                    "{position}: {} `{name}` uses `{path}`, which is {} `{target}`, listed after it",
                    order[own].0, order[at].0
                )),
                None if target.is_empty() => violations.push(format!(
                    "{position}: `{name}` uses `{path}`, which stands in the root; the root is only a map"
                )),
                None => {} // it has its own violation
            }
        }
    }
    violations.sort();
    violations.dedup();
    violations
}

/// A name that is listed twice would hide an import between its places, and one without a file hides a misspelt one.
fn check_list(sources: &[Source], order: &[(&str, &str)]) -> Vec<String> {
    let files: Vec<_> = sources.iter().filter_map(|source| Some(module_of(&source.path)?.join("::"))).collect();
    let mut violations = Vec::new();
    for (at, (_, listed)) in order.iter().enumerate() {
        if order[..at].iter().any(|(_, earlier)| earlier == listed) {
            violations.push(format!("{listed} is listed twice"));
        }
        if !files.iter().any(|file| file == listed) {
            violations.push(format!("{listed} is listed and has no file"));
        }
    }
    violations
}

#[cfg(test)]
mod tests {
    use super::super::{assert_one_violation, file};
    use super::*;

    const TABLE: &[Layer] = &[
        ("values", &["error", "topic"]),
        ("interfaces", &["store"]),
        ("adapters", &["store::pg"]),
        ("engine", &["relay"]),
    ];

    /// A library in which everything is right, plus one more line in one file.
    fn violations(path: &str, line: &str) -> Vec<String> {
        let files = [
            ("src/lib.rs", "pub mod store; mod error; pub use store::Pg; pub struct Rooted;"),
            ("src/error.rs", "pub struct Error; #[macro_export] macro_rules! exported { () => {} }"),
            ("src/topic.rs", "use crate::error::Error; pub struct Topic; pub const MAX: u32 = 1;"),
            ("src/store/mod.rs", "pub mod pg; pub use pg::Pg; use crate::topic::Topic; pub trait Store {}"),
            ("src/store/pg.rs", "use super::Store; pub struct Pg; pub mod inner { pub struct In; }"),
            ("src/relay.rs", "use crate::{error::Error, store::{self, Store}}; #[cfg(test)] mod tests;"),
            ("src/relay/tests.rs", "use crate::store::Pg;"),
            ("tests/it/main.rs", "use crate::anything;"),
        ];
        let add = |(at, text): &(&str, &str)| file(at, &format!("{text}\n{}", if *at == path { line } else { "" }));
        check(&files.iter().map(add).collect::<Vec<_>>(), TABLE)
    }

    #[test]
    fn imports_down_the_layers_are_fine() {
        assert_eq!(violations("src/relay.rs", "use crate::store::pg::{self, Pg as Other};"), [""; 0]);
        assert_eq!(violations("src/relay.rs", "use crate::Pg; fn f() { crate::exported!() }"), [""; 0]);
        assert_eq!(violations("src/topic.rs", "#[cfg(test)] mod tests { use crate::relay::Relay; }"), [""; 0]);
        assert_eq!(violations("src/topic.rs", "use std::sync::Arc; fn f() { tokio::spawn(g()); self::f(); }"), [""; 0]);
    }

    #[test]
    fn every_import_of_a_higher_layer_is_found() {
        let upward_imports = [
            ("src/error.rs", "use crate::relay::Relay;"),
            ("src/error.rs", "use crate::{topic::Topic as T};"),
            ("src/error.rs", "use super::topic;"),
            ("src/error.rs", "use super::topic::*;"),
            ("src/error.rs", "fn f() -> crate::topic::Topic { todo!() }"),
            ("src/error.rs", "fn f() { use crate::topic::Topic; }"),
            ("src/error.rs", "fn f() { info!(max = { crate::topic::MAX }); }"),
            ("src/error.rs", "#[diesel(table = crate::topic::MAX)] struct S;"),
            ("src/error.rs", "mod inner { use super::super::topic::Topic; }"),
            ("src/error.rs", "macro_rules! m { () => { $crate::topic::MAX } }"),
        ];
        for (path, line) in upward_imports {
            assert_one_violation(&violations(path, line), "listed after it");
        }
    }

    #[test]
    fn an_adapter_is_found_behind_reexports() {
        for line in ["use crate::store::Pg;", "use crate::Pg;", "use crate::store; fn f(_: store::Pg) {}"] {
            let found = violations("src/topic.rs", line);
            assert!(found.iter().any(|violation| violation.contains("adapters `store::pg`")), "{line}: {found:?}");
        }
        assert_one_violation(&violations("src/store/mod.rs", "use pg::inner::In;"), "adapters `store::pg`");
        assert_one_violation(&violations("src/store/mod.rs", "fn f() { pg::run() }"), "adapters `store::pg`");
    }

    #[test]
    fn the_root_only_declares_modules() {
        assert_one_violation(&violations("src/relay.rs", "use crate::Rooted;"), "only a map");
    }

    #[test]
    fn a_file_that_is_not_listed_is_one_complaint() {
        assert_one_violation(
            &check(&[file("src/new.rs", "use crate::other;")], &[]),
            "src/new.rs (new) is in no layer",
        );
    }

    #[test]
    fn the_list_is_that_of_the_files() {
        let files = [file("src/error.rs", ""), file("src/topic.rs", "")];
        assert_eq!(check(&files, &[("values", &["error", "topic"])]), [""; 0]);
        assert_one_violation(
            &check(&files, &[("values", &["error", "topic"]), ("interfaces", &["error"])]),
            "error is listed twice",
        );
        assert_one_violation(
            &check(&files, &[("values", &["error", "topic", "topics"])]),
            "topics is listed and has no file",
        );
    }
}
