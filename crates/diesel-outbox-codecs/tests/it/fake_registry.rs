//! A registry that answers as a test wants.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::extract::Request;
use axum::http::StatusCode;
use axum::response::IntoResponse as _;

/// What was requested: the path, and the header `authorization`.
pub(crate) type Requests = Arc<Mutex<Vec<(String, String)>>>;

#[derive(Clone)]
pub(crate) enum Behaviour {
    Answers(StatusCode, String),
    NeverAnswers,
    /// Bodies by the ends of the paths; the first that fits.
    ByPath(&'static [(&'static str, &'static str)]),
}

/// Starts one in this runtime. Returns its URL.
pub(crate) async fn start(behaviour: Behaviour) -> (String, Requests) {
    let requests = Requests::default();
    let seen = Arc::clone(&requests);
    let answer = move |request: Request| {
        let login = request.headers().get("authorization");
        let login = login.map(|value| value.to_str().expect("a text").to_owned()).unwrap_or_default();
        let path = request.uri().path().to_owned();
        seen.lock().expect("unpoisoned").push((path.clone(), login));
        let behaviour = behaviour.clone();
        async move {
            match behaviour {
                Behaviour::Answers(status, body) => (status, body).into_response(),
                Behaviour::NeverAnswers => std::future::pending().await,
                Behaviour::ByPath(bodies) => {
                    let body = bodies.iter().find(|(end, _)| path.ends_with(end)).map(|(_, body)| *body);
                    body.ok_or(StatusCode::NOT_FOUND).into_response()
                }
            }
        }
    };
    let listener = tokio::net::TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], 0))).await.expect("a port");
    let address = listener.local_addr().expect("an address");
    tokio::spawn(async move { axum::serve(listener, Router::new().fallback(answer)).await.expect("serve") });
    (format!("http://{address}/base/"), requests)
}
