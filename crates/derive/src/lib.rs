//! The derive macro of [diesel-outbox](https://docs.rs/diesel-outbox), which re-exports it: depend on that crate.
#![forbid(unsafe_code)]

mod attrs;
mod event;
mod expand;
mod fingerprint;
mod names;
mod places;
mod shape;
mod types;
mod value;
mod written;

#[cfg(test)]
#[path = "../tests/mod.rs"]
mod tests;

use proc_macro::TokenStream;
use syn::{DeriveInput, parse_macro_input};

/// Implements `OutboxMessage` for a struct or an enum, by its `#[outbox(..)]` attributes: `diesel_outbox::OutboxMessage` has them, with
/// examples.
#[proc_macro_derive(OutboxMessage, attributes(outbox))]
pub fn derive_outbox_message(input: TokenStream) -> TokenStream {
    expand::derive(&parse_macro_input!(input as DeriveInput)).into()
}
