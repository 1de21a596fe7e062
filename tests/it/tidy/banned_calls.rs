//! Calls that are right in one place of the library and wrong in any other. `clippy.toml` bans what is wrong everywhere;
//! it cannot tell the library from its tests.

use super::module_tree::module_of;
use super::{Source, used_paths};

/// The end of a path, the modules in which it may stand, and why nowhere else.
const BANNED_CALLS: &[(&str, &[&str], &str)] = &[
    ("tokio::spawn", MAY_SPAWN, WHY_NOT_SPAWN),
    ("task::spawn", MAY_SPAWN, WHY_NOT_SPAWN),
    ("thread::spawn", MAY_SPAWN, WHY_NOT_SPAWN),
];

/// The engine, the transport that plays a slow broker, and what may not be dropped in its middle: calls to SQLite, and the
/// opening of a connection.
const MAY_SPAWN: &[&str] =
    &["relay", "transport::memory", "store::sql::executor", "store::pool::connections", "store::pool::tests"];
const WHY_NOT_SPAWN: &str = "tasks belong to the engine, which ends them at shutdown";

pub(super) fn check(sources: &[Source]) -> Vec<String> {
    let mut violations = Vec::new();
    for source in sources {
        let Some(module) = module_of(&source.path) else { continue };
        let name = module.join("::");
        let within = |place: &&str| name == *place || name.starts_with(&format!("{place}::"));
        for used in used_paths::of(&source.parse(), &module) {
            let path = used.path.join("::");
            let banned =
                BANNED_CALLS.iter().filter(|(end, allowed, _)| path.ends_with(end) && !allowed.iter().any(within));
            violations.extend(banned.map(|(.., why)| format!("{}:{}: {path}: {why}", source.path, used.line)));
        }
    }
    violations
}

#[cfg(test)]
mod tests {
    use super::super::{assert_one_violation, file};
    use super::*;

    #[test]
    fn tasks_start_in_the_engine_only() {
        assert_eq!(check(&[file("src/relay/mod.rs", "fn f() { tokio::spawn(x); set.spawn(x); }")]), [""; 0]);
        assert_eq!(check(&[file("src/a.rs", "#[cfg(test)] mod tests { fn f() { tokio::spawn(x); } }")]), [""; 0]);
        for text in
            ["fn f() { tokio::spawn(x); }", "use tokio::task::spawn;", "fn f() { select!(_ = tokio::spawn(x)) }"]
        {
            assert_one_violation(&check(&[file("src/relays.rs", text)]), "src/relays.rs:1");
        }
    }
}
