use std::borrow::Cow;

/// Replaces a secret.
pub(super) const REDACTED: &str = "[redacted]";

/// Parts of the names of secret settings. Better too many than too few: an extra one only hides a value in `Debug`.
const SECRET_NAME_PARTS: &[&str] =
    &["password", "secret", "key", "token", "pem", "oauthbearer.config", "jaas", "kinit", "assertion"];

/// Whether a setting's value is a secret.
pub(super) fn is_secret(name: &str) -> bool {
    SECRET_NAME_PARTS.iter().any(|part| name.contains(part))
}

/// The secrets of a configuration, to be removed from the client library's texts.
///
/// librdkafka redacts its own logs. Brokers and TLS libraries write texts too, and those end up on rows and in logs.
#[derive(Clone, Default)]
pub(crate) struct Secrets(Vec<String>);

impl Secrets {
    pub(crate) fn of<'a>(settings: impl Iterator<Item = (&'a str, &'a str)>) -> Self {
        let secret = settings.filter(|(name, value)| is_secret(name) && !value.is_empty());
        let mut values: Vec<String> = secret.map(|(_, value)| value.to_owned()).collect();
        // The longest first: a secret may contain another one.
        values.sort_by_key(|value| std::cmp::Reverse(value.len()));
        Self(values)
    }

    pub(crate) fn scrub<'a>(&self, text: &'a str) -> Cow<'a, str> {
        self.0.iter().fold(Cow::Borrowed(text), |text, secret| match text.contains(secret.as_str()) {
            true => Cow::Owned(text.replace(secret.as_str(), REDACTED)),
            false => text,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::Secrets;

    #[test]
    fn secrets_go_and_the_rest_stays() {
        let settings = [("sasl.username", "shop"), ("sasl.password", "sword"), ("ssl.key.password", "swordfish")];
        let secrets = Secrets::of(settings.into_iter());
        assert_eq!(secrets.scrub("shop:swordfish, sword"), "shop:[redacted], [redacted]");
        assert_eq!(secrets.scrub("nothing to see"), "nothing to see");
    }

    #[test]
    fn an_empty_secret_is_none() {
        let secrets = Secrets::of([("sasl.password", "")].into_iter());
        assert_eq!(secrets.scrub("text"), "text");
    }
}
