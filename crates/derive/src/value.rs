//! The values of `topic`, `key` and `headers`: a string, a constant, a chain that starts at a field, or an expression
//! over `self`.

use proc_macro2::{Span, TokenStream, TokenTree};
use quote::ToTokens;
use syn::spanned::Spanned;
use syn::{Expr, Ident, Lit, parse_quote_spanned};

use crate::names::quoted_list;
use crate::shape::{Field, Shape};
use crate::written::{is_constant, ungrouped};

pub(crate) enum Value {
    Literal(Lit),
    Const(Expr),
    Chain(Chain),
    Expr(Expr),
}

/// `order.id` or `account?.id`: an expression whose head names a field.
pub(crate) struct Chain {
    pub(crate) head: Ident,
    expr: Expr,
}

/// What a value is for; decides the remedy if a field is missing.
#[derive(Clone, Copy)]
pub(crate) enum ValueUse {
    Topic,
    Key,
    Header,
}

impl Value {
    pub(crate) fn resolve(written: &Expr, shape: &Shape, of: ValueUse) -> syn::Result<Self> {
        let expr = ungrouped(written).clone();
        if let Expr::Lit(literal) = expr {
            return Ok(Self::Literal(literal.lit));
        }
        let bare = matches!(expr, Expr::Path(_));
        let Some(head) = head(&expr).cloned() else {
            return Ok(if bare { Self::Const(expr) } else { Self::Expr(expr) });
        };
        if head == "self" {
            return Ok(Self::Expr(expr));
        }
        let missing = shape.without(&head);
        if missing.is_empty() {
            Ok(Self::Chain(Chain { head, expr }))
        } else if missing.len() < shape.variants.len() {
            let (missing, remedy) = (quoted_list(&missing), of.where_some_have_it());
            Err(syn::Error::new_spanned(&head, format!("no field `{head}` in {missing}: {remedy}")))
        } else if is_constant(&head) {
            Ok(if bare { Self::Const(expr) } else { Self::Expr(expr) })
        } else {
            let (known, otherwise) = (shape.known_fields(&head), of.otherwise());
            Err(syn::Error::new_spanned(&head, format!("no field `{head}`{known}{otherwise}")))
        }
    }
}

impl ValueUse {
    fn where_some_have_it(self) -> &'static str {
        match self {
            Self::Topic => "give it one, or choose the topic by an expression over `self`",
            Self::Key => "give it one, or mark the field `#[outbox(key)]` in the variants that have it",
            Self::Header => "give it one, or mark the field `#[outbox(header = \"..\")]` in the variants that have it",
        }
    }

    fn otherwise(self) -> &'static str {
        match self {
            Self::Topic => ". A fixed topic goes in quotes",
            Self::Key => "",
            Self::Header => ". A fixed value goes in quotes",
        }
    }
}

impl Chain {
    /// Whether it is the field alone.
    pub(crate) fn is_bare(&self) -> bool {
        matches!(self.expr, Expr::Path(_))
    }

    /// Whether a `?` makes it optional.
    pub(crate) fn has_question_mark(&self) -> bool {
        has_question_mark(&self.expr)
    }

    /// The chain that starts at `place`, the location of this variant's field.
    pub(crate) fn from(&self, place: &Expr, field: &Field) -> Expr {
        let mut expr = self.expr.clone();
        substitute(&mut expr, place);
        if self.is_bare() && field.is_optional() { by_reference(&expr) } else { expr }
    }
}

/// The span for an error about `expr`.
pub(crate) fn here(expr: &Expr) -> Span {
    expr.span().resolved_at(Span::call_site())
}

/// `Option::as_ref(&place)?`: an event is only borrowed, and `place?` would move out of it.
pub(crate) fn by_reference(place: &Expr) -> Expr {
    parse_quote_spanned!(here(place)=> ::core::option::Option::as_ref(&#place)?)
}

/// Whether it contains a `?`. It checks tokens, not the tree: a `?` in the arguments of a macro such as `format!`
/// counts too.
pub(crate) fn has_question_mark(expr: &Expr) -> bool {
    fn any(tokens: TokenStream) -> bool {
        tokens.into_iter().any(|token| match token {
            TokenTree::Punct(punct) => punct.as_char() == '?',
            TokenTree::Group(group) => any(group.stream()),
            _ => false,
        })
    }
    any(expr.to_token_stream())
}

fn head(expr: &Expr) -> Option<&Ident> {
    match expr {
        Expr::Path(path) => path.path.get_ident(),
        Expr::Field(field) => head(&field.base),
        Expr::MethodCall(call) => head(&call.receiver),
        Expr::Index(index) => head(&index.expr),
        Expr::Try(asked) => head(&asked.expr),
        _ => None,
    }
}

/// Matches the same arms as [`head`].
fn substitute(expr: &mut Expr, place: &Expr) {
    match expr {
        Expr::Field(field) => substitute(&mut field.base, place),
        Expr::MethodCall(call) => substitute(&mut call.receiver, place),
        Expr::Index(index) => substitute(&mut index.expr, place),
        Expr::Try(asked) => {
            let is_place = matches!(*asked.expr, Expr::Path(_) | Expr::Field(_) | Expr::Index(_));
            substitute(&mut asked.expr, place);
            if is_place {
                *expr = by_reference(&asked.expr);
            }
        }
        _ => *expr = place.clone(),
    }
}
