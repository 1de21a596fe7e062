//! Requests every page, and waits until there is something to see.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout};

use crate::{AT, Failure};

/// How long anything here may take.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Pages, and what each shows in the end.
const PAGES: [(&str, &str); 9] = [
    ("/overview", "closed: the broker answers"),
    ("/topics", "by key"),
    ("/lanes?topic=payments", "Behind it"),
    ("/messages?topic=reminders&state=delayed", "/message?id="),
    ("/calendar?topic=reminders", "svg class=\"bar\""),
    ("/dead-letters?topic=orders&reason_word=refused", "Redrive all"),
    ("/history?topic=invoices&key=1", "not confirmed"),
    ("/jobs", "Bulk acts"),
    ("/audit", "Nothing matches"),
];

pub(crate) async fn every_page(address: SocketAddr) -> Result<(), Failure> {
    for (page, shown) in PAGES {
        let end = Instant::now() + TIMEOUT;
        loop {
            let body = timeout(TIMEOUT, get(address, page)).await??;
            if body.contains(shown) {
                println!("{page}: ok");
                break;
            }
            if Instant::now() > end {
                return Err(format!("{page} does not show {shown:?}: {body}").into());
            }
        }
    }
    Ok(())
}

async fn get(address: SocketAddr, page: &str) -> Result<String, Failure> {
    let mut stream = TcpStream::connect(address).await?;
    let request = format!("GET {AT}{page} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut response = String::new();
    stream.read_to_string(&mut response).await?;
    Ok(response)
}
