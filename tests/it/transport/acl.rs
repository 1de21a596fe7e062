//! Access lists, by Kafka's own protocol: librdkafka's Rust binding has no call for them.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

/// What may be done.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Operation {
    Write = 4,
}

const ALLOW: u8 = 3;
const ANY: u8 = 1;
const LITERAL: u8 = 3;
const TOPIC: u8 = 2;

/// Lets a user do something with a topic, by the listener that has every right.
pub(crate) fn allow(port: u16, user: &str, operation: Operation, topic: &str) {
    const CREATE_ACLS: u16 = 30;
    let mut body = 1_u32.to_be_bytes().to_vec();
    body.push(TOPIC);
    text(&mut body, topic);
    body.push(LITERAL);
    text(&mut body, &format!("User:{user}"));
    text(&mut body, "*");
    body.extend([operation as u8, ALLOW]);
    // throttle, count, error
    let response = request(port, CREATE_ACLS, 1, &body);
    assert_eq!(&response[8..10], &[0, 0], "the broker refuses the access list: {response:?}");
}

/// Takes back everything that a user was allowed.
pub(crate) fn forget(port: u16, user: &str) {
    const DELETE_ACLS: u16 = 31;
    let mut body = 1_u32.to_be_bytes().to_vec();
    body.push(ANY);
    nothing(&mut body);
    body.push(ANY);
    text(&mut body, &format!("User:{user}"));
    nothing(&mut body);
    body.extend([ANY, ANY]);
    let response = request(port, DELETE_ACLS, 1, &body);
    assert_eq!(&response[8..10], &[0, 0], "the broker refuses: {response:?}");
}

fn text(body: &mut Vec<u8>, text: &str) {
    body.extend(u16::try_from(text.len()).expect("short").to_be_bytes());
    body.extend(text.as_bytes());
}

fn nothing(body: &mut Vec<u8>) {
    body.extend((-1_i16).to_be_bytes());
}

/// The answer's body, behind the correlation id.
fn request(port: u16, api: u16, version: u16, body: &[u8]) -> Vec<u8> {
    let mut request = Vec::new();
    request.extend(api.to_be_bytes());
    request.extend(version.to_be_bytes());
    request.extend(7_u32.to_be_bytes());
    text(&mut request, "tests");
    request.extend(body);
    let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("the broker is there");
    stream.write_all(&u32::try_from(request.len()).expect("short").to_be_bytes()).expect("sent");
    stream.write_all(&request).expect("sent");
    let mut length = [0; 4];
    stream.read_exact(&mut length).expect("an answer");
    let mut response = vec![0; u32::from_be_bytes(length) as usize];
    stream.read_exact(&mut response).expect("an answer");
    response.split_off(4)
}
