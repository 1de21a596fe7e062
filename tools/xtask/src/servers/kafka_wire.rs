//! The one request we make to a Kafka node ourselves: does it answer?

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::Duration;

/// `ApiVersions` version 0: length 10, api key 18, version 0, correlation id 7, no client id.
const API_VERSIONS: [u8; 14] = [0, 0, 0, 10, 0, 18, 0, 0, 0, 0, 0, 7, 0xff, 0xff];

/// Whether the node answers requests. An open port is not enough: the node listens before it serves.
pub(super) fn responds(port: u16) -> bool {
    exchange(SocketAddr::from((Ipv4Addr::LOCALHOST, port))).unwrap_or(false)
}

fn exchange(address: SocketAddr) -> std::io::Result<bool> {
    let timeout = Duration::from_secs(5);
    let mut stream = TcpStream::connect_timeout(&address, timeout)?;
    stream.set_read_timeout(Some(timeout))?;
    stream.write_all(&API_VERSIONS)?;
    let mut answer = [0; 10]; // length, correlation id, error code
    stream.read_exact(&mut answer)?;
    Ok(answer[4..] == [0, 0, 0, 7, 0, 0])
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpListener;

    use super::responds;

    #[test]
    fn an_error_code_is_no_answer() {
        for (code, ready) in [(0, true), (35, false)] {
            let listener = TcpListener::bind("127.0.0.1:0").expect("bind");
            let port = listener.local_addr().expect("address").port();
            let server = std::thread::spawn(move || {
                let (mut stream, _) = listener.accept().expect("accept");
                stream.read_exact(&mut [0; 14]).expect("request");
                stream.write_all(&[0, 0, 0, 6, 0, 0, 0, 7, 0, code]).expect("answer");
            });
            assert_eq!(responds(port), ready);
            server.join().expect("server");
        }
    }
}
