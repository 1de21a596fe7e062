//! Where a value is read from: the fields of a struct, or the bindings of a variant's pattern.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{format_ident, quote, quote_spanned};
use syn::{Expr, LitStr, Member, parse_quote, parse_quote_spanned};

use crate::event::Event;
use crate::shape::{Field, Variant};
use crate::value::{self, Chain, Value};

/// Applies `wrap` to the text of a value, in each variant if the value starts at a field.
pub(crate) fn each_value(event: &Event, value: &Value, wrap: impl Fn(TokenStream) -> TokenStream) -> TokenStream {
    match value {
        Value::Literal(literal) => wrap(text(&parse_quote!(#literal))),
        Value::Const(expr) | Value::Expr(expr) => wrap(text(expr)),
        Value::Chain(chain) => each_variant(
            event,
            |variant| head_of(chain, variant),
            |fields| fields.iter().map(|(place, field)| wrap(text(&chain.from(place, field)))).collect(),
        ),
    }
}

/// `body` with the places of the picked fields: `self.field` in a struct, the pattern's bindings in an enum.
///
/// Errors about a place show at the span that was picked with it.
pub(crate) fn each_variant<'a>(
    event: &'a Event,
    pick: impl Fn(&'a Variant) -> Vec<(&'a Field, Span)>,
    body: impl Fn(&[(Expr, &'a Field)]) -> TokenStream,
) -> TokenStream {
    let (mut arms, mut others) = (Vec::new(), false);
    for variant in &event.shape.variants {
        let picked = pick(variant);
        if !event.shape.is_enum {
            let places = picked.iter().map(|(field, at)| (of_self(&field.member, *at), *field));
            return body(&places.collect::<Vec<_>>());
        }
        if picked.is_empty() {
            others = true;
            continue;
        }
        let (ident, mut bound, mut places) = (&variant.ident, Vec::new(), Vec::new());
        for (i, (field, at)) in picked.iter().enumerate() {
            let (member, name) = (&field.member, format_ident!("field_{i}", span = Span::mixed_site().located_at(*at)));
            bound.push(quote!(#member: #name));
            places.push((parse_quote_spanned!(at.resolved_at(Span::call_site())=> (*#name)), *field));
        }
        let body = body(&places);
        arms.push(quote!(Self::#ident { #(#bound,)* .. } => { #body }));
    }
    let rest = others.then(|| {
        let body = body(&[]);
        quote!(_ => { #body })
    });
    quote!(match self { #(#arms)* #rest })
}

/// The field that a chain starts at, with the span of its name in the attribute.
pub(crate) fn head_of<'a>(chain: &Chain, variant: &'a Variant) -> Vec<(&'a Field, Span)> {
    variant.field(&chain.head).map(|field| (field, chain.head.span())).into_iter().collect()
}

fn of_self(member: &Member, at: Span) -> Expr {
    let this = Ident::new("self", at.resolved_at(Span::call_site()));
    let mut member = member.clone();
    if let Member::Named(name) = &mut member {
        name.set_span(at.resolved_at(name.span()));
    }
    parse_quote!(#this.#member)
}

pub(crate) fn text(expr: &Expr) -> TokenStream {
    let reference = reference(expr);
    quote_spanned!(value::here(expr)=> ::std::string::ToString::to_string(#reference))
}

/// `&` binds tighter than operators, and a spliced expression has no parentheses of its own.
fn reference(expr: &Expr) -> TokenStream {
    let at = value::here(expr);
    match expr {
        Expr::Field(_)
        | Expr::Index(_)
        | Expr::Lit(_)
        | Expr::Macro(_)
        | Expr::MethodCall(_)
        | Expr::Paren(_)
        | Expr::Path(_)
        | Expr::Try(_) => quote_spanned!(at=> &#expr),
        _ => quote_spanned!(at=> &(#expr)),
    }
}

pub(crate) fn push(list: &Ident, name: &LitStr, expr: &Expr, bytes: bool) -> TokenStream {
    let reference = reference(expr);
    let value = if bytes { quote!(<[u8]>::to_vec(#reference)) } else { text(expr) };
    if !value::has_question_mark(expr) {
        return quote!(#list.push(#name, #value););
    }
    let (ask, some) = (Ident::new("ask", Span::mixed_site()), quote!(::core::option::Option::Some));
    quote! {
        let #ask = || #some(#value);
        if let #some(value) = #ask() {
            #list.push(#name, value);
        }
    }
}

impl Field {
    /// The marked field, or the content of its `Option`.
    pub(crate) fn read(&self, place: &Expr) -> Expr {
        if self.is_optional() { value::by_reference(place) } else { place.clone() }
    }
}
