//! Calls that are right in one place of the library and wrong in any other. `clippy.toml` bans what is wrong everywhere;
//! it cannot tell the library from its tests.

use super::names::module_of;
use super::{Source, edges};

/// The end of a path, the modules in which it may stand, and why nowhere else.
const PLACES: &[(&str, &[&str], &str)] = &[
    ("tokio::spawn", SPAWNING, WHY_SPAWNING),
    ("task::spawn", SPAWNING, WHY_SPAWNING),
    ("thread::spawn", SPAWNING, WHY_SPAWNING),
];

/// The engine, the transport that plays a slow broker, and what may not be dropped in its middle: calls to SQLite, and the
/// opening of a connection.
const SPAWNING: &[&str] =
    &["relay", "transport::memory", "store::sql::calls", "store::session::connections", "store::session::tests"];
const WHY_SPAWNING: &str = "tasks belong to the engine, which ends them at shutdown";

pub(super) fn check(sources: &[Source]) -> Vec<String> {
    let mut complaints = Vec::new();
    for source in sources {
        let Some(module) = module_of(&source.path) else { continue };
        let name = module.join("::");
        let within = |place: &&str| name == *place || name.starts_with(&format!("{place}::"));
        for used in edges::of(&source.parse(), &module) {
            let path = used.path.join("::");
            let banned = PLACES.iter().filter(|(end, allowed, _)| path.ends_with(end) && !allowed.iter().any(within));
            complaints.extend(banned.map(|(.., why)| format!("{}:{}: {path}: {why}", source.path, used.line)));
        }
    }
    complaints
}

#[cfg(test)]
mod tests {
    use super::super::{assert_one, file};
    use super::*;

    #[test]
    fn tasks_start_in_the_engine_only() {
        assert_eq!(check(&[file("src/relay/mod.rs", "fn f() { tokio::spawn(x); set.spawn(x); }")]), [""; 0]);
        assert_eq!(check(&[file("src/a.rs", "#[cfg(test)] mod tests { fn f() { tokio::spawn(x); } }")]), [""; 0]);
        for text in
            ["fn f() { tokio::spawn(x); }", "use tokio::task::spawn;", "fn f() { select!(_ = tokio::spawn(x)) }"]
        {
            assert_one(&check(&[file("src/relays.rs", text)]), "src/relays.rs:1");
        }
    }
}
