//! Expressions as they stand in an attribute.

use syn::{Expr, Ident};

/// An identifier written as constants are.
pub(crate) fn is_constant(ident: &Ident) -> bool {
    let name = ident.to_string();
    name.contains(char::is_uppercase) && !name.contains(char::is_lowercase)
}

/// Without the invisible groups that `macro_rules` puts around `$x:expr`.
pub(crate) fn ungrouped(expr: &Expr) -> &Expr {
    match expr {
        Expr::Group(group) => ungrouped(&group.expr),
        other => other,
    }
}
