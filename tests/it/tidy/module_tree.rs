//! The modules of the library and what a path in one of them refers to, re-exports followed to where the item stands.

use std::collections::{BTreeMap, BTreeSet};

use syn::{Item, UseTree};

use super::Source;

/// A path by its segments; of a module from the crate's root, where the root is empty.
pub(super) type Segments = Vec<String>;

/// One module, a file's or an inline one.
#[derive(Debug, Default)]
pub(super) struct Scope {
    /// The module of the file it stands in.
    file: Segments,
    defined: BTreeSet<String>,
    /// Names brought in by `use`, with the path as written.
    imported: BTreeMap<String, Segments>,
    globs: Vec<Segments>,
}

#[derive(Debug, Default)]
pub(super) struct Modules {
    scopes: BTreeMap<Segments, Scope>,
    /// Macros that stand in the root by `#[macro_export]`, and the modules they are written in.
    exported: BTreeMap<String, Segments>,
    /// Declared `#[cfg(test)] mod tests;`.
    tests: Vec<Segments>,
}

/// How often a re-export is followed before it is taken for a cycle.
const REEXPORTS_MAX: u32 = 16;

impl Modules {
    pub(super) fn of(sources: &[Source]) -> Self {
        let mut modules = Self::default();
        for source in sources {
            if let Some(module) = module_of(&source.path) {
                modules.add(&module, &module, &source.parse().items);
            }
        }
        modules
    }

    fn add(&mut self, module: &Segments, file: &Segments, items: &[Item]) {
        let mut scope = Scope { file: file.clone(), ..Scope::default() };
        for item in items {
            match item {
                Item::Use(import) => {
                    for leaf in leaves(&import.tree) {
                        match leaf.name {
                            Some(name) => drop(scope.imported.insert(name, leaf.path)),
                            None => scope.globs.push(leaf.path),
                        }
                    }
                }
                Item::Mod(inner) => {
                    if is_test_only(&inner.attrs) {
                        self.tests.push(child(module, &inner.ident.to_string()));
                    }
                    if let Some((_, items)) = &inner.content {
                        self.add(&child(module, &inner.ident.to_string()), file, items);
                    }
                }
                Item::Macro(exported) if exported.attrs.iter().any(|a| a.path().is_ident("macro_export")) => {
                    self.exported.extend(name_of(item).map(|name| (name, module.clone())));
                }
                item => scope.defined.extend(name_of(item)),
            }
        }
        self.scopes.insert(module.clone(), scope);
    }

    /// Whether a module is compiled for tests only.
    pub(super) fn is_test(&self, module: &Segments) -> bool {
        self.tests.iter().any(|tests| module.starts_with(tests))
    }

    /// The file whose module holds what `path`, written in `module`, refers to; `None` for another crate's or a local name.
    pub(super) fn file_of(&self, module: &Segments, path: &[String]) -> Option<&Segments> {
        let path = self.absolute(module, path, 0)?;
        let holder = self.find(&path, 0).unwrap_or_else(|| self.longest_module(&path));
        self.scopes.get(&holder).map(|scope| &scope.file)
    }

    /// `path` from the crate's root.
    fn absolute(&self, module: &Segments, path: &[String], depth: u32) -> Option<Segments> {
        let (first, rest) = path.split_first()?;
        let base = match first.as_str() {
            "crate" => Vec::new(),
            "self" => module.clone(),
            "super" => {
                let mut base = module.clone();
                base.pop()?;
                let above = rest.iter().take_while(|segment| *segment == "super").count();
                base.truncate(base.len().checked_sub(above)?);
                return Some([base, rest[above..].to_vec()].concat());
            }
            name if self.scopes.contains_key(&child(module, name)) => child(module, name),
            name => {
                let imported = self.scopes.get(module)?.imported.get(name)?;
                // `use metrics::..` in a module of that name would lead back to itself.
                if depth == REEXPORTS_MAX || imported.first() == Some(first) {
                    return None;
                }
                self.absolute(module, imported, depth + 1)?
            }
        };
        Some([base.as_slice(), rest].concat())
    }

    /// The module in which the item of an absolute path is defined.
    fn find(&self, path: &[String], depth: u32) -> Option<Segments> {
        let module = self.longest_module(path);
        let Some((name, rest)) = path[module.len()..].split_first() else { return Some(module) };
        let scope = self.scopes.get(&module)?;
        if let Some(written_in) = self.exported.get(name).filter(|_| module.is_empty()) {
            return Some(written_in.clone());
        }
        if scope.defined.contains(name) || depth == REEXPORTS_MAX {
            return Some(module);
        }
        if let Some(imported) = scope.imported.get(name) {
            let path = self.absolute(&module, imported, depth)?;
            return self.find(&[path.as_slice(), rest].concat(), depth + 1);
        }
        let through = |glob: &Segments| {
            let path = self.absolute(&module, glob, depth)?;
            self.find(&[path.as_slice(), std::slice::from_ref(name), rest].concat(), depth + 1)
        };
        scope.globs.iter().find_map(through)
    }

    fn longest_module(&self, path: &[String]) -> Segments {
        let known = |length: &usize| self.scopes.contains_key(&path[..*length]);
        path[..(0..=path.len()).rev().find(known).unwrap_or(0)].to_vec()
    }
}

pub(super) fn is_test_only(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|attribute| match &attribute.meta {
        syn::Meta::List(list) if list.path.is_ident("cfg") => {
            let condition = list.tokens.to_string().replace(' ', "");
            condition == "test" || condition.starts_with("all(test,")
        }
        meta => meta.path().is_ident("test"),
    })
}

/// The module of a file of the library; `None` for any other file.
pub(super) fn module_of(path: &str) -> Option<Segments> {
    let path = path.strip_prefix("src/")?.strip_suffix(".rs")?;
    let mut module: Segments = path.split('/').map(str::to_owned).collect();
    if module.last()? == "mod" || path == "lib" {
        module.pop();
    }
    Some(module)
}

pub(super) fn child(module: &Segments, name: &str) -> Segments {
    module.iter().cloned().chain([name.to_owned()]).collect()
}

fn name_of(item: &Item) -> Option<String> {
    Some(match item {
        Item::Const(item) => item.ident.to_string(),
        Item::Enum(item) => item.ident.to_string(),
        Item::Fn(item) => item.sig.ident.to_string(),
        Item::Macro(item) => item.ident.as_ref()?.to_string(),
        Item::Static(item) => item.ident.to_string(),
        Item::Struct(item) => item.ident.to_string(),
        Item::Trait(item) => item.ident.to_string(),
        Item::Type(item) => item.ident.to_string(),
        Item::Union(item) => item.ident.to_string(),
        _ => return None,
    })
}

/// One name of a `use`; without a name, all of a module.
#[derive(Debug)]
pub(super) struct Leaf {
    pub(super) path: Segments,
    pub(super) name: Option<String>,
}

pub(super) fn leaves(tree: &UseTree) -> Vec<Leaf> {
    let mut found = Vec::new();
    walk(tree, &Vec::new(), &mut found);
    found
}

fn walk(tree: &UseTree, prefix: &Segments, found: &mut Vec<Leaf>) {
    let mut leaf = |segment: String, name: String| {
        let path = if segment == "self" { prefix.clone() } else { child(prefix, &segment) };
        let name = if name == "self" { prefix.last().cloned().unwrap_or(name) } else { name };
        found.push(Leaf { path, name: Some(name) });
    };
    match tree {
        UseTree::Path(path) => walk(&path.tree, &child(prefix, &path.ident.to_string()), found),
        UseTree::Name(name) => leaf(name.ident.to_string(), name.ident.to_string()),
        UseTree::Rename(rename) => leaf(rename.ident.to_string(), rename.rename.to_string()),
        UseTree::Glob(_) => found.push(Leaf { path: prefix.clone(), name: None }),
        UseTree::Group(group) => group.items.iter().for_each(|tree| walk(tree, prefix, found)),
    }
}
