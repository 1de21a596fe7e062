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
}

/// Starts one in this runtime. Returns its URL.
pub(crate) async fn start(behaviour: Behaviour) -> (String, Requests) {
    let requests = Requests::default();
    let seen = Arc::clone(&requests);
    let answer = move |request: Request| {
        let login = request.headers().get("authorization");
        let login = login.map(|value| value.to_str().expect("a text").to_owned()).unwrap_or_default();
        seen.lock().expect("unpoisoned").push((request.uri().path().to_owned(), login));
        let behaviour = behaviour.clone();
        async move {
            match behaviour {
                Behaviour::Answers(status, body) => (status, body).into_response(),
                Behaviour::NeverAnswers => std::future::pending().await,
            }
        }
    };
    let listener = tokio::net::TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], 0))).await.expect("a port");
    let address = listener.local_addr().expect("an address");
    tokio::spawn(async move { axum::serve(listener, Router::new().fallback(answer)).await.expect("serve") });
    (format!("http://{address}/base/"), requests)
}
