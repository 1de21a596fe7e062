//! Parses `#[outbox(..)]`, and finds every mistake in a list, not just the first.

use std::mem;

use proc_macro2::TokenTree;
use quote::ToTokens;
use syn::ext::IdentExt;
use syn::parse::{Parse, ParseStream};
use syn::{Attribute, Expr, Ident, LitStr, Meta, Path, Token, Type, parenthesized, token};

use crate::names::{nearest, quoted_list};

const ON_TYPE: &[&str] = &["topic", "kind", "key", "codec", "headers", "tombstone", "crate"];
const ON_VARIANT: &[&str] = &["kind", "tombstone"];
const ON_FIELD: &[&str] = &["key", "header"];

/// The mistakes found so far.
#[derive(Default)]
pub(crate) struct Errors(Option<syn::Error>);

impl Errors {
    pub(crate) fn push(&mut self, at: impl ToTokens, message: impl std::fmt::Display) {
        self.add(syn::Error::new_spanned(at, message));
    }

    pub(crate) fn add(&mut self, error: syn::Error) {
        match &mut self.0 {
            Some(errors) => errors.combine(error),
            none => *none = Some(error),
        }
    }

    pub(crate) fn into_result(self) -> syn::Result<()> {
        self.0.map_or(Ok(()), Err)
    }
}

/// One attribute of a list. A failed one counts as given, so that it is not reported as missing as well.
pub(crate) struct AttrSlot<T> {
    pub(crate) given: bool,
    pub(crate) value: Option<T>,
}

impl<T> Default for AttrSlot<T> {
    fn default() -> Self {
        Self { given: false, value: None }
    }
}

impl<T> AttrSlot<T> {
    fn fill(&mut self, name: &Ident, parsed: syn::Result<T>) -> syn::Result<()> {
        let again = mem::replace(&mut self.given, true);
        let value = parsed?;
        if again {
            return Err(syn::Error::new_spanned(name, format!("`{name}` is given twice: keep one")));
        }
        self.value = Some(value);
        Ok(())
    }
}

#[derive(Default)]
pub(crate) struct TypeAttrs {
    pub(crate) topic: AttrSlot<Expr>,
    pub(crate) kind: AttrSlot<Expr>,
    pub(crate) key: AttrSlot<Expr>,
    pub(crate) codec: AttrSlot<Type>,
    pub(crate) headers: AttrSlot<Vec<(LitStr, Expr)>>,
    pub(crate) tombstone: AttrSlot<Ident>,
    pub(crate) krate: AttrSlot<Path>,
}

impl TypeAttrs {
    pub(crate) fn parse(attrs: &[Attribute], errors: &mut Errors) -> Self {
        let mut found = Self::default();
        each(attrs, errors, |name, input| match name.to_string().as_str() {
            "topic" => found.topic.fill(name, value(name, input, "topic = \"orders\"")),
            "kind" => found.kind.fill(name, value(name, input, "kind = \"order.placed\"")),
            "key" => found.key.fill(name, value(name, input, "key = order_id")),
            "codec" => found.codec.fill(name, value(name, input, "codec = path::to::Codec")),
            "headers" => found.headers.fill(name, headers(name, input)),
            "tombstone" => found.tombstone.fill(name, flag(name, input)),
            "crate" => found.krate.fill(name, value(name, input, "crate = path::to::diesel_outbox")),
            _ => Err(unknown(name, ON_TYPE)),
        });
        found
    }
}

#[derive(Default)]
pub(crate) struct VariantAttrs {
    pub(crate) kind: AttrSlot<Expr>,
    pub(crate) tombstone: AttrSlot<Ident>,
}

impl VariantAttrs {
    pub(crate) fn parse(attrs: &[Attribute], errors: &mut Errors) -> Self {
        let mut found = Self::default();
        each(attrs, errors, |name, input| match name.to_string().as_str() {
            "kind" => found.kind.fill(name, value(name, input, "kind = \"order.placed\"")),
            "tombstone" => found.tombstone.fill(name, flag(name, input)),
            _ => Err(unknown(name, ON_VARIANT)),
        });
        found
    }
}

#[derive(Default)]
pub(crate) struct FieldAttrs {
    pub(crate) key: AttrSlot<Ident>,
    /// The attribute, and the name that it gives.
    pub(crate) header: AttrSlot<(Ident, Option<LitStr>)>,
}

impl FieldAttrs {
    pub(crate) fn parse(attrs: &[Attribute], errors: &mut Errors) -> Self {
        let mut found = Self::default();
        each(attrs, errors, |name, input| match name.to_string().as_str() {
            "key" => found.key.fill(name, flag(name, input)),
            "header" if input.peek(Token![=]) => {
                let given = value(name, input, "header = \"tenant\"");
                found.header.fill(name, given.map(|given| (name.clone(), Some(given))))
            }
            "header" => found.header.fill(name, flag(name, input).map(|name| (name, None))),
            _ => Err(unknown(name, ON_FIELD)),
        });
        found
    }
}

/// Visits every attribute in every `#[outbox(..)]`; after a mistake it continues after the next comma.
fn each(attrs: &[Attribute], errors: &mut Errors, mut item: impl FnMut(&Ident, ParseStream) -> syn::Result<()>) {
    for attr in attrs.iter().filter(|attr| attr.path().is_ident("outbox")) {
        let Meta::List(list) = &attr.meta else {
            errors.push(&attr.meta, "attributes go in parentheses: `#[outbox(topic = \"orders\")]`");
            continue;
        };
        let walked = list.parse_args_with(|input: ParseStream| {
            items(input, errors, |input| {
                let name = input.call(Ident::parse_any)?;
                item(&name, input)
            })
        });
        if let Err(error) = walked {
            errors.add(error);
        }
    }
}

fn items(
    input: ParseStream,
    errors: &mut Errors,
    mut item: impl FnMut(ParseStream) -> syn::Result<()>,
) -> syn::Result<()> {
    while !input.is_empty() {
        if let Err(error) = item(input).and_then(|()| end(input)) {
            errors.add(error);
            while !input.is_empty() && !input.peek(Token![,]) {
                input.parse::<TokenTree>()?;
            }
        }
        if !input.is_empty() {
            input.parse::<Token![,]>()?;
        }
    }
    Ok(())
}

fn end(input: ParseStream) -> syn::Result<()> {
    if input.is_empty() || input.peek(Token![,]) { Ok(()) } else { Err(input.error("expected `,`")) }
}

fn value<T: Parse>(name: &Ident, input: ParseStream, example: &str) -> syn::Result<T> {
    if !input.peek(Token![=]) {
        return Err(syn::Error::new_spanned(name, format!("`{name}` needs a value: `{example}`")));
    }
    input.parse::<Token![=]>()?;
    input.parse()
}

fn flag(name: &Ident, input: ParseStream) -> syn::Result<Ident> {
    if input.peek(Token![=]) || input.peek(token::Paren) {
        return Err(syn::Error::new_spanned(name, format!("`{name}` takes no value here: write it alone")));
    }
    Ok(name.clone())
}

fn headers(name: &Ident, input: ParseStream) -> syn::Result<Vec<(LitStr, Expr)>> {
    if !input.peek(token::Paren) {
        let message = "`headers` needs a list: `headers(\"source\" = \"shop\", \"tenant\" = tenant)`";
        return Err(syn::Error::new_spanned(name, message));
    }
    let list;
    parenthesized!(list in input);
    let (mut headers, mut errors) = (Vec::new(), Errors::default());
    items(&list, &mut errors, |input| {
        if !input.peek(LitStr) {
            return Err(input.error("a header is its name in quotes and its value: `\"tenant\" = tenant`"));
        }
        let name: LitStr = input.parse()?;
        input.parse::<Token![=]>()?;
        headers.push((name, input.parse()?));
        Ok(())
    })?;
    errors.into_result().map(|()| headers)
}

fn unknown(name: &Ident, here: &[&str]) -> syn::Error {
    let word = name.to_string();
    let places = [(ON_TYPE, "the type"), (ON_VARIANT, "a variant"), (ON_FIELD, "a field")];
    let elsewhere = places.iter().filter(|(known, _)| known.contains(&word.as_str())).map(|(_, place)| *place);
    let elsewhere: Vec<&str> = elsewhere.collect();
    let what = match nearest(&word, here) {
        Some(meant) => format!("no attribute `{word}`, did you mean `{meant}`?"),
        None if elsewhere.is_empty() => format!("no attribute `{word}`."),
        None => format!("`{word}` belongs on {}.", elsewhere.join(" or ")),
    };
    let message = format!("{what} Here go {}", quoted_list(here));
    syn::Error::new_spanned(name, message)
}
