//! What the derive generates does what it should, and the compiler says what is wrong with mistakes. The generated code itself is
//! compared in the macro's own crate.

mod behaviour;
mod no_name_in_scope;
mod ui;
