//! The names of the workspace's programs, libraries and benches.

use std::collections::BTreeSet;

use crate::commands::metadata;

/// `cargo clean --workspace` removes files by name. With a bench called `http` it also removed that of the crate, and CI built the
/// RocketMQ client and all else behind it again each time.
#[test]
fn no_target_is_called_like_a_dependency() {
    let metadata = metadata();
    let members = metadata["workspace_members"].as_array().expect("members");
    let names = |of_members: bool| -> BTreeSet<String> {
        let packages = metadata["packages"].as_array().expect("packages").iter();
        let targets = packages
            .filter(|package| members.contains(&package["id"]) == of_members)
            .flat_map(|package| package["targets"].as_array().expect("targets"))
            // Cargo builds no examples and tests of dependencies.
            .filter(|target| {
                of_members || ["lib", "proc-macro"].iter().any(|kind| target["kind"].to_string().contains(kind))
            });
        targets.map(|target| target["name"].as_str().expect("a name").replace('-', "_")).collect()
    };
    let (own, others) = (names(true), names(false));
    assert!(own.contains("diesel_outbox") && others.contains("http"));
    assert_eq!(own.intersection(&others).collect::<Vec<_>>(), Vec::<&String>::new());
}
