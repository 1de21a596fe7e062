//! Queries in URLs.

use std::fmt::Write as _;

/// The text as a value in a URL's query.
pub(crate) fn encoded(text: &str) -> String {
    text.bytes().fold(String::new(), |mut encoded, byte| {
        if byte.is_ascii_alphanumeric() {
            encoded.push(char::from(byte));
        } else {
            // Writing to a string does not fail.
            let _ = write!(encoded, "%{byte:02X}");
        }
        encoded
    })
}

#[cfg(test)]
mod tests {
    use super::encoded;

    #[test]
    fn signs_are_escaped() {
        assert_eq!(encoded("rate(a{b=\"c\"}[5m])"), "rate%28a%7Bb%3D%22c%22%7D%5B5m%5D%29");
    }
}
