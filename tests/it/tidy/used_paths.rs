//! Every path a file uses: in `use`, in types and expressions, inside macros and attributes.

use proc_macro2::{Spacing, TokenStream, TokenTree};
use syn::visit::{self, Visit};

use super::module_tree::{Segments, child, is_test_only, leaves};

/// A path as written.
#[derive(Debug)]
pub(super) struct UsedPath {
    /// The module it is written in, perhaps an inline one.
    pub(super) module: Segments,
    pub(super) path: Segments,
    pub(super) line: usize,
    /// `pub use`.
    pub(super) reexported: bool,
}

/// The paths in `file`, without its own tests: those may drive what stands above them.
pub(super) fn of(file: &syn::File, module: &Segments) -> Vec<UsedPath> {
    let mut finder = Finder { module: module.clone(), found: Vec::new() };
    finder.visit_file(file);
    finder.found
}

struct Finder {
    module: Segments,
    found: Vec<UsedPath>,
}

impl Finder {
    fn add(&mut self, path: Segments, line: usize, reexported: bool) {
        self.found.push(UsedPath { module: self.module.clone(), path, line, reexported });
    }

    /// Macros are not parsed, so their tokens are searched for `a::b`.
    fn search(&mut self, tokens: TokenStream) {
        let tokens: Vec<_> = tokens.into_iter().collect();
        let mut at = 0;
        while at < tokens.len() {
            match &tokens[at] {
                TokenTree::Group(group) => self.search(group.stream()),
                TokenTree::Ident(first) => {
                    let line = first.span().start().line;
                    let mut path = vec![first.to_string()];
                    while let Some(TokenTree::Ident(next)) = after_colons(&tokens[at + 1..]) {
                        path.push(next.to_string());
                        at += 3;
                    }
                    if path.len() > 1 {
                        self.add(path, line, false);
                    }
                }
                _ => {}
            }
            at += 1;
        }
    }
}

fn after_colons(tokens: &[TokenTree]) -> Option<&TokenTree> {
    match tokens {
        [TokenTree::Punct(first), TokenTree::Punct(second), next, ..]
            if first.as_char() == ':' && first.spacing() == Spacing::Joint && second.as_char() == ':' =>
        {
            Some(next)
        }
        _ => None,
    }
}

impl<'ast> Visit<'ast> for Finder {
    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        if !is_test_only(&item.attrs) {
            let inner = child(&self.module, &item.ident.to_string());
            let outer = std::mem::replace(&mut self.module, inner);
            visit::visit_item_mod(self, item);
            self.module = outer;
        }
    }

    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        if !is_test_only(&item.attrs) {
            visit::visit_item_fn(self, item);
        }
    }

    fn visit_item_impl(&mut self, item: &'ast syn::ItemImpl) {
        if !is_test_only(&item.attrs) {
            visit::visit_item_impl(self, item);
        }
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        if is_test_only(&item.attrs) {
            return;
        }
        let reexported = !matches!(item.vis, syn::Visibility::Inherited);
        for leaf in leaves(&item.tree) {
            self.add(leaf.path, item.use_token.span.start().line, reexported);
        }
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        if path.segments.len() > 1 && path.leading_colon.is_none() {
            let segments = path.segments.iter().map(|segment| segment.ident.to_string()).collect();
            self.add(segments, path.segments[0].ident.span().start().line, false);
        }
        visit::visit_path(self, path);
    }

    /// `pub(in crate::a)` uses nothing.
    fn visit_visibility(&mut self, _: &'ast syn::Visibility) {}

    fn visit_macro(&mut self, called: &'ast syn::Macro) {
        visit::visit_macro(self, called);
        self.search(called.tokens.clone());
    }

    fn visit_attribute(&mut self, attribute: &'ast syn::Attribute) {
        if let syn::Meta::List(list) = &attribute.meta {
            self.search(list.tokens.clone());
        }
    }
}
