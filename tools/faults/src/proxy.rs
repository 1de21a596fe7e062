//! A TCP proxy that can cut and delay its connections.
//!
//! A cut ends every connection with the data in it, and refuses new ones. A delay is the same for every chunk, so
//! chunks stay in order.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, Result};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, watch};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{Instant, sleep_until};

/// Chunks in flight in one direction of a connection.
const IN_TRANSIT_MAX: usize = 256;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct State {
    target: Option<SocketAddr>,
    is_cut: bool,
    delay: Duration,
}

/// A running proxy; ends when it is dropped.
#[derive(Debug)]
pub(crate) struct Proxy {
    port: u16,
    state: watch::Sender<State>,
    task: JoinHandle<()>,
}

impl Proxy {
    /// Listens on its own port. It passes nothing on before a target is set.
    pub(crate) async fn start() -> Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.context("listen for a proxy")?;
        let port = listener.local_addr()?.port();
        let (state, seen) = watch::channel(State { target: None, is_cut: false, delay: Duration::ZERO });
        Ok(Self { port, state, task: tokio::spawn(accept(listener, seen)) })
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    pub(crate) fn set_target(&self, port: u16) {
        self.state.send_modify(|state| state.target = Some(SocketAddr::from(([127, 0, 0, 1], port))));
    }

    pub(crate) fn cut(&self, is_cut: bool) {
        self.state.send_modify(|state| state.is_cut = is_cut);
    }

    /// Delays each direction by this much.
    pub(crate) fn delay(&self, by: Duration) {
        self.state.send_modify(|state| state.delay = by);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn accept(listener: TcpListener, state: watch::Receiver<State>) {
    let mut connections = JoinSet::new();
    loop {
        let near = tokio::select! {
            accepted = listener.accept() => accepted,
            Some(_) = connections.join_next() => continue,
        };
        let State { target, is_cut, .. } = *state.borrow();
        let (Ok((near, _)), Some(target), false) = (near, target, is_cut) else { continue };
        let mut cut = state.clone();
        let delay = state.clone();
        connections.spawn(async move {
            tokio::select! {
                _ = pass(near, target, delay) => {}
                _ = cut.wait_for(|state| state.is_cut) => {}
            }
        });
    }
}

async fn pass(near: TcpStream, target: SocketAddr, state: watch::Receiver<State>) -> Result<()> {
    let far = TcpStream::connect(target).await?;
    near.set_nodelay(true)?;
    far.set_nodelay(true)?;
    let ((near_reads, near_writes), (far_reads, far_writes)) = (near.into_split(), far.into_split());
    tokio::select! {
        ended = direction(near_reads, far_writes, state.clone()) => ended,
        ended = direction(far_reads, near_writes, state) => ended,
    }
}

/// Ends when either side ends: neither client nor server continues with half a connection.
async fn direction(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, state: watch::Receiver<State>) -> Result<()> {
    let (sender, mut in_transit) = mpsc::channel::<(Instant, Vec<u8>)>(IN_TRANSIT_MAX);
    let read = async {
        let mut buffer = vec![0; 32 << 10];
        loop {
            let count = from.read(&mut buffer).await?;
            if count == 0 {
                break;
            }
            let leaves_at = Instant::now() + state.borrow().delay;
            sender.send((leaves_at, buffer[..count].to_vec())).await?;
        }
        drop(sender);
        anyhow::Ok(())
    };
    let write = async {
        while let Some((leaves_at, bytes)) = in_transit.recv().await {
            if leaves_at > Instant::now() {
                sleep_until(leaves_at).await;
            }
            to.write_all(&bytes).await?;
        }
        anyhow::Ok(())
    };
    tokio::try_join!(read, write)?;
    Ok(())
}
