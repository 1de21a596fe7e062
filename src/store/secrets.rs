//! Removes passwords from error messages that contain a database URL.

use crate::limits::SECRET_LENGTH_MIN;

/// The replacement for a secret.
const REDACTED: &str = "[redacted]";

/// A driver's error message without the password in `url`.
///
/// Drivers repeat the part they cannot read: all of a mistyped URL, or of an unescaped password what they took for host or port.
/// Searching for the driver's own words would depend on its version and language.
pub(crate) fn redacted(complaint: &str, url: &str) -> String {
    secrets(url).into_iter().fold(complaint.to_owned(), |text, secret| text.replace(secret, REDACTED))
}

/// Longest first: a secret may contain another one.
fn secrets(url: &str) -> Vec<&str> {
    let mut found: Vec<&str> = of_login(url).into_iter().chain(of_settings(url)).collect();
    let parts: Vec<&str> = found.iter().flat_map(|password| password.split(is_delimiter)).collect();
    found.extend(parts);
    found.retain(|secret| secret.len() >= SECRET_LENGTH_MIN);
    found.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
    found
}

/// From `scheme://user:password@host`, however badly typed: an `@` in the password is part of it.
fn of_login(url: &str) -> Option<&str> {
    let login = url.split_once("://").map_or(url, |(_, rest)| rest).rsplit_once('@')?.0;
    Some(login.split_once(':')?.1)
}

/// From `password=..` among settings, with following words that are no settings: an unquoted password may contain a space.
fn of_settings(url: &str) -> impl Iterator<Item = &str> {
    url.match_indices("password").flat_map(|(at, name)| {
        let words = url[at + name.len()..].split(|letter: char| letter.is_whitespace() || letter == '&');
        let mut words = words.map(|word| word.trim_start_matches('=')).filter(|word| !word.is_empty());
        let first = words.next();
        first.into_iter().chain(words.take_while(|word| !word.contains('='))).map(|word| word.trim_matches('\''))
    })
}

fn is_delimiter(letter: char) -> bool {
    letter.is_whitespace() || "@:/?#&=%[],'\\".contains(letter)
}

#[cfg(test)]
mod tests {
    use super::redacted;

    #[test]
    fn nothing_of_a_password_is_left_however_it_was_typed() {
        for url in [
            "postgress://u:swordfish@h/db",
            "postgres:/u:swordfish@h/db",
            "postgres://u:swordfish@tail@h/db",
            "postgres://u:a/swordfish@h/db",
            "postgres://u:sword%zzfish@h/db",
            "postgress://h/db?user=u&password=swordfish&sslmode=require",
            "host=h password=swordfish user=u",
            "host=h password = 'swordfish' user=u",
            "host=h password=a swordfish user=u",
            "host=h sslpassword=swordfish",
        ] {
            for part in [url, "swordfish", "u:swordfish", "sword%zzfish", "fish@h", "/swordfish@h"] {
                let is_of_it = url.contains(part);
                let text = redacted(&format!("missing \"=\" after \"{part}\" in connection info string"), url);
                let leaked = text.contains("swordfish") || text.contains("sword%zz");
                assert!(!(is_of_it && leaked), "{url}: {text}");
                assert!(text.starts_with("missing \"=\" after \""), "{text}");
            }
        }
    }

    #[test]
    fn the_rest_of_a_complaint_stays() {
        let complaint = "connection to server at \"h\", port 5432 failed: FATAL: no such user \"u\"";
        for url in ["postgres://u:swordfish@h/db", "postgres://u:@h/db", "postgres://u@h/db", "host=h user=u", ""] {
            assert_eq!(redacted(complaint, url), complaint);
        }
    }
}
