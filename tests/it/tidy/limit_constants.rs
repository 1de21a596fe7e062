//! Bounds and times stand in `limits`, each with its argument, and not where they are used.

use syn::spanned::Spanned as _;
use syn::visit::{self, Visit};

use super::Source;
use super::module_tree::{Modules, is_test_only, module_of};

/// Layers in which numbers may stand: where they belong, and what only tests are made of.
const EXEMPT_LAYERS: &[&str] = &["limits", "testing"];

/// Units and resolutions, which nobody would ever choose otherwise, and what is computed from other bounds.
const EXEMPT_CONSTANTS: &[(&str, &str)] = &[
    ("admin::dead_letters", "CLOCK_TICK"),
    ("admin::redrive_rate", "SECOND"),
    ("relay::topics::claim_size", "HALVINGS_MAX"),
    ("retention", "DAY"),
    ("store::postgres::instants", "EPOCH_OFFSET"),
];

pub(super) fn check(sources: &[Source]) -> Vec<String> {
    let (modules, mut violations) = (Modules::of(sources), Vec::new());
    for source in sources {
        let Some(module) = module_of(&source.path).filter(|module| !modules.is_test(module)) else { continue };
        if module.first().is_some_and(|layer| EXEMPT_LAYERS.contains(&layer.as_str())) {
            continue;
        }
        let mut finder = Finder { module: module.join("::"), found: Vec::new() };
        finder.visit_file(&source.parse());
        for (line, what) in finder.found {
            violations.push(format!("{}:{line}: {what} belongs into limits, with its argument", source.path));
        }
    }
    violations
}

struct Finder {
    module: String,
    found: Vec<(usize, String)>,
}

impl Finder {
    fn constant(&mut self, name: &syn::Ident, value: &syn::Expr) {
        if EXEMPT_CONSTANTS.iter().any(|(module, unit)| self.module == *module && name == unit) {
            return;
        }
        if ["_MAX", "_MIN"].iter().any(|end| name.to_string().ends_with(end)) {
            self.found.push((name.span().start().line, name.to_string()));
        } else {
            self.visit_expr(value);
        }
    }
}

impl<'ast> Visit<'ast> for Finder {
    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        if !is_test_only(&item.attrs) {
            visit::visit_item_mod(self, item);
        }
    }

    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        if !is_test_only(&item.attrs) {
            visit::visit_item_fn(self, item);
        }
    }

    fn visit_item_const(&mut self, item: &'ast syn::ItemConst) {
        self.constant(&item.ident, &item.expr);
    }

    fn visit_impl_item_const(&mut self, item: &'ast syn::ImplItemConst) {
        self.constant(&item.ident, &item.expr);
    }

    fn visit_expr_call(&mut self, call: &'ast syn::ExprCall) {
        if is_duration(&call.func) && call.args.iter().all(is_number) {
            self.found.push((call.span().start().line, "a time".to_owned()));
        }
        visit::visit_expr_call(self, call);
    }
}

/// `Duration::from_..`.
fn is_duration(function: &syn::Expr) -> bool {
    let syn::Expr::Path(path) = function else { return false };
    let names: Vec<_> = path.path.segments.iter().rev().take(2).map(|segment| segment.ident.to_string()).collect();
    matches!(names.as_slice(), [made, of] if of == "Duration" && made.starts_with("from_"))
}

/// Written out, with or without arithmetic.
fn is_number(value: &syn::Expr) -> bool {
    match value {
        syn::Expr::Lit(_) => true,
        syn::Expr::Binary(both) => is_number(&both.left) && is_number(&both.right),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::super::{assert_one_violation, file};
    use super::*;

    #[test]
    fn limits_are_defined_in_limits() {
        for good in [
            "fn f() { g(Duration::from_secs(secs)); }",
            "#[cfg(test)] mod tests { const A_MAX: usize = 1; }",
            "const VERSION: u32 = 1;",
        ] {
            assert_eq!(check(&[file("src/a.rs", good)]), [""; 0], "{good}");
        }
        assert_eq!(check(&[file("src/limits/a.rs", "pub const A_MAX: usize = 1;")]), [""; 0]);
        assert_eq!(
            check(&[file("src/retention.rs", "const DAY: Duration = Duration::from_secs(24 * 3_600);")]),
            [""; 0]
        );
        for bad in [
            "const PAUSE: Duration = Duration::from_millis(5);",
            "fn f() { g(std::time::Duration::from_secs(2 * 60)); }",
            "const ROWS_MAX: usize = 5;",
            "impl A { const ROWS_MIN: usize = 5; }",
        ] {
            assert_one_violation(&check(&[file("src/a.rs", bad)]), "src/a.rs:1");
        }
    }
}
