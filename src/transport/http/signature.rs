//! Signatures in the form of standard-webhooks (version 1, HMAC-SHA256).

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use ring::hmac::{HMAC_SHA256, Key, sign};

const PREFIX: &str = "whsec_";

/// The secret sizes that standard-webhooks allows: too long to guess, and no longer than the hash uses.
const SECRET_BYTES: std::ops::RangeInclusive<usize> = 24..=64;

/// Signs with every secret, so that one can be replaced while receivers still know the other.
pub(super) struct Signer(Vec<Key>);

/// A secret does not have the form `whsec_` and base64 of 24 to 64 bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct IllegalSecret;

impl Signer {
    pub(super) fn new(secrets: &[String]) -> Result<Option<Self>, IllegalSecret> {
        let keys: Vec<Key> = secrets.iter().map(|secret| key(secret)).collect::<Result<_, _>>()?;
        Ok((!keys.is_empty()).then_some(Self(keys)))
    }

    /// The value of `webhook-signature`: over id, timestamp and payload, as they are sent.
    pub(super) fn signature(&self, id: &str, timestamp: &str, payload: &[u8]) -> String {
        let signed = [id.as_bytes(), b".", timestamp.as_bytes(), b".", payload].concat();
        let signatures = self.0.iter().map(|key| format!("v1,{}", BASE64.encode(sign(key, &signed))));
        signatures.collect::<Vec<_>>().join(" ")
    }
}

fn key(secret: &str) -> Result<Key, IllegalSecret> {
    let bytes = BASE64.decode(secret.strip_prefix(PREFIX).ok_or(IllegalSecret)?).map_err(|_| IllegalSecret)?;
    if SECRET_BYTES.contains(&bytes.len()) { Ok(Key::new(HMAC_SHA256, &bytes)) } else { Err(IllegalSecret) }
}

impl fmt::Debug for Signer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Signer").field("secrets", &self.0.len()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of the specification's own libraries.
    const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

    #[test]
    fn a_signature_matches_the_specification() {
        let signer = Signer::new(&[SECRET.to_owned()]).unwrap().unwrap();
        let payload = br#"{"test": 2432232314}"#;
        let signature = signer.signature("msg_p5jXN8AQM9LWM0D4loKWxJek", "1614265330", payload);
        assert_eq!(signature, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
    }

    #[test]
    fn each_secret_signs_and_an_invalid_one_is_refused() {
        let other = format!("whsec_{}", BASE64.encode([7; 32]));
        let signer = Signer::new(&[SECRET.to_owned(), other]).unwrap().unwrap();
        assert_eq!(signer.signature("id", "1", b"x").split(' ').count(), 2);
        assert!(Signer::new(&[]).unwrap().is_none());
        let short = format!("whsec_{}", BASE64.encode([7; 23]));
        for illegal in ["", "secret", "whsec_", "whsec_***", &BASE64.encode([7; 32]), &short] {
            assert_eq!(Signer::new(&[illegal.to_owned()]).unwrap_err(), IllegalSecret, "{illegal}");
        }
        assert!(!format!("{signer:?}").contains("MfKQ"));
    }
}
