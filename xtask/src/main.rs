//! Every step of CI as one command.
fn main() {}
