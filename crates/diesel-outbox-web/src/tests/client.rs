//! As much of an HTTP client as shows every byte of a request.

use std::net::SocketAddr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

#[derive(Debug)]
pub(crate) struct Response {
    pub(crate) status: u16,
    head: String,
    pub(crate) body: String,
}

impl Response {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines.into_iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }
}

/// Sends a request. The body of an endless response is not read.
pub(crate) async fn send(
    address: SocketAddr,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &str,
) -> Response {
    let mut stream = TcpStream::connect(address).await.expect("connect");
    let headers: String = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    let request = format!("{method} {path} HTTP/1.1\r\n{headers}content-length: {}\r\n\r\n{body}", body.len());
    stream.write_all(request.as_bytes()).await.expect("send");
    let mut received = Vec::new();
    let end = loop {
        if let Some(end) = received.windows(4).position(|window| window == b"\r\n\r\n") {
            break end;
        }
        assert!(stream.read_buf(&mut received).await.expect("receive") > 0, "a response has a head");
    };
    let head = String::from_utf8(received[..end].to_vec()).expect("a head is text");
    let mut response = Response { status: 0, head, body: String::new() };
    response.status = response.head.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
    let length = response.header("content-length").map_or(0, |length| length.parse().expect("a length"));
    while received.len() < end + 4 + length {
        assert!(stream.read_buf(&mut received).await.expect("receive") > 0, "a response has its whole body");
    }
    response.body = String::from_utf8(received[end + 4..end + 4 + length].to_vec()).expect("text");
    response
}
