//! As much of an HTTP client as a check needs.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use crate::Failure;

/// The status and the body.
pub(crate) fn request(address: SocketAddr, method: &str, path: &str, body: &str) -> Result<(u16, String), Failure> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(Duration::from_secs(30)))?;
    write!(
        stream,
        "{method} {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\ncontent-type: application/json\r\n\
         content-length: {}\r\n\r\n{body}",
        body.len()
    )?;
    let mut response = String::new();
    stream.read_to_string(&mut response)?;
    let (head, body) = response.split_once("\r\n\r\n").ok_or("an answer has a head")?;
    let status = head.split(' ').nth(1).ok_or("an answer has a status")?.parse()?;
    Ok((status, body.to_owned()))
}
