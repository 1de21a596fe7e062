//! Who may connect to a Kafka node: its listener with TLS and a login, and its access lists.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};

use super::account::Account;
use super::folder::{Folder, random_password};
use super::process::run;

/// Who may connect to a Kafka node, and with which rights.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Access {
    /// One plain listener, no login.
    #[default]
    Open,
    /// In addition to the plain listener, one with `SASL_SSL` and `SCRAM-SHA-512`; every user has every right.
    Sasl,
    /// Like [`Access::Sasl`], but only [`Sasl::owner`] has rights: [`Sasl::stranger`] can log in and has none. The plain listener
    /// keeps every right.
    Acls,
}

/// The listener with `security.protocol=SASL_SSL` and `sasl.mechanism=SCRAM-SHA-512`.
#[derive(Debug, Clone)]
pub struct Sasl {
    /// Its address, for `bootstrap.servers`.
    pub bootstrap: String,
    /// The certificate of the authority that signed the node's, for `ssl.ca.location`. No other one is trusted; the node's names
    /// are `127.0.0.1` and `localhost`.
    pub ca_pem: PathBuf,
    /// Has every right.
    pub owner: Login,
    /// Can log in; has no rights if there are access lists.
    pub stranger: Login,
}

/// A user of the node.
#[derive(Debug, Clone)]
pub struct Login {
    /// For `sasl.username`.
    pub user: String,
    /// For `sasl.password`.
    pub password: String,
}

/// What the node itself needs for that listener.
#[derive(Debug)]
pub(super) struct Keys {
    sasl: Sasl,
    port: u16,
    access: Access,
    keystore: PathBuf,
}

impl Keys {
    /// Creates an authority, a certificate and the logins.
    pub(super) fn make(folder: &Folder, port: u16, access: Access) -> Result<Self> {
        let login = |user: &str| anyhow::Ok(Login { user: user.to_owned(), password: random_password()? });
        let keystore = certificates(folder).context("make certificates for Kafka")?;
        let sasl = Sasl {
            bootstrap: format!("127.0.0.1:{port}"),
            ca_pem: folder.path().join("ca.pem"),
            owner: login("owner")?,
            stranger: login("stranger")?,
        };
        Ok(Self { sasl, port, access, keystore })
    }

    pub(super) fn port(&self) -> u16 {
        self.port
    }

    pub(super) fn into_sasl(self) -> Sasl {
        self.sasl
    }

    /// Users must exist before the first login, so they are written when the data folder is formatted.
    pub(super) fn format_arguments(&self) -> Vec<String> {
        let scram = |login: &Login| format!("SCRAM-SHA-512=[name={},password={}]", login.user, login.password);
        let add = |login| ["--add-scram".to_owned(), scram(login)];
        [&self.sasl.owner, &self.sasl.stranger].into_iter().flat_map(add).collect()
    }

    pub(super) fn settings(&self) -> Vec<(String, String)> {
        let login_module = "org.apache.kafka.common.security.scram.ScramLoginModule required;";
        let keystore = self.keystore.display().to_string();
        let mut settings = vec![
            ("sasl.enabled.mechanisms", "SCRAM-SHA-512"),
            ("listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config", login_module),
            // PEM needs no keytool, which starts a JVM for each step.
            ("ssl.keystore.type", "PEM"),
            ("ssl.keystore.location", &keystore),
        ];
        if self.access == Access::Acls {
            settings.push(("authorizer.class.name", "org.apache.kafka.metadata.authorizer.StandardAuthorizer"));
            settings.push(("allow.everyone.if.no.acl.found", "false"));
            settings.push(("super.users", "User:ANONYMOUS;User:owner")); // the plain listener's user is ANONYMOUS
        }
        settings.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
    }
}

/// An authority (`ca.pem`) and a certificate signed by it; returns the file with the node's key and certificate.
fn certificates(folder: &Folder) -> Result<PathBuf> {
    const NEW_KEY: [&str; 5] = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"];
    let account = Account::current();
    let path = |name: &str| folder.path().join(name);
    let config = "[req]\ndistinguished_name=name\n[name]\n[ca]\nbasicConstraints=critical,CA:true\nsubjectKeyIdentifier=hash\n\
                  [node]\nsubjectAltName=IP:127.0.0.1,DNS:localhost\nbasicConstraints=CA:false\n";
    let config = folder.write("openssl.cnf", config, account)?;
    let mut authority = Command::new("openssl");
    authority.args(["req", "-x509", "-days", "2", "-subj", "/CN=outbox test authority", "-extensions", "ca"]);
    authority.args(NEW_KEY).arg("-config").arg(&config);
    run(authority.arg("-keyout").arg(path("ca.key")).arg("-out").arg(path("ca.pem")))?;
    let mut request = Command::new("openssl");
    request.args(["req", "-new", "-subj", "/CN=localhost"]).args(NEW_KEY).arg("-config").arg(&config);
    run(request.arg("-keyout").arg(path("node.key")).arg("-out").arg(path("node.csr")))?;
    let mut sign = Command::new("openssl");
    sign.args(["x509", "-req", "-days", "2", "-set_serial", "2", "-extensions", "node", "-extfile"]).arg(&config);
    sign.arg("-CA").arg(path("ca.pem")).arg("-CAkey").arg(path("ca.key"));
    run(sign.arg("-in").arg(path("node.csr")).arg("-out").arg(path("node.pem")))?;
    let read = |name: &str| std::fs::read_to_string(path(name)).with_context(|| format!("read {name}"));
    folder.write("keystore.pem", &(read("node.key")? + &read("node.pem")?), account)
}
