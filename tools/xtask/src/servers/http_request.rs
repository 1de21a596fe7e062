//! Requests to the HTTP interfaces of our own servers.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Context, Result, ensure};

/// Kafka Connect validates a connector before it answers, which includes connecting to its database.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Makes one request on its own connection; returns the body of the answer.
///
/// # Errors
///
/// Nobody answers at `address`, or the answer is a refusal.
pub fn request(address: &str, method: &str, path: &str, body: &str) -> Result<String> {
    let socket: SocketAddr = address.parse().context("an address has a port")?;
    let mut stream = TcpStream::connect_timeout(&socket, TIMEOUT)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    // With HTTP/1.0 an answer is not chunked, and ends with its connection.
    let head = format!("{method} {path} HTTP/1.0\r\nHost: {address}\r\nContent-Type: application/json\r\n");
    stream.write_all(format!("{head}Content-Length: {}\r\n\r\n{body}", body.len()).as_bytes())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    body_of(&answer).with_context(|| format!("{method} {path}"))
}

fn body_of(answer: &str) -> Result<String> {
    let (head, body) = answer.split_once("\r\n\r\n").context("an answer has a head")?;
    let status =
        head.split(' ').nth(1).and_then(|status| status.parse::<u16>().ok()).context("an answer has a status")?;
    ensure!((200..300).contains(&status), "the answer is {status}: {body}");
    Ok(body.to_owned())
}

#[cfg(test)]
mod tests {
    use super::body_of;

    #[test]
    fn a_refusal_is_no_answer() {
        let answer = |status: &str| format!("HTTP/1.1 {status}\r\nContent-Type: application/json\r\n\r\n{{}}");
        for accepted in ["200 OK", "201 Created", "202 Accepted"] {
            assert_eq!(body_of(&answer(accepted)).expect("a body"), "{}", "{accepted}");
        }
        for refused in ["301 Moved", "404 Not Found", "500 Server Error", "none"] {
            assert!(body_of(&answer(refused)).is_err(), "{refused}");
        }
        assert!(body_of("").is_err());
    }

    #[test]
    fn an_accepted_stop_has_no_body() {
        assert_eq!(body_of("HTTP/1.1 204 No Content\r\n\r\n").expect("a body"), "");
    }
}
