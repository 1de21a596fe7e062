//! Signatures in the form of standard-webhooks (version 1, HMAC-SHA256), seen from the receiver.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use ring::hmac::{HMAC_SHA256, Key, verify};

use super::WebhookRejection;

/// Whoever records a request cannot play it again tomorrow. Clocks may differ by as much.
const AGE_MAX: Duration = Duration::from_secs(5 * 60);

/// The sizes that the sender allows.
const SECRET_BYTES: std::ops::RangeInclusive<usize> = 24..=64;

/// The secrets that senders sign with. It is part of the router's state.
///
/// Cheap to clone: clones share everything.
#[derive(Clone)]
pub struct WebhookSecrets(Arc<[Key]>);

/// A secret does not have the form `whsec_` and base64 of 24 to 64 bytes, or there is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a webhook secret must be `whsec_` and base64 of 24 to 64 bytes, and there must be at least one")]
pub struct InvalidSecret;

/// What a request brings to be verified.
#[derive(Debug, Clone, Copy)]
pub(super) struct Signed<'r> {
    pub(super) id: &'r str,
    pub(super) timestamp: &'r str,
    pub(super) signatures: &'r str,
    pub(super) body: &'r [u8],
}

impl WebhookSecrets {
    /// The secrets, each as the sender has it. Several while one is replaced: a signature with any of them is valid.
    ///
    /// # Errors
    /// Returns an error if a secret is malformed, or if there is none.
    pub fn new<S: AsRef<str>>(secrets: impl IntoIterator<Item = S>) -> Result<Self, InvalidSecret> {
        let keys: Vec<Key> = secrets.into_iter().map(|secret| key(secret.as_ref())).collect::<Result<_, _>>()?;
        if keys.is_empty() { Err(InvalidSecret) } else { Ok(Self(keys.into())) }
    }

    /// Whether one who knows a secret signed this, lately.
    pub(super) fn check(&self, signed: &Signed<'_>, now: SystemTime) -> Result<(), WebhookRejection> {
        let seconds = signed.timestamp.parse().ok();
        let signed_at = seconds.and_then(|seconds| SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(seconds)));
        let signed_at = signed_at.ok_or(WebhookRejection::Unsigned)?;
        let text = [signed.id.as_bytes(), b".", signed.timestamp.as_bytes(), b".", signed.body].concat();
        let mut signatures =
            signed.signatures.split(' ').filter_map(|one| BASE64.decode(one.strip_prefix("v1,")?).ok());
        // `verify` takes the same time whatever is wrong.
        if !signatures.any(|signature| self.0.iter().any(|key| verify(key, &text, &signature).is_ok())) {
            return Err(WebhookRejection::Forged);
        }
        let age = now.duration_since(signed_at).unwrap_or_else(|ahead| ahead.duration());
        if age > AGE_MAX { Err(WebhookRejection::Old) } else { Ok(()) }
    }
}

fn key(secret: &str) -> Result<Key, InvalidSecret> {
    let bytes = BASE64.decode(secret.strip_prefix("whsec_").ok_or(InvalidSecret)?).map_err(|_| InvalidSecret)?;
    if SECRET_BYTES.contains(&bytes.len()) { Ok(Key::new(HMAC_SHA256, &bytes)) } else { Err(InvalidSecret) }
}

impl fmt::Debug for WebhookSecrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WebhookSecrets").field("secrets", &self.0.len()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of the specification's own libraries.
    const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    const OTHER: &str = "whsec_BwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwc=";
    const SIGNED: Signed<'static> = Signed {
        id: "msg_p5jXN8AQM9LWM0D4loKWxJek",
        timestamp: "1614265330",
        signatures: "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
        body: br#"{"test": 2432232314}"#,
    };

    fn at(seconds: u64) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)
    }

    #[test]
    fn the_example_of_the_specification_is_signed() {
        for secrets in [vec![SECRET], vec![OTHER, SECRET]] {
            let secrets = WebhookSecrets::new(secrets).expect("secrets");
            secrets.check(&SIGNED, at(1_614_265_330)).expect("signed");
            let also = format!("v1,AAAA v1a,x {}", SIGNED.signatures);
            secrets.check(&Signed { signatures: &also, ..SIGNED }, at(1_614_265_330)).expect("one of them is right");
        }
    }

    #[test]
    fn any_other_request_is_refused() {
        let secrets = WebhookSecrets::new([SECRET]).expect("a secret");
        let check = |signed: Signed<'_>| secrets.check(&signed, at(1_614_265_330));
        for forged in [
            Signed { id: "msg_other", ..SIGNED },
            Signed { timestamp: "1614265331", ..SIGNED },
            Signed { body: b"{}", ..SIGNED },
            Signed { signatures: "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OA=", ..SIGNED },
            Signed { signatures: "v2,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=", ..SIGNED },
            Signed { signatures: "", ..SIGNED },
        ] {
            assert!(matches!(check(forged), Err(WebhookRejection::Forged)), "{forged:?}");
        }
        for timestamp in ["", "now", "-1", "18446744073709551615"] {
            assert!(matches!(check(Signed { timestamp, ..SIGNED }), Err(WebhookRejection::Unsigned)), "{timestamp}");
        }
        let other = WebhookSecrets::new([OTHER]).expect("a secret");
        assert!(matches!(other.check(&SIGNED, at(1_614_265_330)), Err(WebhookRejection::Forged)));
    }

    #[test]
    fn a_request_is_valid_for_five_minutes() {
        let secrets = WebhookSecrets::new([SECRET]).expect("a secret");
        for (now, is_valid) in
            [(1_614_265_030, true), (1_614_265_029, false), (1_614_265_630, true), (1_614_265_631, false)]
        {
            assert_eq!(secrets.check(&SIGNED, at(now)).is_ok(), is_valid, "{now}");
        }
    }

    #[test]
    fn malformed_secrets_are_refused_and_none_is_shown() {
        let short = format!("whsec_{}", BASE64.encode([7; 23]));
        for secret in ["", "secret", "whsec_", "whsec_***", &BASE64.encode([7; 32]), &short] {
            assert_eq!(WebhookSecrets::new([secret]).expect_err("malformed"), InvalidSecret, "{secret}");
        }
        assert_eq!(WebhookSecrets::new::<&str>([]).expect_err("none"), InvalidSecret);
        assert!(!format!("{:?}", WebhookSecrets::new([SECRET]).expect("a secret")).contains("MfKQ"));
    }
}
