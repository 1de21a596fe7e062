//! Compares the public names of the library with a list, so that adding or removing one is a decision.
//!
//! It reads the sources, because rustdoc lists names only with a nightly compiler. A name is an item that users can write: `module::Item`
//! from the crate's root, whatever features it needs. Methods and fields are not names.

use std::collections::{BTreeMap, BTreeSet};

use syn::{Item, Visibility};

use super::Source;
use super::module_tree::{Segments, child, is_test_only, leaves, module_of};

/// The most public names in all, modules included, and the most that an ordinary application uses.
const NAMES_MAX: usize = 200;
const MET_MAX: usize = 40;

/// Reports names that are missing in `list`, listed names that are not public, and too many names.
pub(super) fn check(sources: &[Source], list: &str) -> Vec<String> {
    let is_reexport = Crate::of(sources).names();
    let lines = || list.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
    let listed: BTreeSet<&str> = lines().map(|line| line.trim_start_matches('*').trim()).collect();
    let mut violations = Vec::new();
    for name in is_reexport.iter().filter(|name| !listed.contains(name.as_str())) {
        violations.push(format!("{name} is public and not listed: list it in tests/it/public_names.txt, or hide it"));
    }
    for name in listed.iter().filter(|name| !is_reexport.contains(**name)) {
        violations.push(format!("{name} is listed in tests/it/public_names.txt and not public"));
    }
    for (what, count, max) in [
        ("names are public", lines().count(), NAMES_MAX),
        ("names are marked with *", lines().filter(|line| line.starts_with('*')).count(), MET_MAX),
    ] {
        if count > max {
            violations.push(format!("{count} {what}, more than {max}"));
        }
    }
    violations
}

/// The modules by their paths.
#[derive(Default)]
struct Crate {
    modules: BTreeMap<Segments, Vec<Item>>,
    macros: Vec<String>,
}

impl Crate {
    fn of(sources: &[Source]) -> Self {
        let mut all = Self::default();
        for source in sources {
            if let Some(module) = module_of(&source.path) {
                all.add(&module, source.parse().items);
            }
        }
        all
    }

    fn add(&mut self, module: &Segments, items: Vec<Item>) {
        for item in &items {
            match item {
                Item::Mod(inner) => {
                    if let Some((_, items)) = &inner.content {
                        self.add(&child(module, &inner.ident.to_string()), items.clone());
                    }
                }
                Item::Macro(exported) if is_shown(&exported.attrs) => {
                    self.macros.extend(exported.ident.as_ref().map(ToString::to_string));
                }
                _ => {}
            }
        }
        self.modules.insert(module.clone(), items);
    }

    fn names(&self) -> BTreeSet<String> {
        let mut names: BTreeSet<String> = self.macros.iter().map(|name| format!("{name}!")).collect();
        self.shown_in(&Vec::new(), "", &mut names);
        names
    }

    /// Adds the public names of `module`, whose path for users is `prefix`.
    fn shown_in(&self, module: &Segments, prefix: &str, names: &mut BTreeSet<String>) {
        for item in self.modules.get(module).into_iter().flatten() {
            let Some((name, visibility, attributes)) = parts(item) else { continue };
            if !matches!(visibility, Visibility::Public(_)) || is_hidden(attributes) {
                continue;
            }
            match item {
                Item::Mod(_) => self.module(&child(module, &name), &format!("{prefix}{name}"), names),
                Item::Use(import) => {
                    for leaf in leaves(&import.tree) {
                        let target = self.absolute(module, &leaf.path);
                        match (leaf.name, target) {
                            (Some(name), Some(target)) if self.modules.contains_key(&target) => {
                                self.module(&target, &format!("{prefix}{name}"), names);
                            }
                            (Some(name), _) => drop(names.insert(format!("{prefix}{name}"))),
                            (None, Some(target)) => self.shown_in(&target, prefix, names),
                            (None, None) => drop(names.insert(format!("{prefix}{}::*", leaf.path.join("::")))),
                        }
                    }
                }
                _ => drop(names.insert(format!("{prefix}{name}"))),
            }
        }
    }

    fn module(&self, module: &Segments, name: &str, names: &mut BTreeSet<String>) {
        names.insert(name.to_owned());
        self.shown_in(module, &format!("{name}::"), names);
    }

    /// `path`, as it is written in `module`, from the root; `None` for another crate's.
    fn absolute(&self, module: &Segments, path: &[String]) -> Option<Segments> {
        let (first, rest) = path.split_first()?;
        let base = match first.as_str() {
            "crate" => Vec::new(),
            "self" => module.clone(),
            "super" => module[..module.len().checked_sub(1)?].to_vec(),
            name if self.modules.contains_key(&child(module, name)) => child(module, name),
            _ => return None,
        };
        Some([base.as_slice(), rest].concat())
    }
}

/// The name of an item that has one, who sees it, and its attributes.
fn parts(item: &Item) -> Option<(String, &Visibility, &[syn::Attribute])> {
    Some(match item {
        Item::Const(item) => (item.ident.to_string(), &item.vis, &item.attrs),
        Item::Enum(item) => (item.ident.to_string(), &item.vis, &item.attrs),
        Item::Fn(item) => (item.sig.ident.to_string(), &item.vis, &item.attrs),
        Item::Mod(item) => (item.ident.to_string(), &item.vis, &item.attrs),
        Item::Static(item) => (item.ident.to_string(), &item.vis, &item.attrs),
        Item::Struct(item) => (item.ident.to_string(), &item.vis, &item.attrs),
        Item::Trait(item) => (item.ident.to_string(), &item.vis, &item.attrs),
        Item::Type(item) => (item.ident.to_string(), &item.vis, &item.attrs),
        Item::Union(item) => (item.ident.to_string(), &item.vis, &item.attrs),
        Item::Use(item) => (String::new(), &item.vis, &item.attrs),
        _ => return None,
    })
}

/// Whether a macro is public.
fn is_shown(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|attribute| attribute.path().is_ident("macro_export")) && !is_hidden(attributes)
}

/// Whether an item is hidden from users: by `doc(hidden)`, or by a `cfg` for tests, documentation or one of our own features.
fn is_hidden(attributes: &[syn::Attribute]) -> bool {
    is_test_only(attributes)
        || attributes.iter().any(|attribute| {
            let syn::Meta::List(list) = &attribute.meta else { return false };
            let tokens = list.tokens.to_string().replace(' ', "");
            match list.path.get_ident() {
                Some(name) if name == "doc" => tokens == "hidden",
                Some(name) if name == "cfg" => {
                    tokens.starts_with("feature=\"_") || tokens.contains("(doc,") || tokens == "doc"
                }
                _ => false,
            }
        })
}

#[cfg(test)]
mod tests {
    use super::super::{assert_one_violation, file};
    use super::*;

    fn library() -> Vec<Source> {
        let files = [
            (
                "src/lib.rs",
                "pub mod store; mod error; pub use error::{Error as Failure, *}; pub use other::thing; \
                 #[cfg(feature = \"_internals\")] pub mod internals; #[cfg(any(doc, doctest))] pub mod guide;",
            ),
            (
                "src/error.rs",
                "pub struct Error; pub(crate) struct Ours; #[doc(hidden)] pub fn hidden() {} pub use deep::In; mod deep;",
            ),
            ("src/error/deep.rs", "pub struct In; pub struct Unseen;"),
            (
                "src/store/mod.rs",
                "pub use sql::Sql; mod sql; pub const MAX: u8 = 1; #[macro_export] macro_rules! cases { () => {} }",
            ),
            ("src/store/sql.rs", "pub struct Sql; #[doc(hidden)] #[macro_export] macro_rules! __ours { () => {} }"),
            ("src/internals.rs", "pub struct Nobody;"),
            ("src/guide.rs", "pub mod page {}"),
        ];
        files.iter().map(|(path, text)| file(path, text)).collect()
    }

    const LIST: &str = "# what is is_reexport\ncases!\nError\n* Failure\nIn\nstore\nstore::MAX\nstore::Sql\nthing\n";

    #[test]
    fn the_public_names_are_those_of_the_list() {
        assert_eq!(check(&library(), LIST), [""; 0]);
        assert_one_violation(
            &check(&library(), &LIST.replace("store::Sql\n", "")),
            "store::Sql is public and not listed",
        );
        assert_one_violation(&check(&library(), &format!("{LIST}gone\n")), "gone is listed");
    }

    #[test]
    fn there_are_not_too_many() {
        let many: String = (0..NAMES_MAX).map(|number| format!("* n{number}\n")).collect();
        let violations = check(&[], &format!("{many}more\n"));
        for expected in ["201 names are public, more than 200", "200 names are marked with *, more than 40"] {
            assert!(violations.contains(&expected.to_owned()), "{violations:?}");
        }
    }
}
