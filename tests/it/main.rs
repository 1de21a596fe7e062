//! The one test binary.

fn main() {}
