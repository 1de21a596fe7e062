//! The dashboard as a program of its own.

mod gate;
mod serve;
mod token;

use std::net::SocketAddr;

use axum::Router;
use clap::Args;
use diesel_outbox_web::{Access, Dashboard, Right, Rights};
use tokio::net::TcpListener;

use self::gate::{Admitted, Gate};
use self::serve::StopSignals;
use self::token::Token;
use crate::arguments::Options;
use crate::error::Error;
use crate::exit::Exit;
use crate::output::note;
use crate::session::{Session, actor};

/// Where the dashboard is, and for whom.
#[derive(Debug, Clone, Args)]
pub(crate) struct WebArgs {
    /// The address to listen on
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:8090")]
    listen: SocketAddr,
    /// What its users may do: read-only, all, or some, such as view,payloads,redrive
    #[arg(long, default_value = "read-only", value_parser = rights)]
    rights: Rights,
    /// The token that a browser must have; by default a random one, which is printed
    #[arg(long, env = "OUTBOX_WEB_TOKEN", hide_env_values = true)]
    token: Option<Token>,
    /// Ask for no token: whoever reaches the address has these rights
    #[arg(long, conflicts_with = "token")]
    allow_anyone: bool,
    /// An address under which browsers see it, such as https://ops.example.com; may be given several times
    #[arg(long, value_name = "URL", value_parser = origin)]
    origin: Vec<String>,
    /// The path under which browsers see it, such as /ops/outbox
    #[arg(long, value_name = "PATH", default_value = "/")]
    base_path: String,
}

fn rights(text: &str) -> Result<Rights, String> {
    let right = |name: &str| {
        let known = || Right::ALL.map(Right::name).join(", ");
        Right::from_name(name).ok_or_else(|| format!("there is no right {name:?}: use some of {}", known()))
    };
    match text {
        "read-only" => Ok(Rights::read_only()),
        "all" => Ok(Rights::all()),
        // No page is shown without this one.
        names => Ok(names.split(',').map(|name| right(name.trim())).collect::<Result<Rights, _>>()?.with(Right::View)),
    }
}

fn origin(text: &str) -> Result<String, String> {
    let origin = text.trim_end_matches('/');
    match origin.split_once("://") {
        Some(("http" | "https", host)) if !host.is_empty() && !host.contains(['/', '?', '#', '@']) => {
            Ok(origin.to_owned())
        }
        _ => Err("give http:// or https:// and a host, without a path".to_owned()),
    }
}

impl WebArgs {
    pub(crate) async fn run(&self, session: &Session) -> Result<Exit, Error> {
        self.check(&session.options)?;
        let taken = |error| Error::failed(format!("cannot listen on {}: {error}; --listen takes another", self.listen));
        let listener = TcpListener::bind(self.listen).await.map_err(taken)?;
        let address = listener.local_addr().map_err(taken)?;
        let token = match &self.token {
            _ if self.allow_anyone => None,
            Some(token) => Some(token.clone()),
            None => Some(Token::random()?),
        };
        // Before the address is printed: whoever reads it may stop the program at once.
        let signals = StopSignals::new()?;
        self.announce(address, token.as_ref());
        let gate = Gate::new(address.port(), token, self.origin.clone(), self.path());
        serve::until_stopped(listener, gate.around(self.router(session)), signals).await?;
        Ok(Exit::Fine)
    }

    fn check(&self, options: &Options) -> Result<(), Error> {
        if options.dry_run {
            return Err(Error::usage("--dry-run is not for web: with --rights read-only it changes nothing"));
        }
        if !self.listen.ip().is_loopback() && self.token.is_none() && !self.allow_anyone {
            return Err(Error::usage(format!(
                "other machines may reach {}: set OUTBOX_WEB_TOKEN to the token that browsers must have, or add --allow-anyone",
                self.listen
            )));
        }
        Ok(())
    }

    fn router(&self, session: &Session) -> Router {
        // An edited message is checked by its topic's settings, which only the application knows.
        let rights = if session.is_configured { self.rights } else { self.rights.without(Right::Edit) };
        let actor = actor(&session.options).unwrap_or_else(|| "outbox web".to_owned());
        let access = Access::new(actor, rights);
        let mut dashboard = Dashboard::with_admin(&session.outbox, session.admin.clone(), move |request| {
            request.extensions.get::<Admitted>().map(|_| access.clone())
        });
        for origin in &self.origin {
            dashboard = dashboard.origin(origin);
        }
        match self.path() {
            "" => dashboard.router(),
            path => {
                let router = dashboard.prefix(path).router();
                // The proxy may pass on the path, or take it away.
                Router::new().nest(path, router.clone()).fallback_service(router)
            }
        }
    }

    /// The base path without a slash at its end.
    fn path(&self) -> &str {
        self.base_path.trim_end_matches('/')
    }

    fn announce(&self, address: SocketAddr, token: Option<&Token>) {
        let seen = self.origin.first().cloned().unwrap_or_else(|| format!("http://{address}"));
        let path = if self.path().is_empty() { "/" } else { self.path() };
        note(&format!("Listening on {address}, until Ctrl-C."));
        match token {
            Some(token) if self.token.is_none() => {
                note(&format!("The dashboard is at {seen}{path}?token={}", token.as_str()));
            }
            Some(_) => note(&format!("The dashboard is at {seen}{path}?token=<your token>")),
            None => note(&format!("The dashboard is at {seen}{path} for everybody who can reach it.")),
        }
        if !address.ip().is_loopback() {
            note("Connections to it are not encrypted: let only a proxy with TLS reach it.");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rights_are_named_or_all_or_none_but_to_view() {
        assert_eq!(rights("read-only"), Ok(Rights::read_only()));
        assert_eq!(rights("all"), Ok(Rights::all()));
        assert_eq!(rights("payloads, redrive"), Ok(Rights::read_only().with(Right::Payloads).with(Right::Redrive)));
        for wrong in ["", "view;audit", "everything"] {
            assert!(rights(wrong).expect_err(wrong).contains("view, payloads"));
        }
    }

    #[test]
    fn an_origin_has_a_scheme_and_a_host_and_no_path() {
        assert_eq!(origin("https://ops.example.com/"), Ok("https://ops.example.com".to_owned()));
        assert_eq!(origin("http://[::1]:8090"), Ok("http://[::1]:8090".to_owned()));
        for wrong in ["ops.example.com", "https://", "https://ops.example.com/outbox", "ftp://ops", "https://a@b"] {
            assert!(origin(wrong).is_err(), "{wrong}");
        }
    }
}
