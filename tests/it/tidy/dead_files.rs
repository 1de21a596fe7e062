//! Every .rs file belongs to some crate: a file that no `mod` reaches is dead, and nothing else would say so.

use std::collections::BTreeSet;

use syn::visit::{self, Visit};

use super::Source;

pub(super) fn check(sources: &[Source]) -> Vec<String> {
    let mut reached = BTreeSet::new();
    let mut todo: Vec<(String, String)> = roots(sources).into_iter().map(|root| (folder_of(&root), root)).collect();
    while let Some((children, path)) = todo.pop() {
        let Some(source) = sources.iter().find(|source| source.path == path) else { continue };
        if reached.insert(path.clone()) {
            let mut finder = Finder { own: folder_of(&path), children, found: Vec::new() };
            finder.visit_file(&source.parse());
            todo.extend(finder.found);
        }
    }
    let dead = |source: &&Source| source.is_rust() && !reached.contains(&source.path);
    sources.iter().filter(dead).map(|source| format!("{} belongs to no crate", source.path)).collect()
}

/// The files that Cargo starts from.
fn roots(sources: &[Source]) -> BTreeSet<String> {
    let mut roots = BTreeSet::new();
    for manifest in sources.iter().filter(|source| folder_of(&source.path) + "Cargo.toml" == source.path) {
        let base = folder_of(&manifest.path);
        let stated = manifest.text.lines().filter_map(|line| line.strip_prefix("path = \"")?.strip_suffix('"'));
        roots.extend(stated.map(|path| format!("{base}{path}")));
        roots.extend(["src/lib.rs", "src/main.rs", "build.rs"].map(|path| format!("{base}{path}")));
        let found = ["src/bin/", "tests/", "examples/", "benches/"];
        let searched =
            found.iter().filter(|folder| !(**folder == "tests/" && manifest.text.contains("autotests = false")));
        for folder in searched.map(|folder| format!("{base}{folder}")) {
            let paths = sources.iter().map(|source| &source.path);
            roots.extend(paths.filter(|path| folder_of(path) == folder && path.ends_with(".rs")).cloned());
            roots.extend(sources.iter().map(|source| &source.path).filter(|path| is_program(path, &folder)).cloned());
        }
    }
    roots
}

/// `examples/name/main.rs`
fn is_program(path: &str, folder: &str) -> bool {
    path.strip_prefix(folder).and_then(|rest| rest.strip_suffix("/main.rs")).is_some_and(|name| !name.contains('/'))
}

/// The folder of a path, with its slash; empty at the top.
fn folder_of(path: &str) -> String {
    path.rfind('/').map_or(String::new(), |slash| path[..=slash].to_owned())
}

/// `path` as seen from `folder`, its `..` resolved.
fn joined(folder: &str, path: &str) -> String {
    let mut parts: Vec<_> = folder.split_terminator('/').collect();
    for part in path.split('/') {
        match part {
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    parts.join("/")
}

struct Finder {
    /// The folder of the file.
    own: String,
    /// The folder of its modules' files.
    children: String,
    /// Of each module's file: the folder of its modules, and its path.
    found: Vec<(String, String)>,
}

impl<'ast> Visit<'ast> for Finder {
    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        let inner = format!("{}{}/", self.children, item.ident);
        if item.content.is_some() {
            let outer = std::mem::replace(&mut self.children, inner);
            visit::visit_item_mod(self, item);
            self.children = outer;
            return;
        }
        for attribute in &item.attrs {
            if let syn::Meta::NameValue(value) = &attribute.meta
                && let syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Str(path), .. }) = &value.value
                && value.path.is_ident("path")
            {
                let path = joined(&self.own, &path.value());
                self.found.push((folder_of(&path), path));
            }
        }
        self.found.push((inner.clone(), format!("{}{}.rs", self.children, item.ident)));
        self.found.push((inner.clone(), format!("{inner}mod.rs")));
    }
}

#[cfg(test)]
mod tests {
    use super::super::{assert_one_violation, file};
    use super::*;

    const ROOT: &str = "[package]\nautotests = false\n[[test]]\npath = \"tests/it/main.rs\"\n";

    fn dead(files: &[(&str, &str)]) -> Vec<String> {
        check(&files.iter().map(|(path, text)| file(path, text)).collect::<Vec<_>>())
    }

    #[test]
    fn modules_of_every_form_are_reached() {
        let files = [
            ("Cargo.toml", ROOT),
            ("src/lib.rs", "mod a; mod b; mod inline { mod c; } #[path = \"odd.rs\"] mod d;"),
            ("src/a.rs", "mod deep;"),
            ("src/a/deep.rs", ""),
            ("src/b/mod.rs", "#[cfg(test)] mod tests;"),
            ("src/b/tests.rs", ""),
            ("src/inline/c.rs", ""),
            ("src/odd.rs", ""),
            ("tests/it/main.rs", "mod x;"),
            ("tests/it/x.rs", ""),
            ("examples/quickstart.rs", ""),
            ("examples/shop/main.rs", "mod helper;"),
            ("examples/shop/helper.rs", ""),
            ("crates/derive/Cargo.toml", "autotests = false"),
            ("other/Cargo.toml", ""),
            ("other/tests/any.rs", ""),
            ("crates/derive/src/lib.rs", "#[cfg(test)] #[path = \"../tests/mod.rs\"] mod tests;"),
            ("crates/derive/tests/mod.rs", "mod inner;"),
            ("crates/derive/tests/inner.rs", ""),
            ("crates/derive/tests/ui/no_key.rs", ""),
        ];
        assert_eq!(dead(&files), [""; 0]);
    }

    #[test]
    fn a_file_without_a_mod_is_dead() {
        let lib = ("src/lib.rs", "mod a;");
        assert_one_violation(&dead(&[("Cargo.toml", ROOT), lib, ("src/a.rs", ""), ("src/b.rs", "")]), "src/b.rs");
        assert_one_violation(&dead(&[("Cargo.toml", ROOT), lib, ("src/a.rs", ""), ("src/x/a.rs", "")]), "src/x/a.rs");
        assert_one_violation(&dead(&[("Cargo.toml", ROOT), ("tests/alone.rs", "")]), "tests/alone.rs");
        assert_one_violation(
            &dead(&[("Cargo.toml", ROOT), ("examples/shop/main.rs", ""), ("examples/shop/b.rs", "")]),
            "shop/b.rs",
        );
    }
}
