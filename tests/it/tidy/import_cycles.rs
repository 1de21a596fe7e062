//! Crates too small for a list of layers: their modules import in no cycle, so that one order of reading them exists. A folder is one
//! module.

use std::collections::{BTreeMap, BTreeSet};

use super::module_tree::Segments;
use super::{Source, used_paths};

/// Folders of such crates; each file or folder in one is a module of the crate's root.
const CRATES: &[&str] = &[
    "crates/derive/src",
    "crates/diesel-outbox-cli/src",
    "crates/diesel-outbox-codecs/src",
    "crates/diesel-outbox-otel/src",
    "crates/diesel-outbox-verify/src",
    "crates/diesel-outbox-web/src",
];

pub(super) fn check(sources: &[Source]) -> Vec<String> {
    CRATES.iter().flat_map(|folder| cycles(folder, sources)).collect()
}

/// Takes away what imports nothing that is left, until nothing changes; what stays imports in a cycle.
fn cycles(folder: &str, sources: &[Source]) -> Option<String> {
    let mut left: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for source in sources {
        let Some(module) = module_of(folder, &source.path) else { continue };
        let name = root_module(&module);
        if !["lib", "main"].contains(&name) {
            left.entry(name.to_owned()).or_default().extend(imports(source, &module));
        }
    }
    loop {
        let names: BTreeSet<String> = left.keys().cloned().collect();
        left.retain(|_, imports| !imports.is_disjoint(&names));
        if left.len() == names.len() {
            break;
        }
    }
    let names: Vec<&str> = left.keys().map(String::as_str).collect();
    (!left.is_empty()).then(|| format!("{folder}: these import each other in a cycle: {}", names.join(", ")))
}

/// The module of a file, from the crate's root.
fn module_of(folder: &str, path: &str) -> Option<Segments> {
    let path = path.strip_prefix(folder)?.strip_prefix('/')?.strip_suffix(".rs")?;
    let path = path.strip_suffix("/mod").unwrap_or(path);
    Some(path.split('/').map(str::to_owned).collect())
}

/// The module of the root that a module belongs to.
fn root_module(module: &Segments) -> &str {
    module.first().map_or("", String::as_str)
}

/// The other modules of the root that a file uses.
fn imports(source: &Source, module: &Segments) -> BTreeSet<String> {
    let of_root = |used: &Segments, within: &Segments| {
        let above = used.iter().take_while(|part| *part == "super").count();
        match used.first()?.as_str() {
            "crate" => used.get(1).cloned(),
            // What is left above the root is a name of the root's.
            "super" if above >= within.len() => used.get(above).cloned(),
            _ => None,
        }
    };
    let used = used_paths::of(&source.parse(), module).into_iter();
    let names = used.filter_map(|used| of_root(&used.path, &used.module));
    names.filter(|name| name != root_module(module)).collect()
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

    #[test]
    fn a_folder_is_one_module() {
        let within = [
            file("crates/derive/src/a/mod.rs", "mod b; mod c; use self::b::B; use crate::d::D;"),
            file("crates/derive/src/a/b.rs", "use super::c::C; use crate::a::E;"),
            file("crates/derive/src/a/c.rs", "use super::b::B;"),
            file("crates/derive/src/d.rs", ""),
        ];
        assert_eq!(check(&within), [""; 0]);
        let [a, b, _, d] = within;
        let cycle =
            [a, b, file("crates/derive/src/a/c.rs", "use super::super::d::D;"), d, file("crates/derive/src/e.rs", "")];
        assert_eq!(check(&cycle), [""; 0]);
        let [a, b, c, _, e] = cycle;
        assert_one_violation(&check(&[a, b, c, file("crates/derive/src/d.rs", "use super::a::A;"), e]), "a, d");
    }
}
