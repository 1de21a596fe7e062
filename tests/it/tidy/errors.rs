//! An error has its cause in its text or returns it as its source, never both. Public error enums are `#[non_exhaustive]`.

use syn::spanned::Spanned as _;
use syn::visit::{self, Visit};
use syn::{Attribute, Fields, Visibility};

use super::Source;
use super::module_tree::{Modules, is_test_only, module_of};

pub(super) fn check(sources: &[Source]) -> Vec<String> {
    let (modules, mut violations) = (Modules::of(sources), Vec::new());
    for source in sources {
        if module_of(&source.path).is_none_or(|module| modules.is_test(&module)) {
            continue;
        }
        let mut finder = Finder::default();
        finder.visit_file(&source.parse());
        violations.extend(finder.found.into_iter().map(|(line, what)| format!("{}:{line}: {what}", source.path)));
    }
    violations
}

#[derive(Default)]
struct Finder {
    found: Vec<(usize, String)>,
}

impl Finder {
    /// The text of one `#[error(..)]`, and the fields that thiserror returns as the source.
    fn error(&mut self, name: &syn::Ident, attributes: &[Attribute], fields: &Fields) {
        let Some(text) = text_of(attributes) else { return };
        for (index, field) in fields.iter().enumerate() {
            let printed = field.ident.as_ref().map_or_else(|| index.to_string(), ToString::to_string);
            let is_source = printed == "source" || ["source", "from"].iter().any(|name| has(&field.attrs, name));
            if is_source
                && [format!("{{{printed}}}"), format!("{{{printed}:"), format!(".{printed}")]
                    .iter()
                    .any(|p| text.contains(p))
            {
                self.found.push((
                    name.span().start().line,
                    format!("{name} prints its source and returns it, too: leave one of them out"),
                ));
            }
        }
    }
}

impl<'ast> Visit<'ast> for Finder {
    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        if !is_test_only(&item.attrs) {
            visit::visit_item_mod(self, item);
        }
    }

    fn visit_item_struct(&mut self, item: &'ast syn::ItemStruct) {
        self.error(&item.ident, &item.attrs, &item.fields);
    }

    fn visit_item_enum(&mut self, item: &'ast syn::ItemEnum) {
        for variant in &item.variants {
            self.error(&variant.ident, &variant.attrs, &variant.fields);
        }
        let name = item.ident.to_string();
        let is_error = ["Error", "Problem"].iter().any(|end| name.ends_with(end));
        if is_error && matches!(item.vis, Visibility::Public(_)) && !has(&item.attrs, "non_exhaustive") {
            self.found.push((item.ident.span().start().line, format!("{name} will grow: make it #[non_exhaustive]")));
        }
    }

    fn visit_item_const(&mut self, item: &'ast syn::ItemConst) {
        self.array(&item.vis, &item.ident, &item.ty);
    }

    fn visit_impl_item_const(&mut self, item: &'ast syn::ImplItemConst) {
        self.array(&item.vis, &item.ident, &item.ty);
    }
}

impl Finder {
    fn array(&mut self, visibility: &Visibility, name: &syn::Ident, of: &syn::Type) {
        if matches!((visibility, of), (Visibility::Public(_), syn::Type::Array(_))) {
            self.found.push((of.span().start().line, format!("{name} has its length in its type: make it a slice")));
        }
    }
}

fn has(attributes: &[Attribute], name: &str) -> bool {
    attributes.iter().any(|attribute| attribute.path().is_ident(name))
}

/// The text in `#[error(..)]`, with its arguments; `None` without one, or where it is another error's (`transparent`).
fn text_of(attributes: &[Attribute]) -> Option<String> {
    let attribute = attributes.iter().find(|attribute| attribute.path().is_ident("error"))?;
    let syn::Meta::List(list) = &attribute.meta else { return None };
    Some(list.tokens.to_string().replace(' ', "")).filter(|text| text != "transparent")
}

#[cfg(test)]
mod tests {
    use super::super::{assert_one_violation, file};
    use super::*;

    #[test]
    fn an_error_prints_its_source_or_returns_it() {
        for good in [
            r#"#[non_exhaustive] pub enum AError { #[error("no: {0}")] No(B), #[error("no")] N { source: B }, #[error("no")] M(#[source] B) }"#,
            r#"enum A { #[error(transparent)] No(#[from] B) }"#,
            r#"#[error("no: {error}")] struct A { error: B }"#,
            "#[cfg(test)] mod tests { pub enum AError {} pub const ALL: [u8; 2] = [1, 2]; }",
            "impl A { pub const ALL: &[Self] = &[]; const OWN: [u8; 1] = [1]; }",
        ] {
            assert_eq!(check(&[file("src/a.rs", good)]), [""; 0], "{good}");
        }
        for bad in [
            r#"enum A { #[error("no: {0}")] No(#[source] B) }"#,
            r#"enum A { #[error("no: {0:?}")] No(#[from] B) }"#,
            r#"enum A { #[error("no: {source}")] No { source: B } }"#,
            r#"#[error("no: {}", .source)] struct A { source: B }"#,
            "pub enum AError {}",
            "pub enum AProblem {}",
            "impl A { pub const ALL: [Self; 2] = [A, B]; }",
        ] {
            assert_one_violation(&check(&[file("src/a.rs", bad)]), "src/a.rs:1");
        }
    }
}
