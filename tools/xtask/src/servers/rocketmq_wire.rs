//! The few requests that the tests themselves send to a RocketMQ node, in its remoting protocol.

use std::fmt::Write as _;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// More than any answer in the tests has.
const FRAME_BYTES_MAX: usize = 64 << 20;

/// What a node answered.
#[derive(Debug, Clone)]
pub struct Response {
    /// 0 is success.
    pub code: i32,
    /// The header, which is JSON.
    pub header: String,
    /// The bytes after the header.
    pub body: Vec<u8>,
}

/// Makes one request on its own connection. `fields` must not contain quotes or backslashes.
///
/// # Errors
///
/// The node cannot be reached, or its answer is not in this protocol.
pub fn request(address: &str, code: u16, fields: &[(&str, &str)]) -> io::Result<Response> {
    let timeout = Duration::from_secs(10);
    let address: SocketAddr = address.parse().map_err(io::Error::other)?;
    let mut stream = TcpStream::connect_timeout(&address, timeout)?;
    stream.set_read_timeout(Some(timeout))?;
    stream.write_all(&frame(code, fields)?)?;
    let length = read_length(&mut stream)?;
    // The upper byte is the encoding of the header; 0 is JSON, as in the request.
    let header_length = read_length(&mut stream)? & 0x00ff_ffff;
    let body_length = length.checked_sub(header_length + 4).ok_or_else(|| malformed("lengths"))?;
    let mut header = vec![0; header_length];
    stream.read_exact(&mut header)?;
    let mut body = vec![0; body_length];
    stream.read_exact(&mut body)?;
    let header = String::from_utf8(header).map_err(io::Error::other)?;
    Ok(Response { code: code_of(&header).ok_or_else(|| malformed("header"))?, header, body })
}

/// Whether the name server at `address` knows a broker. An open port is not enough: a broker listens before it is known.
pub(super) fn knows_a_broker(address: &str) -> bool {
    const GET_BROKER_CLUSTER_INFO: u16 = 106;
    let answer = request(address, GET_BROKER_CLUSTER_INFO, &[]);
    answer.is_ok_and(|answer| answer.code == 0 && String::from_utf8_lossy(&answer.body).contains("\"brokerName\""))
}

fn frame(code: u16, fields: &[(&str, &str)]) -> io::Result<Vec<u8>> {
    let mut header = format!("{{\"code\":{code},\"extFields\":{{");
    for (index, (name, value)) in fields.iter().enumerate() {
        let comma = if index == 0 { "" } else { "," };
        // Writing to a string does not fail.
        let _ = write!(header, "{comma}\"{name}\":\"{value}\"");
    }
    header += "},\"flag\":0,\"language\":\"OTHER\",\"opaque\":1,\"serializeTypeCurrentRPC\":\"JSON\",\"version\":0}";
    let length = u32::try_from(header.len()).map_err(io::Error::other)?;
    Ok([&(length + 4).to_be_bytes(), &length.to_be_bytes(), header.as_bytes()].concat())
}

fn read_length(stream: &mut TcpStream) -> io::Result<usize> {
    let mut bytes = [0; 4];
    stream.read_exact(&mut bytes)?;
    let length = usize::try_from(u32::from_be_bytes(bytes)).map_err(io::Error::other)?;
    if length > FRAME_BYTES_MAX { Err(malformed("length")) } else { Ok(length) }
}

/// The code comes first in a header.
fn code_of(header: &str) -> Option<i32> {
    let (_, rest) = header.split_once("\"code\":")?;
    let end = rest.find(|c: char| !c.is_ascii_digit() && c != '-')?;
    rest[..end].parse().ok()
}

fn malformed(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("the answer's {what} does not follow the remoting protocol"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_framed_by_its_lengths() {
        let frame = frame(17, &[("topic", "orders"), ("perm", "6")]).expect("a frame");
        let (lengths, header) = frame.split_at(8);
        assert_eq!(lengths[..4], u32::try_from(header.len() + 4).expect("small").to_be_bytes());
        assert_eq!(lengths[4..], u32::try_from(header.len()).expect("small").to_be_bytes());
        let header = String::from_utf8_lossy(header);
        assert!(header.starts_with(r#"{"code":17,"extFields":{"topic":"orders","perm":"6"},"#), "{header}");
    }

    #[test]
    fn an_answer_has_its_code() {
        assert_eq!(code_of(r#"{"code":17,"flag":1}"#), Some(17));
        assert_eq!(code_of(r#"{"code":-9,"flag":1}"#), Some(-9));
        assert_eq!(code_of("{}"), None);
    }
}
