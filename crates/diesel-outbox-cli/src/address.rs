//! Where the database is, and what of it may be shown.

use std::fmt;
use std::path::PathBuf;

use crate::error::Error;

/// A database by the scheme of its URL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Address {
    Postgres(String),
    Mysql(String),
    Sqlite(PathBuf),
}

impl Address {
    /// Takes `postgres://`, `postgresql://`, `mysql://`, `mariadb://`, `sqlite:` with a path, or a plain path, as Diesel's own program
    /// does.
    pub(crate) fn parse(url: &str) -> Result<Self, Error> {
        if let Some(path) = url.strip_prefix("sqlite://").or_else(|| url.strip_prefix("sqlite:")) {
            return Self::file(path);
        }
        match url.split_once("://") {
            Some(("postgres" | "postgresql", _)) => Ok(Self::Postgres(url.to_owned())),
            Some(("mysql", _)) => Ok(Self::Mysql(url.to_owned())),
            Some(("mariadb", rest)) => Ok(Self::Mysql(format!("mysql://{rest}"))),
            None if !url.contains('=') => Self::file(url),
            // Not the URL itself: it may hold a password.
            Some(_) | None => Err(Error::usage(
                "the database's URL must begin with postgres://, mysql://, mariadb:// or sqlite:, or be the path of an SQLite file",
            )),
        }
    }

    fn file(path: &str) -> Result<Self, Error> {
        if path.is_empty() {
            return Err(Error::usage("the database's URL is empty: give --database-url, or set DATABASE_URL"));
        }
        Ok(Self::Sqlite(PathBuf::from(path)))
    }

    /// The name of the kind of database.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::Postgres(_) => "PostgreSQL",
            Self::Mysql(_) => "MySQL or MariaDB",
            Self::Sqlite(_) => "SQLite",
        }
    }
}

// Without the password.
impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let url = match self {
            Self::Postgres(url) | Self::Mysql(url) => url,
            Self::Sqlite(path) => return write!(f, "{}", path.display()),
        };
        let rest = url.split_once("://").map_or("", |(_, rest)| rest);
        let (login, rest) = rest.rsplit_once('@').unwrap_or(("", rest));
        let place = rest.split('?').next().unwrap_or_default();
        let (host, database) = place.split_once('/').unwrap_or((place, ""));
        write!(f, "database {database:?} at {host:?}")?;
        match login.split(':').next().filter(|user| !user.is_empty()) {
            Some(user) => write!(f, " as user {user:?}"),
            None => Ok(()),
        }
    }
}

/// A text without the password of a URL. Errors of the library hold none; this is for what a driver may say besides.
pub(crate) fn redacted(text: &str, url: &str) -> String {
    let rest = url.split_once("://").map_or("", |(_, rest)| rest);
    let in_login = rest.rsplit_once('@').and_then(|(login, _)| Some(login.split_once(':')?.1));
    let in_settings = url.split(['?', '&']).filter_map(|setting| setting.strip_prefix("password="));
    let passwords = in_login.into_iter().chain(in_settings).filter(|password| !password.is_empty());
    passwords.fold(text.to_owned(), |text, password| text.replace(password, "[redacted]"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_database_is_known_by_its_scheme() {
        for (url, expected) in [
            ("postgres://u:p@h/db", Address::Postgres("postgres://u:p@h/db".into())),
            ("postgresql://h/db", Address::Postgres("postgresql://h/db".into())),
            ("mysql://h/db", Address::Mysql("mysql://h/db".into())),
            ("mariadb://h/db", Address::Mysql("mysql://h/db".into())),
            ("sqlite:shop.db", Address::Sqlite("shop.db".into())),
            ("sqlite:///var/shop.db", Address::Sqlite("/var/shop.db".into())),
            ("var/shop.db", Address::Sqlite("var/shop.db".into())),
        ] {
            assert_eq!(Address::parse(url).unwrap(), expected, "{url}");
        }
        for url in ["", "sqlite:", "oracle://u:swordfish@h/db", "host=h password=swordfish"] {
            let error = Address::parse(url).unwrap_err();
            assert!(matches!(error, Error::Usage(_)) && !error.to_string().contains("swordfish"), "{error}");
        }
    }

    #[test]
    fn an_address_is_shown_without_its_password() {
        for url in ["postgres://shop:sword@fish@db:5433/orders?sslmode=prefer", "mysql://shop:swordfish@db:5433/orders"]
        {
            let shown = Address::parse(url).unwrap().to_string();
            assert_eq!(shown, r#"database "orders" at "db:5433" as user "shop""#);
        }
        assert_eq!(
            Address::parse("postgres://db/orders?password=swordfish").unwrap().to_string(),
            r#"database "orders" at "db""#
        );
    }

    #[test]
    fn a_password_is_taken_out_of_any_text() {
        for url in ["postgres://u:swordfish@h/db", "postgres://h/db?user=u&password=swordfish&x=y"] {
            assert_eq!(redacted("no: swordfish!", url), "no: [redacted]!");
        }
        assert_eq!(redacted("no: u!", "postgres://u:@h/db"), "no: u!");
    }
}
