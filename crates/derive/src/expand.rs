//! The generated implementation.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{ToTokens, quote};
use syn::{DeriveInput, Lit, WherePredicate, parse_quote};

use crate::attrs::{Errors, TypeAttrs};
use crate::event::{self, Event, Key};
use crate::places::{each_value, each_variant, head_of, push, text};
use crate::shape::Variant;
use crate::types;
use crate::value::Value;

/// The implementation. After mistakes it is empty, so that the compiler reports only the mistakes.
pub(crate) fn derive(input: &DeriveInput) -> TokenStream {
    match Event::parse(input) {
        Ok(event) => expand(&event),
        Err(errors) => {
            let (errors, fallback) = (errors.into_compile_error(), fallback(input));
            quote!(#errors #fallback)
        }
    }
}

fn expand(event: &Event) -> TokenStream {
    let (ident, krate) = (&event.ident, &event.krate);
    let mut generics = event.generics.clone();
    let bounds = bounds(event);
    if !bounds.is_empty() {
        generics.make_where_clause().predicates.extend(bounds);
    }
    let (impl_generics, type_generics, where_clause) = generics.split_for_impl();
    let items = [
        topic(event),
        kind(event),
        fingerprint(event),
        key(event),
        headers(event),
        payload(event),
        payload_text(event),
        check_codec(event),
    ];
    quote! {
        #[automatically_derived]
        impl #impl_generics #krate::OutboxMessage for #ident #type_generics #where_clause {
            #(#items)*
        }
    }
}

fn fallback(input: &DeriveInput) -> TokenStream {
    let krate = event::krate(&TypeAttrs::parse(&input.attrs, &mut Errors::default()));
    let ident = &input.ident;
    let (impl_generics, type_generics, where_clause) = input.generics.split_for_impl();
    quote! {
        #[automatically_derived]
        impl #impl_generics #krate::OutboxMessage for #ident #type_generics #where_clause {
            const TOPIC: ::core::option::Option<&'static str> = ::core::option::Option::None;
            const KIND: &'static str = "";
            fn payload(
                &self,
            ) -> ::core::result::Result<::core::option::Option<::std::vec::Vec<u8>>, #krate::CodecError> {
                ::core::result::Result::Ok(::core::option::Option::None)
            }
        }
    }
}

/// `None` if the type has no parameters: rustc then reports an unmet bound where it arises.
fn bounds(event: &Event) -> Vec<WherePredicate> {
    let Event { codec, krate, .. } = event;
    let mut bounds: Vec<WherePredicate> = Vec::new();
    if types::has_parameters(&event.generics) && !event.shape.is_tombstone() {
        bounds.push(parse_quote!(#codec: #krate::codec::Codec<Self>));
    }
    for field in event.display_fields() {
        let ty = types::optional(&field.ty).unwrap_or(&field.ty);
        if types::mentions_parameter(ty, &event.generics) && !types::is_bytes(ty) {
            bounds.push(parse_quote!(#ty: ::core::fmt::Display));
        }
    }
    bounds
}

fn topic(event: &Event) -> TokenStream {
    let fixed = match &event.topic {
        Value::Literal(name) => name.to_token_stream(),
        Value::Const(name) => name.to_token_stream(),
        Value::Chain(_) | Value::Expr(_) => {
            let topic = each_value(event, &event.topic, |text| quote!(::std::borrow::Cow::Owned(#text)));
            return quote! {
                const TOPIC: ::core::option::Option<&'static str> = ::core::option::Option::None;
                fn topic(&self) -> ::std::borrow::Cow<'_, str> {
                    #topic
                }
            };
        }
    };
    quote!(const TOPIC: ::core::option::Option<&'static str> = ::core::option::Option::Some(#fixed);)
}

fn kind(event: &Event) -> TokenStream {
    let kind = &event.kind;
    let constant = quote!(const KIND: &'static str = #kind;);
    let own = |variant: &Variant| {
        let (ident, kind) = (&variant.ident, variant.kind.as_ref()?);
        Some(quote!(Self::#ident { .. } => #kind,))
    };
    let arms: Vec<TokenStream> = event.shape.variants.iter().filter_map(own).collect();
    if arms.is_empty() {
        return constant;
    }
    let rest = (arms.len() < event.shape.variants.len()).then(|| quote!(_ => Self::KIND,));
    let general = (arms.len() < event.shape.variants.len()).then(|| quote!(Self::KIND,));
    let own = event.shape.variants.iter().filter_map(|variant| variant.kind.as_ref());
    quote! {
        #constant
        const KINDS: &'static [&'static str] = &[#general #(#own),*];
        fn kind(&self) -> ::std::borrow::Cow<'_, str> {
            ::std::borrow::Cow::Borrowed(match self { #(#arms)* #rest })
        }
    }
}

/// A tombstone has none: it has no payload.
fn fingerprint(event: &Event) -> TokenStream {
    let variants = || event.shape.variants.iter().zip(&event.fingerprints).filter(|(variant, _)| !variant.tombstone);
    let known: Vec<&String> = variants().map(|(_, fingerprint)| fingerprint).collect();
    let [first, ..] = known.as_slice() else { return TokenStream::new() };
    let some = |fingerprint| quote!(::core::option::Option::Some(#fingerprint));
    let fingerprint = if event.shape.is_enum {
        let arms = variants().map(|(variant, fingerprint)| {
            let (ident, fingerprint) = (&variant.ident, some(fingerprint));
            quote!(Self::#ident { .. } => #fingerprint,)
        });
        let rest = (known.len() < event.shape.variants.len()).then(|| quote!(_ => ::core::option::Option::None,));
        quote!(match self { #(#arms)* #rest })
    } else {
        some(first)
    };
    quote! {
        const FINGERPRINTS: &'static [&'static str] = &[#(#known),*];
        fn fingerprint(&self) -> ::core::option::Option<&'static str> {
            #fingerprint
        }
    }
}

fn key(event: &Event) -> TokenStream {
    let some = |text| quote!(::core::option::Option::Some(::std::borrow::Cow::Owned(#text)));
    let key = match &event.key {
        Key::None => return TokenStream::new(),
        Key::Value(value) => each_value(event, value, some),
        Key::FromField => each_variant(
            event,
            |variant| variant.fields.iter().filter_map(|field| Some((field, field.key.as_ref()?.span()))).collect(),
            |fields| match fields {
                [(place, field)] => some(text(&field.read(place))),
                _ => quote!(::core::option::Option::None),
            },
        ),
    };
    quote! {
        fn key(&self) -> ::core::option::Option<::std::borrow::Cow<'_, str>> {
            #key
        }
    }
}

fn headers(event: &Event) -> TokenStream {
    let list = Ident::new("headers", Span::mixed_site());
    let mut pushes: Vec<TokenStream> = Vec::new();
    for (name, value) in &event.headers {
        pushes.push(match value {
            Value::Literal(value @ (Lit::Str(_) | Lit::ByteStr(_))) => quote!(#list.push(#name, #value);),
            Value::Chain(chain) => each_variant(
                event,
                |variant| head_of(chain, variant),
                |fields| {
                    let push = fields.iter().map(|(place, field)| {
                        let bytes = chain.is_bare() && types::is_bytes(&field.ty);
                        push(&list, name, &chain.from(place, field), bytes)
                    });
                    quote!(#(#push)*)
                },
            ),
            Value::Literal(value) => push(&list, name, &parse_quote!(#value), false),
            Value::Const(value) | Value::Expr(value) => push(&list, name, value, false),
        });
    }
    if event.shape.fields().any(|field| field.header.is_some()) {
        pushes.push(each_variant(
            event,
            |variant| variant.fields.iter().filter_map(|field| Some((field, field.header.as_ref()?.span()))).collect(),
            |fields| {
                let push = fields.iter().filter_map(|(place, field)| {
                    Some(push(&list, field.header.as_ref()?, &field.read(place), types::is_bytes(&field.ty)))
                });
                quote!(#(#push)*)
            },
        ));
    }
    if pushes.is_empty() {
        return TokenStream::new();
    }
    let krate = &event.krate;
    quote! {
        fn headers(&self) -> #krate::Headers {
            let mut #list = #krate::Headers::new();
            #(#pushes)*
            #list
        }
    }
}

fn payload(event: &Event) -> TokenStream {
    let Event { codec, krate, .. } = event;
    let none = quote!(::core::result::Result::Ok(::core::option::Option::None));
    let encoded = quote! {
        ::core::result::Result::map(<#codec as #krate::codec::Codec<Self>>::encode(self), ::core::option::Option::Some)
    };
    let tombstones: Vec<&Ident> =
        event.shape.variants.iter().filter(|variant| variant.tombstone).map(|variant| &variant.ident).collect();
    let payload = if event.shape.is_tombstone() {
        none
    } else if tombstones.is_empty() {
        encoded
    } else {
        quote!(match self { #(Self::#tombstones { .. })|* => #none, _ => #encoded })
    };
    quote! {
        fn payload(
            &self,
        ) -> ::core::result::Result<::core::option::Option<::std::vec::Vec<u8>>, #krate::CodecError> {
            #payload
        }
    }
}

/// `None` for a tombstone: it has no payload, and its codec need not exist.
fn payload_text(event: &Event) -> TokenStream {
    let Event { codec, krate, .. } = event;
    if event.shape.is_tombstone() {
        return TokenStream::new();
    }
    quote! {
        fn payload_text(
            payload: &[u8],
        ) -> ::core::result::Result<::std::string::String, #krate::CodecError> {
            <#codec as #krate::codec::Codec<Self>>::text(payload)
        }
    }
}

/// `None` for a tombstone, as in [`payload_text`].
fn check_codec(event: &Event) -> TokenStream {
    let Event { codec, krate, .. } = event;
    if event.shape.is_tombstone() {
        return TokenStream::new();
    }
    quote! {
        fn check_codec() -> ::core::result::Result<(), #krate::CodecError> {
            <#codec as #krate::codec::Codec<Self>>::check()
        }
    }
}
