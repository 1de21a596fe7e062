//! What is compared of a message: a hash of each part.

use std::fmt;
use std::hash::Hasher as _;

use diesel_outbox::Headers;
use serde::Serialize;
use twox_hash::XxHash3_64;

/// A part of a message that a consumer sees.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Part {
    /// The key.
    Key,
    /// The kind.
    Kind,
    /// The user's headers.
    Headers,
    /// The payload.
    Payload,
}

const PARTS: [Part; 4] = [Part::Key, Part::Kind, Part::Headers, Part::Payload];

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Key => "key",
            Self::Kind => "kind",
            Self::Headers => "headers",
            Self::Payload => "payload",
        })
    }
}

/// The hashes of the parts. Nobody chooses a message to collide with its own copy, so 64 bits do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Content(pub(crate) [u64; 4]);

impl Content {
    pub(crate) fn of(key: Option<&[u8]>, kind: &str, headers: &Headers, payload: Option<&[u8]>) -> Self {
        Self([hash_of(key), hash_of(Some(kind.as_bytes())), hash_of_headers(headers), hash_of(payload)])
    }

    /// The same, with headers as a row has them. Those that cannot be read equal no others.
    pub(crate) fn of_row(key: Option<&str>, kind: &str, headers: &str, payload: Option<&[u8]>) -> Self {
        let parts = |headers: &Headers| Self::of(key.map(str::as_bytes), kind, headers, payload);
        match Headers::from_json(headers) {
            Ok(headers) => parts(&headers),
            Err(_) => {
                let Self([key, kind, _, payload]) = parts(&Headers::new());
                Self([key, kind, hash_of(Some(headers.as_bytes())), payload])
            }
        }
    }

    pub(crate) fn key(self) -> u64 {
        self.0[0]
    }

    /// In which parts two messages differ.
    pub(crate) fn differences(self, other: Self) -> Vec<Part> {
        let pairs = self.0.iter().zip(other.0);
        PARTS.into_iter().zip(pairs).filter(|(_, (one, other))| **one != *other).map(|(part, _)| part).collect()
    }
}

fn hash_of(bytes: Option<&[u8]>) -> u64 {
    let mut hasher = XxHash3_64::with_seed(0);
    hasher.write(&[u8::from(bytes.is_some())]);
    hasher.write(bytes.unwrap_or_default());
    hasher.finish()
}

/// In the order of their names: not every broker keeps the order of two headers. Those of one name keep theirs.
fn hash_of_headers(headers: &Headers) -> u64 {
    let mut sorted: Vec<(&str, &[u8])> = headers.iter().collect();
    sorted.sort_by_key(|(name, _)| *name);
    let mut hasher = XxHash3_64::with_seed(0);
    for text in sorted.iter().flat_map(|(name, value)| [name.as_bytes(), value]) {
        hasher.write(&text.len().to_le_bytes());
        hasher.write(text);
    }
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn content(headers: &[(&str, &str)], payload: Option<&[u8]>) -> Content {
        Content::of(Some(b"7"), "placed", &headers.iter().copied().collect(), payload)
    }

    #[test]
    fn each_part_is_compared_by_itself() {
        let one = content(&[("a", "1")], Some(b"x"));
        assert_eq!(one.differences(one), []);
        assert_eq!(one.differences(content(&[("a", "2")], Some(b"x"))), [Part::Headers]);
        assert_eq!(one.differences(content(&[("a", "1")], Some(b"y"))), [Part::Payload]);
        let other = Content::of(None, "paid", &Headers::new(), None);
        assert_eq!(one.differences(other), PARTS);
        let tombstone = content(&[("a", "1")], None);
        assert_eq!(tombstone.differences(content(&[("a", "1")], Some(b""))), [Part::Payload], "it is no empty payload");
    }

    #[test]
    fn headers_of_one_name_keep_their_order() {
        let of = |headers: &[(&str, &str)]| content(headers, None);
        assert_eq!(of(&[("a", "1"), ("b", "2")]), of(&[("b", "2"), ("a", "1")]));
        assert_ne!(of(&[("a", "1"), ("a", "2")]), of(&[("a", "2"), ("a", "1")]));
        assert_ne!(of(&[("a", "1b")]), of(&[("a1", "b")]), "names and values are told apart");
    }

    #[test]
    fn a_row_has_the_content_of_its_record() {
        let headers: Headers = [("source", "shop")].into_iter().collect();
        let row = Content::of_row(Some("7"), "placed", &headers.to_json(), Some(b"x"));
        assert_eq!(row, Content::of(Some(b"7"), "placed", &headers, Some(b"x")));
        let poisoned = Content::of_row(Some("7"), "placed", "no JSON", Some(b"x"));
        assert_eq!(row.differences(poisoned), [Part::Headers]);
    }
}
