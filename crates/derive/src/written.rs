//! Expressions as written in an attribute.

use syn::{Expr, Ident};

/// Whether an identifier is written like a constant.
pub(crate) fn is_constant(ident: &Ident) -> bool {
    let name = ident.to_string();
    name.contains(char::is_uppercase) && !name.contains(char::is_lowercase)
}

/// Removes the invisible groups that `macro_rules` puts around `$x:expr`.
pub(crate) fn ungrouped(expr: &Expr) -> &Expr {
    match expr {
        Expr::Group(group) => ungrouped(&group.expr),
        other => other,
    }
}
