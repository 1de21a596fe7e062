//! Files of at most 400 lines, functions of at most 70.

use proc_macro2::Span;
use syn::visit::{self, Visit};

use super::Source;

const FILE_LINES_MAX: usize = 400;
const FUNCTION_LINES_MAX: usize = 70;

pub(super) fn check(sources: &[Source]) -> Vec<String> {
    let mut violations = Vec::new();
    for source in sources {
        let lines = source.text.lines().count();
        if lines > FILE_LINES_MAX {
            violations.push(format!("{} has {lines} lines of at most {FILE_LINES_MAX}", source.path));
        }
        let mut lengths = FunctionLengths { path: &source.path, violations: Vec::new() };
        lengths.visit_file(&source.parse());
        violations.extend(lengths.violations);
    }
    violations
}

struct FunctionLengths<'a> {
    path: &'a str,
    violations: Vec<String>,
}

impl FunctionLengths<'_> {
    /// From the `fn` to the closing brace; the text above it costs nothing.
    fn measure(&mut self, signature: &syn::Signature, end: Span) {
        let start = signature.fn_token.span.start().line;
        let lines = end.end().line - start + 1;
        if lines > FUNCTION_LINES_MAX {
            let (path, name) = (self.path, &signature.ident);
            self.violations.push(format!("{path}:{start}: {name} has {lines} lines of at most {FUNCTION_LINES_MAX}"));
        }
    }
}

impl<'ast> Visit<'ast> for FunctionLengths<'_> {
    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        self.measure(&item.sig, item.block.brace_token.span.close());
        visit::visit_item_fn(self, item);
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        self.measure(&item.sig, item.block.brace_token.span.close());
        visit::visit_impl_item_fn(self, item);
    }

    fn visit_trait_item_fn(&mut self, item: &'ast syn::TraitItemFn) {
        if let Some(body) = &item.default {
            self.measure(&item.sig, body.brace_token.span.close());
        }
        visit::visit_trait_item_fn(self, item);
    }
}

#[cfg(test)]
mod tests {
    use super::super::{assert_one_violation, file};
    use super::*;

    fn lines(count: usize) -> String {
        "\n".repeat(count)
    }

    #[test]
    fn a_file_may_have_400_lines_and_no_more() {
        assert_eq!(check(&[file("a.rs", &lines(400))]), [""; 0]);
        assert_one_violation(&check(&[file("a.rs", &lines(401))]), "a.rs has 401 lines");
    }

    #[test]
    fn a_function_may_have_70_lines_and_no_more_wherever_it_stands() {
        for (before, after) in [("", ""), ("impl A {", "}"), ("trait A {", "}"), ("fn outer() {} mod m {", "}")] {
            let function = |inner| format!("{before} /// Text\n#[inline]\nfn long(\n) {{{}}} {after}", lines(inner));
            assert_eq!(check(&[file("a.rs", &function(68))]), [""; 0]);
            assert_one_violation(&check(&[file("a.rs", &function(69))]), "long has 71 lines");
        }
    }
}
