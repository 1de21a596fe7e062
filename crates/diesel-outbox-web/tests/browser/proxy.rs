//! A proxy that tells the application another host than the browser asked for.

use tokio::io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};

/// Starts one in front of `url`; returns the same URL through it.
pub(crate) async fn start(url: &str) -> String {
    let (upstream, path) = url.strip_prefix("http://").and_then(|rest| rest.split_once('/')).expect("host and path");
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("listen");
    let port = listener.local_addr().expect("an address").port();
    let upstream = upstream.to_owned();
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            tokio::spawn(pass_on(client, upstream.clone()));
        }
    });
    format!("http://localhost:{port}/{path}")
}

/// One request per connection, so that each has its head rewritten.
async fn pass_on(mut client: TcpStream, upstream: String) -> std::io::Result<()> {
    let mut received = Vec::new();
    let end = loop {
        if let Some(end) = received.windows(4).position(|window| window == b"\r\n\r\n") {
            break end;
        }
        if client.read_buf(&mut received).await? == 0 {
            return Ok(());
        }
    };
    let head = String::from_utf8_lossy(&received[..end]).into_owned();
    let is_replaced = |line: &str| {
        let name = line.split(':').next().unwrap_or_default().to_ascii_lowercase();
        name == "host" || name == "connection"
    };
    let kept: Vec<&str> = head.split("\r\n").filter(|line| !is_replaced(line)).collect();
    let head = format!("{}\r\nHost: backend.internal:8080\r\nConnection: close\r\n\r\n", kept.join("\r\n"));
    let mut server = TcpStream::connect(upstream).await?;
    server.write_all(head.as_bytes()).await?;
    server.write_all(&received[end + 4..]).await?;
    copy_bidirectional(&mut client, &mut server).await.map(drop)
}
