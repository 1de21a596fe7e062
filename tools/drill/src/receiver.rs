//! The receiver of webhooks.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use anyhow::{Context, Result};

/// A receiver that takes every message, or refuses each. It ends with this process.
#[derive(Debug)]
pub(crate) struct Receiver {
    port: u16,
    refuses: Arc<AtomicBool>,
}

impl Receiver {
    pub(crate) fn start() -> Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).context("listen for webhooks")?;
        let port = listener.local_addr()?.port();
        let refuses = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&refuses);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let refuses = seen.load(Ordering::Relaxed);
                // A sender that goes away in the middle is its own affair.
                thread::spawn(move || answer(stream, refuses).ok());
            }
        });
        Ok(Self { port, refuses })
    }

    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}/hooks/orders", self.port)
    }

    /// From now on it answers 400, or takes messages again.
    pub(crate) fn refuse(&self, refuses: bool) {
        self.refuses.store(refuses, Ordering::Relaxed);
    }
}

fn answer(stream: TcpStream, refuses: bool) -> Result<()> {
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
    let status = if refuses { "400 Bad Request" } else { "200 OK" };
    write!(&stream, "HTTP/1.1 {status}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")?;
    Ok(())
}
