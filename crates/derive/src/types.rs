//! What the written form of a field's type shows; an alias hides it.

use proc_macro2::{TokenStream, TokenTree};
use quote::ToTokens;
use syn::{GenericArgument, GenericParam, Generics, PathArguments, Type};

/// The `T` of `Option<T>`.
pub(crate) fn optional(ty: &Type) -> Option<&Type> {
    only_argument(ty, "Option")
}

/// Whether it is `Vec<u8>`, `&[u8]`, `[u8; N]`, or an `Option` of one.
pub(crate) fn is_bytes(ty: &Type) -> bool {
    let is_u8 = |ty: &Type| matches!(ty, Type::Path(path) if path.path.is_ident("u8"));
    match optional(ty).unwrap_or(ty) {
        Type::Array(array) => is_u8(&array.elem),
        Type::Reference(reference) => matches!(&*reference.elem, Type::Slice(slice) if is_u8(&slice.elem)),
        other => only_argument(other, "Vec").is_some_and(is_u8),
    }
}

/// Whether the type depends on a type parameter.
pub(crate) fn mentions_parameter(ty: &Type, generics: &Generics) -> bool {
    fn any(tokens: TokenStream, is_parameter: &dyn Fn(&proc_macro2::Ident) -> bool) -> bool {
        tokens.into_iter().any(|token| match token {
            TokenTree::Ident(ident) => is_parameter(&ident),
            TokenTree::Group(group) => any(group.stream(), is_parameter),
            _ => false,
        })
    }
    any(ty.to_token_stream(), &|ident| generics.type_params().any(|parameter| parameter.ident == *ident))
}

/// Whether bounds can depend on the parameters; lifetimes alone need no bound.
pub(crate) fn has_parameters(generics: &Generics) -> bool {
    generics.params.iter().any(|parameter| !matches!(parameter, GenericParam::Lifetime(_)))
}

fn only_argument<'a>(ty: &'a Type, of: &str) -> Option<&'a Type> {
    let last = match ty {
        Type::Group(group) => return only_argument(&group.elem, of),
        Type::Path(path) => path.path.segments.last()?,
        _ => return None,
    };
    let PathArguments::AngleBracketed(arguments) = &last.arguments else { return None };
    match arguments.args.first() {
        Some(GenericArgument::Type(argument)) if last.ident == of => Some(argument),
        _ => None,
    }
}
