//! What the examples that need servers share: where the servers are.

use std::error::Error;
use std::time::Duration;

pub(crate) type Failure = Box<dyn Error + Send + Sync>;

/// How long a server may take for what it does at once.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(30);

/// The addresses of the servers, from the arguments or else from the variables; `None`, and a word about it, where one is
/// missing.
pub(crate) fn addresses<const COUNT: usize>(variables: [&str; COUNT]) -> Option<[String; COUNT]> {
    let given: Vec<String> = std::env::args().skip(1).collect();
    let from_variables = || variables.iter().map(|variable| std::env::var(variable).ok()).collect::<Option<Vec<_>>>();
    let found = if given.is_empty() { from_variables() } else { Some(given) };
    let addresses = found.and_then(|addresses| addresses.try_into().ok());
    if addresses.is_none() {
        println!("Skipped: this example needs servers. Give their addresses as arguments, in this order, or by these");
        println!(
            "variables: {}. `cargo xtask servers` starts all of them and prints the variables.",
            variables.join(", ")
        );
    }
    addresses
}
