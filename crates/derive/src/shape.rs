//! The fields and variants of the event, with their marks.

use syn::{Data, DeriveInput, Expr, Fields, Ident, Lit, LitStr, Member, Type, parse_quote};

use crate::attrs::{Errors, FieldAttrs, TypeAttrs, VariantAttrs};
use crate::names::{header_problem, kind_problem, nearest, quoted_list, snake_case};
use crate::types;
use crate::written::{is_constant, ungrouped};

/// A struct is one variant without a name.
pub(crate) struct Shape {
    pub(crate) is_enum: bool,
    pub(crate) variants: Vec<Variant>,
}

pub(crate) struct Variant {
    pub(crate) ident: Ident,
    pub(crate) kind: Option<Expr>,
    pub(crate) tombstone: bool,
    pub(crate) fields: Vec<Field>,
}

pub(crate) struct Field {
    pub(crate) member: Member,
    pub(crate) ty: Type,
    pub(crate) key: Option<Ident>,
    pub(crate) header: Option<LitStr>,
}

impl Shape {
    pub(crate) fn parse(input: &DeriveInput, attrs: &TypeAttrs, errors: &mut Errors) -> Self {
        let whole = |fields, errors: &mut Errors| Variant {
            ident: input.ident.clone(),
            kind: None,
            tombstone: attrs.tombstone.given,
            fields: parse_fields(fields, errors),
        };
        match &input.data {
            Data::Struct(data) => Self { is_enum: false, variants: vec![whole(&data.fields, errors)] },
            Data::Union(data) => {
                errors.push(data.union_token, "a union cannot say which field it holds: use a struct or an enum");
                Self { is_enum: false, variants: vec![whole(&Fields::Named(data.fields.clone()), errors)] }
            }
            Data::Enum(data) => {
                if data.variants.is_empty() {
                    errors.push(&input.ident, "an enum without variants has no messages: give it one");
                }
                let variants = data.variants.iter().map(|variant| parse_variant(variant, attrs, errors)).collect();
                Self { is_enum: true, variants }
            }
        }
    }

    pub(crate) fn fields(&self) -> impl Iterator<Item = &Field> {
        self.variants.iter().flat_map(|variant| &variant.fields)
    }

    /// Whether no message of the type has a payload.
    pub(crate) fn is_tombstone(&self) -> bool {
        !self.variants.is_empty() && self.variants.iter().all(|variant| variant.tombstone)
    }

    /// The variants that lack this field.
    pub(crate) fn without(&self, name: &Ident) -> Vec<String> {
        let lacks = |variant: &&Variant| variant.field(name).is_none();
        self.variants.iter().filter(lacks).map(|variant| variant.ident.to_string()).collect()
    }

    pub(crate) fn any_optional(&self, name: &Ident) -> bool {
        self.variants.iter().filter_map(|variant| variant.field(name)).any(Field::is_optional)
    }

    /// For an error: what `word` could have been.
    pub(crate) fn known_fields(&self, word: &Ident) -> String {
        let places = self.places();
        let places: Vec<&str> = places.iter().map(String::as_str).collect();
        let meant = nearest(&word.to_string(), &places).map(|meant| format!(", did you mean `{meant}`"));
        match (meant, places.as_slice()) {
            (None, []) if self.is_enum => ": no field is in every variant".to_owned(),
            (None, []) => ": the type has none".to_owned(),
            (None, [one]) => format!(": the only one is `{one}`"),
            (None, several) => format!(": there are {}", quoted_list(several)),
            (Some(meant), [_]) => format!("{meant}?"),
            (Some(meant), several) => format!("{meant}? There are {}", quoted_list(several)),
        }
    }

    /// The fields that every variant has, as written in an attribute.
    pub(crate) fn places(&self) -> Vec<String> {
        let Some(first) = self.variants.first() else { return Vec::new() };
        let common = |field: &&Field| self.variants.iter().all(|variant| variant.has(&field.member));
        let written = |field: &Field| match &field.member {
            Member::Named(name) => Some(name.to_string()),
            Member::Unnamed(index) => (!self.is_enum).then(|| format!("self.{}", index.index)),
        };
        first.fields.iter().filter(common).filter_map(written).collect()
    }

    pub(crate) fn named(&self) -> Vec<String> {
        self.places().into_iter().filter(|place| !place.starts_with("self.")).collect()
    }
}

impl Variant {
    pub(crate) fn field(&self, name: &Ident) -> Option<&Field> {
        self.fields.iter().find(|field| matches!(&field.member, Member::Named(known) if known == name))
    }

    fn has(&self, member: &Member) -> bool {
        self.fields.iter().any(|field| field.member == *member)
    }
}

impl Field {
    pub(crate) fn is_optional(&self) -> bool {
        types::optional(&self.ty).is_some()
    }
}

fn parse_variant(variant: &syn::Variant, of: &TypeAttrs, errors: &mut Errors) -> Variant {
    let attrs = VariantAttrs::parse(&variant.attrs, errors);
    let own = attrs.kind.value.map(|kind| checked_kind(&kind, errors));
    // The type's kind, if set, applies to all variants; otherwise the variant's name says more than the type's.
    let kind = own.or_else(|| (!of.kind.given).then(|| name_as_kind(&variant.ident)));
    let tombstone = of.tombstone.given || attrs.tombstone.given;
    Variant { ident: variant.ident.clone(), kind, tombstone, fields: parse_fields(&variant.fields, errors) }
}

fn parse_fields(fields: &Fields, errors: &mut Errors) -> Vec<Field> {
    let members = fields.members();
    let parse = |(member, field): (Member, &syn::Field)| {
        let attrs = FieldAttrs::parse(&field.attrs, errors);
        let header = attrs.header.value.and_then(|(mark, given)| header_name(&mark, given, &member, errors));
        Field { member, ty: field.ty.clone(), key: attrs.key.value, header }
    };
    members.zip(fields).map(parse).collect()
}

fn header_name(mark: &Ident, given: Option<LitStr>, member: &Member, errors: &mut Errors) -> Option<LitStr> {
    let name = match (given, member) {
        (Some(name), _) => name,
        (None, Member::Named(field)) => LitStr::new(field.to_string().trim_start_matches("r#"), field.span()),
        (None, Member::Unnamed(_)) => {
            errors.push(mark, "this field has no name to send: give one, as in `header = \"tenant\"`");
            return None;
        }
    };
    check_header(&name, errors);
    Some(name)
}

pub(crate) fn checked_kind(written: &Expr, errors: &mut Errors) -> Expr {
    let kind = ungrouped(written);
    match kind {
        Expr::Lit(text) if let Lit::Str(name) = &text.lit => {
            if let Some(problem) = kind_problem(&name.value()) {
                errors.push(name, problem);
            }
        }
        Expr::Path(path) if path.path.get_ident().is_none_or(is_constant) => {}
        other => errors.push(other, "a kind is a text in quotes, as in `kind = \"order.placed\"`, or a constant"),
    }
    kind.clone()
}

pub(crate) fn name_as_kind(ident: &Ident) -> Expr {
    let name = LitStr::new(&snake_case(&ident.to_string()), ident.span());
    parse_quote!(#name)
}

pub(crate) fn check_header(name: &LitStr, errors: &mut Errors) {
    if let Some(problem) = header_problem(&name.value()) {
        errors.push(name, problem);
    }
}
