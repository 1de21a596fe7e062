//! Crates too small for a list of layers: their files import in no cycle, so that one order of reading them exists.

use std::collections::{BTreeMap, BTreeSet};

use super::{Source, used_paths};

/// Folders of such crates; each file in one is a module of the crate's root.
const CRATES: &[&str] = &["crates/derive/src", "crates/diesel-outbox-otel/src", "crates/diesel-outbox-web/src"];

pub(super) fn check(sources: &[Source]) -> Vec<String> {
    CRATES.iter().flat_map(|folder| cycles(folder, sources)).collect()
}

/// Takes away what imports nothing that is left, until nothing changes; what stays imports in a cycle.
fn cycles(folder: &str, sources: &[Source]) -> Option<String> {
    let mut left: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
    for source in sources {
        let name = source.path.strip_prefix(folder).and_then(|path| path.strip_prefix('/')?.strip_suffix(".rs"));
        if let Some(name) = name.filter(|name| !name.contains('/') && *name != "lib") {
            left.insert(name, imports(source, name));
        }
    }
    loop {
        let names: BTreeSet<String> = left.keys().map(|name| (*name).to_owned()).collect();
        left.retain(|_, imports| !imports.is_disjoint(&names));
        if left.len() == names.len() {
            break;
        }
    }
    let names: Vec<&str> = left.keys().copied().collect();
    (!left.is_empty()).then(|| format!("{folder}: these import each other in a cycle: {}", names.join(", ")))
}

fn imports(source: &Source, name: &str) -> BTreeSet<String> {
    let used = used_paths::of(&source.parse(), &vec![name.to_owned()]).into_iter().map(|used| used.path);
    let of_ours = used.filter(|path| path.first().is_some_and(|root| root == "crate" || root == "super"));
    of_ours.filter_map(|path| path.into_iter().nth(1)).collect()
}

#[cfg(test)]
mod tests {
    use super::super::{assert_one_violation, file};
    use super::*;

    #[test]
    fn a_cycle_through_a_third_file_is_found() {
        let chain = [
            file("crates/derive/src/lib.rs", "mod a; mod b; mod c; use crate::a::A;"),
            file("crates/derive/src/a.rs", "use crate::b::B;"),
            file("crates/derive/src/b.rs", "fn f() { crate::c::g() } use syn::Expr;"),
            file("crates/derive/src/c.rs", "use std::fmt;"),
        ];
        assert_eq!(check(&chain), [""; 0]);
        let [lib, a, b, _] = chain;
        let cycle = [lib, a, b, file("crates/derive/src/c.rs", "use super::a::A; mod tests { use super::*; }")];
        assert_one_violation(&check(&cycle), "a, b, c");
    }
}
