//! The checked event: the attributes combined with the type's fields.

use syn::{DeriveInput, Expr, Generics, Ident, Lit, LitStr, Path, Type, parse_quote};

use crate::attrs::{Errors, TypeAttrs};
use crate::fingerprint;
use crate::names::topic_problem;
use crate::shape::{Field, Shape, check_header, checked_kind, name_as_kind};
use crate::value::{Value, ValueUse};

pub(crate) struct Event {
    pub(crate) ident: Ident,
    pub(crate) generics: Generics,
    pub(crate) krate: Path,
    pub(crate) topic: Value,
    /// A string or a constant; variants may have their own.
    pub(crate) kind: Expr,
    pub(crate) key: Key,
    pub(crate) headers: Vec<(LitStr, Value)>,
    pub(crate) codec: Type,
    pub(crate) shape: Shape,
    /// One for each variant.
    pub(crate) fingerprints: Vec<String>,
}

pub(crate) enum Key {
    None,
    Value(Box<Value>),
    FromField,
}

impl Event {
    /// # Errors
    /// Every mistake in the attributes, combined.
    pub(crate) fn parse(input: &DeriveInput) -> syn::Result<Self> {
        let mut errors = Errors::default();
        let attrs = TypeAttrs::parse(&input.attrs, &mut errors);
        let shape = Shape::parse(input, &attrs, &mut errors);
        let topic = topic(input, &attrs, &shape, &mut errors);
        let kind = match &attrs.kind.value {
            Some(kind) => checked_kind(kind, &mut errors),
            None => name_as_kind(&input.ident),
        };
        let key = key(&attrs, &shape, &mut errors);
        let headers = headers(attrs.headers.value.as_deref().unwrap_or_default(), &shape, &mut errors);
        let krate = krate(&attrs);
        if let (Some(codec), true) = (&attrs.codec.value, shape.is_tombstone()) {
            errors.push(codec, "a tombstone has no payload to encode: remove `codec` or `tombstone`");
        }
        let codec = attrs.codec.value.unwrap_or_else(|| parse_quote!(#krate::codec::Json));
        errors.into_result()?;
        // A missing topic has already caused an error.
        let topic = topic.ok_or_else(|| syn::Error::new_spanned(&input.ident, NO_TOPIC))?;
        let (ident, generics) = (input.ident.clone(), input.generics.clone());
        let fingerprints = fingerprint::of(input, &codec);
        Ok(Self { ident, generics, krate, topic, kind, key, headers, codec, shape, fingerprints })
    }
}

impl Event {
    /// The fields whose `Display` is used: those that are the whole value, because a chain may end in another type.
    pub(crate) fn display_fields(&self) -> impl Iterator<Item = &Field> {
        let values = self.headers.iter().map(|(_, value)| value).chain(self.key.value());
        let heads = values.filter_map(|value| match value {
            Value::Chain(chain) if chain.is_bare() => Some(&chain.head),
            _ => None,
        });
        let named = heads.flat_map(|head| self.shape.variants.iter().filter_map(|variant| variant.field(head)));
        named.chain(self.shape.fields().filter(|field| field.key.is_some() || field.header.is_some()))
    }
}

impl Key {
    fn value(&self) -> Option<&Value> {
        match self {
            Self::Value(value) => Some(value),
            Self::None | Self::FromField => None,
        }
    }
}

/// The path of the library.
pub(crate) fn krate(attrs: &TypeAttrs) -> Path {
    attrs.krate.value.clone().unwrap_or_else(|| parse_quote!(::diesel_outbox))
}

const NO_TOPIC: &str =
    "no topic: add `#[outbox(topic = \"..\")]`, or `#[outbox(topic = field)]` to choose it at run time";

fn topic(input: &DeriveInput, attrs: &TypeAttrs, shape: &Shape, errors: &mut Errors) -> Option<Value> {
    let Some(written) = &attrs.topic.value else {
        if !attrs.topic.given {
            errors.push(&input.ident, NO_TOPIC);
        }
        return None;
    };
    let topic = Value::resolve(written, shape, ValueUse::Topic).map_err(|error| errors.add(error)).ok()?;
    match &topic {
        Value::Literal(Lit::Str(name)) => {
            if let Some(problem) = topic_problem(&name.value()) {
                errors.push(name, problem);
            }
        }
        Value::Literal(other) => errors.push(other, "a topic is a text: put it in quotes, as in `topic = \"orders\"`"),
        Value::Chain(chain) if chain.has_question_mark() || (chain.is_bare() && shape.any_optional(&chain.head)) => {
            let message =
                "every message needs a topic, and this may be `None`: choose one by an expression over `self`";
            errors.push(written, message);
        }
        _ => {}
    }
    Some(topic)
}

fn key(attrs: &TypeAttrs, shape: &Shape, errors: &mut Errors) -> Key {
    let key_fields: Vec<&Ident> = shape.fields().filter_map(|field| field.key.as_ref()).collect();
    for variant in &shape.variants {
        for second in variant.fields.iter().filter_map(|field| field.key.as_ref()).skip(1) {
            errors.push(
                second,
                "a message has one key: mark one field, or use `key = ..` on the type to combine several",
            );
        }
    }
    if let (true, Some(mark)) = (attrs.key.given, key_fields.first()) {
        errors.push(mark, "the type has `key = ..` already: keep one of the two");
    }
    let Some(written) = &attrs.key.value else {
        return if key_fields.is_empty() { Key::None } else { Key::FromField };
    };
    match Value::resolve(written, shape, ValueUse::Key) {
        Ok(Value::Literal(literal)) => {
            errors.push(&literal, constant_key(&literal, shape));
            Key::None
        }
        Ok(key) => Key::Value(Box::new(key)),
        Err(error) => {
            errors.add(error);
            Key::None
        }
    }
}

fn constant_key(literal: &Lit, shape: &Shape) -> String {
    let field = match literal {
        Lit::Str(text) => shape.named().into_iter().find(|field| *field == text.value()),
        Lit::Int(index) => {
            let index = format!("self.{}", index.base10_digits());
            shape.places().into_iter().find(|place| *place == index)
        }
        _ => None,
    };
    let remedy = field.map_or_else(|| "name a field".to_owned(), |field| format!("write `key = {field}`"));
    format!("this would be the same key for every message: {remedy}, or use a constant if that is meant")
}

fn headers(written: &[(LitStr, Expr)], shape: &Shape, errors: &mut Errors) -> Vec<(LitStr, Value)> {
    let mut headers = Vec::new();
    for (name, value) in written {
        check_header(name, errors);
        match Value::resolve(value, shape, ValueUse::Header) {
            Ok(value) => headers.push((name.clone(), value)),
            Err(error) => errors.add(error),
        }
    }
    headers
}
