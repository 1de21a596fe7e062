//! Each log event of the library at INFO or above is in the table of `events`, with its fields.

use std::collections::{BTreeMap, BTreeSet};

use diesel_outbox::internals::events::{ALL, Event};
use proc_macro2::{Delimiter, Spacing, TokenStream, TokenTree};

use super::Source;
use super::module_tree::module_of;

/// The macros that log by the table. The second one has two arguments after the event that are no fields, the latter being the error.
const BY_TABLE: [(&str, usize); 2] = [("log_event", 0), ("warn_once_a_minute", 2)];
const LOUD: [&str; 4] = ["info", "warn", "error", "event"];
/// Where those macros are defined.
const DEFINED_IN: [&str; 2] = ["events", "repeated"];

/// Where an event is logged, and with which fields.
struct Logged {
    event: String,
    fields: BTreeSet<String>,
    position: String,
}

pub(super) fn check(sources: &[Source]) -> Vec<String> {
    let (mut violations, mut logged) = (Vec::new(), Vec::new());
    for source in sources {
        let Some(module) = module_of(&source.path) else { continue };
        let is_test = module.iter().any(|part| part == "tests" || part == "testing");
        if !is_test && !DEFINED_IN.contains(&&*module.join("::")) {
            let tokens = source.text.parse().unwrap_or_else(|error| panic!("{}: {error}", source.path));
            walk(tokens, &source.path, &mut logged, &mut violations);
        }
    }
    violations.extend(compare(&logged, ALL));
    violations
}

fn compare(logged: &[Logged], table: &[Event]) -> Vec<String> {
    let mut fields: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
    let mut violations = Vec::new();
    for one in logged {
        match table.iter().find(|event| event.id == one.event) {
            None => violations.push(format!("{}: the event {} is not in the table", one.position, one.event)),
            Some(event) => fields.entry(event.id).or_default().extend(one.fields.iter().cloned()),
        }
    }
    for event in table {
        let listed: BTreeSet<String> = event.fields.iter().map(|field| (*field).to_owned()).collect();
        match fields.get(event.id) {
            None => violations.push(format!("nothing logs the event {}", event.id)),
            Some(fields) if *fields != listed => {
                violations
                    .push(format!("the event {} is logged with {fields:?}, and listed with {listed:?}", event.id));
            }
            Some(_) => {}
        }
    }
    violations
}

fn walk(tokens: TokenStream, path: &str, logged: &mut Vec<Logged>, violations: &mut Vec<String>) {
    let tokens: Vec<TokenTree> = tokens.into_iter().collect();
    for (at, token) in tokens.iter().enumerate() {
        let TokenTree::Group(group) = token else { continue };
        let name_before = |back: usize| match at.checked_sub(back).map(|at| &tokens[at]) {
            Some(TokenTree::Ident(name)) => name.to_string(),
            _ => String::new(),
        };
        if group.delimiter() == Delimiter::Brace && name_before(1) == "tests" && name_before(2) == "mod" {
            continue;
        }
        let is_macro =
            matches!(at.checked_sub(1).map(|at| &tokens[at]), Some(TokenTree::Punct(mark)) if mark.as_char() == '!');
        let name = if is_macro { name_before(2) } else { String::new() };
        let position = format!("{path}:{}", group.span().start().line);
        if let Some((_, skipped)) = BY_TABLE.iter().find(|(by_table, _)| *by_table == name) {
            logged.push(log_call(group.stream(), *skipped, position));
        } else if LOUD.contains(&&*name) {
            violations.push(format!("{position}: {name}! logs what is not in the table of events: use log_event!"));
        }
        walk(group.stream(), path, logged, violations);
    }
}

/// `EVENT, .., field, %field, field = value`.
fn log_call(tokens: TokenStream, skipped: usize, position: String) -> Logged {
    let mut parts: Vec<Vec<TokenTree>> = vec![Vec::new()];
    for token in tokens {
        match token {
            TokenTree::Punct(mark) if mark.as_char() == ',' && mark.spacing() == Spacing::Alone => {
                parts.push(Vec::new())
            }
            token => parts.last_mut().expect("there is one").push(token),
        }
    }
    let first_name = |part: &Vec<TokenTree>| {
        part.iter().find_map(|token| if let TokenTree::Ident(name) = token { Some(name.to_string()) } else { None })
    };
    let event = first_name(&parts[0]).unwrap_or_default().to_lowercase();
    let of_error = (skipped > 0).then(|| "error".to_owned());
    let fields = parts.iter().skip(1 + skipped).filter_map(first_name).chain(of_error).collect();
    Logged { event, fields, position }
}

#[cfg(test)]
mod tests {
    use super::super::{assert_one_violation, file};
    use super::*;

    fn logged(text: &str) -> Vec<(String, Vec<String>)> {
        let (mut logged, mut violations) = (Vec::new(), Vec::new());
        walk(text.parse().expect("tokens"), "src/a.rs", &mut logged, &mut violations);
        assert_eq!(violations, [""; 0]);
        logged.into_iter().map(|one| (one.event, one.fields.into_iter().collect())).collect()
    }

    #[test]
    fn fields_are_read_as_tracing_reads_them() {
        let text = "fn f() { select! { _ = a => log_event!(TOPIC_BUSY, topic, %reason, wait = ?f(a, b)), } }";
        assert_eq!(logged(text), [("topic_busy".to_owned(), ["reason", "topic", "wait"].map(str::to_owned).to_vec())]);
        let repeated = "fn f() { warn_once_a_minute!(CLAIM_FAILED, self.failures, error, topic = x.name()) }";
        let expected = [("claim_failed".to_owned(), ["error", "topic"].map(str::to_owned).to_vec())];
        assert_eq!(logged(repeated), expected);
    }

    #[test]
    fn what_the_table_lacks_is_a_violation() {
        let violations = |text: &str| {
            let (mut logged, mut violations) = (Vec::new(), Vec::new());
            walk(text.parse().expect("tokens"), "src/a.rs", &mut logged, &mut violations);
            violations.extend(compare(&logged, &[]));
            violations
        };
        assert_eq!(violations("fn f() { tracing::debug!(x); trace!(x); }"), [""; 0]);
        assert_eq!(violations("mod tests { fn f() { tracing::warn!(x); } }"), [""; 0]);
        for text in ["fn f() { tracing::warn!(x) }", "fn f() { g(error!(x)) }", "fn f() { log_event!(NO_SUCH_EVENT) }"]
        {
            assert_one_violation(&violations(text), "src/a.rs:1");
        }
    }

    #[test]
    fn an_event_that_nothing_logs_is_a_violation() {
        let violations = check(&[file("src/a.rs", "fn f() {}")]);
        assert_eq!(violations.len(), ALL.len(), "{violations:?}");
    }

    #[test]
    fn other_fields_than_the_listed_ones_are_a_violation() {
        let busy = ALL.iter().filter(|event| event.id == "topic_busy").copied().collect::<Vec<_>>();
        let fields = BTreeSet::from(["topic".to_owned()]);
        let logged = Logged { event: "topic_busy".to_owned(), fields, position: "src/a.rs:1".to_owned() };
        assert_one_violation(&compare(&[logged], &busy), "the event topic_busy");
    }
}
