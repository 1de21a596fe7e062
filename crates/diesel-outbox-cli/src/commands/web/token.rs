use std::fmt;
use std::str::FromStr;

use subtle::ConstantTimeEq as _;

use crate::error::Error;

/// Nobody guesses so many random bytes.
const RANDOM_BYTES: usize = 32;

/// Characters of a token that somebody chooses: enough for a random one of 80 bits.
const CHARS_MIN: usize = 16;

/// What a browser must have to see the dashboard.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Token(String);

impl Token {
    /// A new one, from the operating system.
    pub(super) fn random() -> Result<Self, Error> {
        let mut bytes = [0; RANDOM_BYTES];
        getrandom::fill(&mut bytes).map_err(|error| Error::failed(format!("no random token can be made: {error}")))?;
        Ok(Self(bytes.iter().map(|byte| format!("{byte:02x}")).collect()))
    }

    pub(super) fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether it is this text, in a time that does not tell how much of it is right.
    pub(super) fn is(&self, given: &str) -> bool {
        self.0.as_bytes().ct_eq(given.as_bytes()).into()
    }
}

impl FromStr for Token {
    type Err = String;

    /// Characters that mean nothing else in a URL and a cookie.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let is_plain = text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'));
        if text.len() < CHARS_MIN || !is_plain {
            return Err(format!("give at least {CHARS_MIN} letters, digits, - or _, chosen at random"));
        }
        Ok(Self(text.to_owned()))
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_random_token_is_another_each_time() {
        let (one, other) = (Token::random().expect("random"), Token::random().expect("random"));
        assert!(one != other && one.as_str().len() == 2 * RANDOM_BYTES);
        assert_eq!(one.as_str().parse(), Ok(one.clone()));
        assert!(one.is(one.as_str()) && !one.is(other.as_str()) && !one.is(&one.as_str()[1..]) && !one.is(""));
        assert!(!format!("{one:?}").contains(one.as_str()));
    }

    #[test]
    fn a_chosen_token_is_long_and_plain() {
        assert!("abcdefgh-_012345".parse::<Token>().is_ok());
        for wrong in ["", "short", "abcdefgh 0123456", "abcdefgh;0123456", "abcdefgh&0123456", "äbcdefgh01234567"] {
            assert!(wrong.parse::<Token>().is_err(), "{wrong}");
        }
    }
}
