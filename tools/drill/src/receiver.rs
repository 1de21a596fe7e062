//! The receiver of webhooks.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};
use std::thread;

use anyhow::{Context, Result};

/// It takes the message.
const OK: u16 = 200;

/// A receiver that answers each message with one status. It ends with this process.
#[derive(Debug)]
pub(crate) struct Receiver {
    port: u16,
    status: Arc<AtomicU16>,
}

impl Receiver {
    pub(crate) fn start() -> Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).context("listen for webhooks")?;
        let port = listener.local_addr()?.port();
        let status = Arc::new(AtomicU16::new(OK));
        let seen = Arc::clone(&status);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let status = seen.load(Ordering::Relaxed);
                // A sender that goes away in the middle is its own affair.
                thread::spawn(move || answer(stream, status).ok());
            }
        });
        Ok(Self { port, status })
    }

    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}/hooks/orders", self.port)
    }

    /// From now on it answers with `status`.
    pub(crate) fn answer(&self, status: u16) {
        self.status.store(status, Ordering::Relaxed);
    }

    pub(crate) fn recover(&self) {
        self.answer(OK);
    }
}

fn answer(stream: TcpStream, status: u16) -> Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let (mut line, mut length) = (String::new(), 0);
    loop {
        line.clear();
        reader.read_line(&mut line)?;
        if line.trim_end().is_empty() {
            break;
        }
        if let Some((_, value)) = line.split_once(':').filter(|(name, _)| name.eq_ignore_ascii_case("content-length")) {
            length = value.trim().parse()?;
        }
    }
    reader.take(length).read_to_end(&mut Vec::new())?;
    write!(&stream, "HTTP/1.1 {status} As Told\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")?;
    Ok(())
}
