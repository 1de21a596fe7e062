//! The fingerprints of an event's shape: a hash of what its codec sees, one for each variant.
//!
//! Consumers of other builds compare them, so neither the text nor the hash may ever change.

use proc_macro2::{Delimiter, TokenStream, TokenTree};
use quote::ToTokens;
use syn::punctuated::Punctuated;
use syn::{Attribute, Data, DeriveInput, Expr, ExprLit, Field, Fields, Lit, Meta, Token, Type};

/// Attributes of serde that change nothing of what is sent.
const READ_ONLY: &[&str] = &[
    "alias",
    "borrow",
    "bound",
    "crate",
    "default",
    "deny_unknown_fields",
    "deserialize_with",
    "expecting",
    "from",
    "other",
    "remote",
    "skip_deserializing",
    "try_from",
];

/// The fingerprints of a struct, or of the variants of an enum in their order.
///
/// The name of a struct and the kinds are left out: a consumer keeps the old shape under another name. So is the path of a codec, of
/// which only the last name counts.
pub(crate) fn of(input: &DeriveInput, codec: &Type) -> Vec<String> {
    let mut head = format!("codec {}\n", last_name(codec));
    attributes(&input.attrs, &mut head, &mut None, &mut false);
    let of = |variant: Option<(&str, &[Attribute])>, fields: &Fields| {
        let mut shape = head.clone();
        if let Some((name, attrs)) = variant {
            let mut lines = String::new();
            let mut renamed = None;
            attributes(attrs, &mut lines, &mut renamed, &mut false);
            shape.push_str(&format!("variant {}\n{lines}", renamed.as_deref().unwrap_or(name)));
        }
        fields.iter().enumerate().for_each(|(index, field)| describe(index, field, &mut shape));
        hash(&shape)
    };
    match &input.data {
        Data::Struct(data) => vec![of(None, &data.fields)],
        Data::Enum(data) => {
            let variants = data.variants.iter();
            variants.map(|one| of(Some((&plain(&one.ident.to_string()), &one.attrs)), &one.fields)).collect()
        }
        // Refused elsewhere.
        Data::Union(_) => Vec::new(),
    }
}

fn describe(index: usize, field: &Field, shape: &mut String) {
    let (mut lines, mut renamed, mut is_skipped) = (String::new(), None, false);
    attributes(&field.attrs, &mut lines, &mut renamed, &mut is_skipped);
    if is_skipped {
        return;
    }
    let own = field.ident.as_ref().map_or_else(|| index.to_string(), |name| plain(&name.to_string()));
    let name = renamed.unwrap_or(own);
    shape.push_str(&format!("field {name}:{}\n{lines}", tokens(field.ty.to_token_stream())));
}

/// Adds a line for each attribute that changes the payload, sorted: the order in which they are written means nothing.
fn attributes(attrs: &[Attribute], lines: &mut String, renamed: &mut Option<String>, is_skipped: &mut bool) {
    let mut found = Vec::new();
    for attr in attrs {
        let Some(library) = ["serde", "prost", "avro"].into_iter().find(|known| attr.path().is_ident(known)) else {
            continue;
        };
        let listed = attr.parse_args_with(Punctuated::<Meta, Token![,]>::parse_terminated);
        let Ok(listed) = listed else {
            found.push(format!("{library}{}\n", tokens(attr.meta.to_token_stream())));
            continue;
        };
        for meta in listed {
            let name = meta.path().get_ident().map(ToString::to_string).unwrap_or_default();
            match (library, name.as_str()) {
                ("serde", "rename") => *renamed = serialized_name(&meta).or(renamed.take()),
                ("serde", "skip" | "skip_serializing") => *is_skipped = true,
                ("serde", name) if READ_ONLY.contains(&name) => {}
                ("avro", "doc" | "alias") => {}
                _ => found.push(format!("{library}{}\n", tokens(meta.to_token_stream()))),
            }
        }
    }
    found.sort_unstable();
    lines.extend(found);
}

/// The `x` of `rename = "x"` and of `rename(serialize = "x")`.
fn serialized_name(meta: &Meta) -> Option<String> {
    let text = |meta: &Meta| match meta {
        Meta::NameValue(pair) => match &pair.value {
            Expr::Lit(ExprLit { lit: Lit::Str(name), .. }) => Some(name.value()),
            _ => None,
        },
        _ => None,
    };
    let Meta::List(list) = meta else { return text(meta) };
    let both = list.parse_args_with(Punctuated::<Meta, Token![,]>::parse_terminated).ok()?;
    both.iter().find(|one| one.path().is_ident("serialize")).and_then(text)
}

/// The tokens, each after a space. Not their `Display`, whose spaces depend on the version of the compiler.
fn tokens(stream: TokenStream) -> String {
    let mut text = String::new();
    for token in stream {
        match token {
            TokenTree::Group(group) => {
                let (open, close) = match group.delimiter() {
                    Delimiter::Parenthesis => (" (", " )"),
                    Delimiter::Brace => (" {", " }"),
                    Delimiter::Bracket => (" [", " ]"),
                    // Around what a macro passed on.
                    Delimiter::None => ("", ""),
                };
                text.push_str(&format!("{open}{}{close}", tokens(group.stream())));
            }
            TokenTree::Ident(name) => text.push_str(&format!(" {}", plain(&name.to_string()))),
            TokenTree::Punct(punct) => text.push_str(&format!(" {}", punct.as_char())),
            TokenTree::Literal(literal) => text.push_str(&format!(" {literal}")),
        }
    }
    text
}

fn plain(name: &str) -> String {
    name.trim_start_matches("r#").to_owned()
}

fn last_name(codec: &Type) -> String {
    match codec {
        Type::Group(group) => last_name(&group.elem),
        Type::Path(path) => path.path.segments.last().map(|last| plain(&last.ident.to_string())).unwrap_or_default(),
        other => tokens(other.to_token_stream()),
    }
}

/// FNV-1a, in hexadecimal: short, and the same everywhere.
fn hash(shape: &str) -> String {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for byte in shape.bytes() {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    }
    format!("{hash:016x}")
}
