//! A network with a distance: a TCP proxy that delays each direction.
//!
//! Every chunk leaves a fixed time after it was read, so delays do not add up when many travel at once. The delay is
//! the same for all, so one queue keeps them in order. It runs on one thread with a kernel timer: tokio's and epoll's
//! timers count in whole milliseconds, and a thread for each connection would spend the CPU on switching.

use std::collections::{HashMap, VecDeque};
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use rustix::event::{Timespec, epoll};
use rustix::time::{Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, timerfd_create, timerfd_settime};

/// The longest wait, after which the thread checks whether to end.
const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// How soon a full socket is tried again.
const RETRY: Duration = Duration::from_micros(50);

/// A running proxy; ends when dropped.
#[derive(Debug)]
pub(crate) struct Proxy {
    address: SocketAddr,
    stop: Arc<AtomicBool>,
    late: Arc<Mutex<Vec<f64>>>,
    thread: Option<JoinHandle<()>>,
}

impl Proxy {
    /// Listens on its own port, and passes everything on to `target`, delayed by `delay` in each direction.
    pub(crate) fn start(target: SocketAddr, delay: Duration) -> Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).context("listen for the proxy")?;
        let address = listener.local_addr()?;
        let (stop, late) = (Arc::new(AtomicBool::new(false)), Arc::new(Mutex::new(Vec::new())));
        let mut wires = Wires::new(listener, target, delay, Arc::clone(&late))?;
        let stopped = Arc::clone(&stop);
        let thread = std::thread::Builder::new().name("proxy".to_owned()).spawn(move || {
            if let Err(error) = wires.run(&stopped) {
                eprintln!("the proxy ended: {error:#}");
            }
        })?;
        Ok(Self { address, stop, late, thread: Some(thread) })
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// How late chunks were forwarded, in microseconds, since the last call.
    pub(crate) fn take_lateness(&self) -> Vec<f64> {
        std::mem::take(&mut self.late.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if self.thread.take().is_some_and(|thread| thread.join().is_err()) {
            eprintln!("the proxy ended by a panic");
        }
    }
}

/// A chunk in transit; an empty one is the end of its direction.
struct Chunk {
    leaves_at: Instant,
    to: u64,
    bytes: Vec<u8>,
    is_new: bool,
}

const LISTENER: u64 = 0;
const TIMER: u64 = u64::MAX;

/// Sockets by number: an odd one and the next even one are the two ends of a connection.
struct Wires {
    epoll: OwnedFd,
    timer: OwnedFd,
    listener: TcpListener,
    target: SocketAddr,
    delay: Duration,
    sockets: HashMap<u64, TcpStream>,
    next: u64,
    in_transit: VecDeque<Chunk>,
    late: Arc<Mutex<Vec<f64>>>,
}

fn other_end(socket: u64) -> u64 {
    if socket % 2 == 1 { socket + 1 } else { socket - 1 }
}

impl Wires {
    fn new(listener: TcpListener, target: SocketAddr, delay: Duration, late: Arc<Mutex<Vec<f64>>>) -> Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        listener.set_nonblocking(true)?;
        epoll::add(&epoll, &listener, epoll::EventData::new_u64(LISTENER), epoll::EventFlags::IN)?;
        let timer = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::NONBLOCK)?;
        // Edge-triggered: only its wakeup matters, so it is never read.
        let wakes = epoll::EventFlags::IN | epoll::EventFlags::ET;
        epoll::add(&epoll, &timer, epoll::EventData::new_u64(TIMER), wakes)?;
        let (sockets, in_transit) = (HashMap::new(), VecDeque::new());
        Ok(Self { epoll, timer, listener, target, delay, sockets, next: 1, in_transit, late })
    }

    fn run(&mut self, stop: &AtomicBool) -> Result<()> {
        let mut events = Vec::with_capacity(64);
        let mut buffer = vec![0; 64 << 10];
        while !stop.load(Ordering::Relaxed) {
            if let Some(pause) = self.depart() {
                let it_value = Timespec::try_from(pause.max(Duration::from_nanos(1)))?; // zero would disarm it
                let once = Itimerspec { it_interval: Timespec::default(), it_value };
                timerfd_settime(&self.timer, TimerfdTimerFlags::empty(), &once)?;
            }
            events.clear();
            let wait = Timespec::try_from(POLL_INTERVAL)?;
            match epoll::wait(&self.epoll, rustix::buffer::spare_capacity(&mut events), Some(&wait)) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error).context("wait for sockets"),
            }
            for event in &events {
                match event.data.u64() {
                    TIMER => {}
                    LISTENER => self.accept()?,
                    socket => self.read(socket, &mut buffer),
                }
            }
        }
        Ok(())
    }

    fn accept(&mut self) -> Result<()> {
        let (near, _) = self.listener.accept()?;
        let far = TcpStream::connect(self.target).context("reach the server behind the proxy")?;
        for (socket, number) in [(near, self.next), (far, self.next + 1)] {
            socket.set_nodelay(true)?;
            socket.set_nonblocking(true)?;
            epoll::add(&self.epoll, &socket, epoll::EventData::new_u64(number), epoll::EventFlags::IN)?;
            self.sockets.insert(number, socket);
        }
        self.next += 2;
        Ok(())
    }

    fn read(&mut self, from: u64, buffer: &mut [u8]) {
        let Some(socket) = self.sockets.get_mut(&from) else { return };
        let count = match socket.read(buffer) {
            Ok(count) => count,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return,
            Err(_) => 0, // a reset is an end like any other
        };
        if count == 0 {
            // Level-triggered: an ended socket would wake us for ever. It may already be gone.
            let _ = epoll::delete(&self.epoll, &*socket);
        }
        let leaves_at = Instant::now() + self.delay;
        let bytes = buffer[..count].to_vec();
        self.in_transit.push_back(Chunk { leaves_at, to: other_end(from), bytes, is_new: true });
    }

    /// Writes due chunks. Returns how long until the next one is due, if there is one.
    fn depart(&mut self) -> Option<Duration> {
        while let Some(mut chunk) = self.in_transit.pop_front() {
            let now = Instant::now();
            if now < chunk.leaves_at {
                let pause = chunk.leaves_at - now;
                self.in_transit.push_front(chunk);
                return Some(pause);
            }
            if std::mem::take(&mut chunk.is_new) {
                let late = now.duration_since(chunk.leaves_at).as_secs_f64() * 1e6;
                self.late.lock().unwrap_or_else(PoisonError::into_inner).push(late);
            }
            if !self.write(&mut chunk) {
                // Everything behind it waits too. Reading goes on, so that neither end blocks on its own output.
                self.in_transit.push_front(chunk);
                return Some(RETRY);
            }
        }
        None
    }

    /// Whether the whole chunk was written.
    fn write(&mut self, chunk: &mut Chunk) -> bool {
        if chunk.bytes.is_empty() {
            self.sockets.remove(&other_end(chunk.to));
        }
        let Some(socket) = self.sockets.get_mut(&chunk.to) else { return true };
        if chunk.bytes.is_empty() {
            // The reader of this end sees it as the end. It fails if that end is already closed.
            let _ = socket.shutdown(Shutdown::Write);
            return true;
        }
        match socket.write(&chunk.bytes) {
            Ok(count) if count == chunk.bytes.len() => true,
            Ok(count) => {
                chunk.bytes.drain(..count);
                false
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => false,
            Err(_) => true, // closed from that side: its own end is on its way
        }
    }
}
