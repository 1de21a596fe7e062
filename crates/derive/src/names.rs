//! Checks names, derives a type's default kind, and finds the known word nearest to a wrong one.

/// As in the library's `limits`, which a macro crate cannot import; a test compares them.
pub(crate) const TOPIC_CHARS_MAX: usize = 249;
pub(crate) const KIND_CHARS_MAX: usize = 255;

const HEADER_PREFIX_RESERVED: &str = "outbox-";

/// Kafka's rules, which are the strictest of all transports.
pub(crate) fn topic_problem(name: &str) -> Option<String> {
    let illegal = |c: &char| !(c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-'));
    if name.is_empty() {
        Some("the topic's name is empty: write it, as in `topic = \"orders\"`".to_owned())
    } else if name == "." || name == ".." {
        Some(format!("Kafka has no topic `{name}`: give it a name of letters, digits, `.`, `_` or `-`"))
    } else if let Some(c) = name.chars().find(illegal) {
        Some(format!("{c:?} is not allowed in a topic's name: use ASCII letters, digits, `.`, `_` and `-`"))
    } else if name.len() > TOPIC_CHARS_MAX {
        Some(format!("the topic's name has {} characters: Kafka allows at most {TOPIC_CHARS_MAX}", name.len()))
    } else {
        None
    }
}

pub(crate) fn kind_problem(kind: &str) -> Option<String> {
    let chars = kind.chars().count();
    if kind.is_empty() {
        Some("the kind is empty: say what happened, as in `kind = \"order.placed\"`, or leave it out".to_owned())
    } else if chars > KIND_CHARS_MAX {
        Some(format!("the kind has {chars} characters: at most {KIND_CHARS_MAX} fit its column"))
    } else {
        None
    }
}

pub(crate) fn header_problem(name: &str) -> Option<String> {
    // HTTP ignores the case of header names, so the prefix is reserved in any case.
    let prefix = name.get(..HEADER_PREFIX_RESERVED.len());
    if name.is_empty() {
        Some("the header's name is empty: write it, as in `\"tenant\"`".to_owned())
    } else if prefix.is_some_and(|prefix| prefix.eq_ignore_ascii_case(HEADER_PREFIX_RESERVED)) {
        Some(format!("headers that begin with `{HEADER_PREFIX_RESERVED}` are the library's own: choose another name"))
    } else {
        None
    }
}

/// `HTTPRequestSent2` as `http_request_sent2`.
pub(crate) fn snake_case(name: &str) -> String {
    let name: Vec<char> = name.trim_start_matches("r#").chars().collect();
    let mut snake = String::new();
    for (i, c) in name.iter().enumerate() {
        let before = i.checked_sub(1).map(|i| name[i]);
        let ends_acronym = || name.get(i + 1).is_some_and(|next| next.is_lowercase());
        let word = c.is_uppercase() && before.is_some_and(|b| b != '_' && (!b.is_uppercase() || ends_acronym()));
        if word {
            snake.push('_');
        }
        snake.extend(c.to_lowercase());
    }
    snake
}

/// The known word that was probably meant, if one is near.
pub(crate) fn nearest<'a>(word: &str, known: &[&'a str]) -> Option<&'a str> {
    let near = known.iter().map(|known| (edits(word, known), *known)).min()?;
    (near.0 <= near.1.len() / 3).then_some(near.1)
}

/// The Levenshtein distance.
fn edits(a: &str, b: &str) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, from) in a.bytes().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, to) in b.bytes().enumerate() {
            let replaced = diagonal + usize::from(from != to);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

/// `` `a`, `b` and `c` ``.
pub(crate) fn quoted_list<S: AsRef<str>>(names: &[S]) -> String {
    let quoted: Vec<String> = names.iter().map(|name| format!("`{}`", name.as_ref())).collect();
    match quoted.split_last() {
        Some((last, [])) => last.clone(),
        Some((last, rest)) => format!("{} and {last}", rest.join(", ")),
        None => String::new(),
    }
}
