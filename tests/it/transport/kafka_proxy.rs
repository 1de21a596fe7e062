//! A proxy before a broker that looks at each request of its clients, and can hold one back.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use super::broker::TIMEOUT;

/// A request, as it goes over the wire behind its length.
pub(super) struct Request<'a>(&'a [u8]);

impl Request<'_> {
    /// Of an `EndTxn`: whether it commits. Its last byte says so, in the versions that librdkafka speaks.
    pub(super) fn ends_transaction(&self) -> Option<bool> {
        (self.api() == 26).then(|| self.0.last() == Some(&1))
    }

    /// Of an `AddPartitionsToTxn`: the last of its partitions.
    pub(super) fn adds_partition(&self) -> Option<i32> {
        let last = self.0.last_chunk().filter(|_| self.api() == 24)?;
        Some(i32::from_be_bytes(*last))
    }

    fn api(&self) -> i16 {
        self.0.first_chunk().map_or(-1, |api| i16::from_be_bytes(*api))
    }
}

/// What becomes of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ProxyAction {
    Pass,
    /// It does not reach the broker yet, and the client's connection breaks. The broker's stays.
    HoldAndBreak,
    /// It does not reach the broker yet, and the client is not told.
    Hold,
    /// What is held reaches the broker and is answered, and then this one passes.
    LetGoBefore,
}

type Rule = dyn FnMut(&Request<'_>) -> ProxyAction + Send;

/// A running proxy. Its threads end with its clients and its broker.
pub(super) struct RequestProxy {
    port: u16,
    shared: Arc<Shared>,
}

struct Shared {
    rule: Mutex<Box<Rule>>,
    broker: Mutex<Option<u16>>,
    held: Mutex<Option<HeldConnection>>,
    /// The broker's answer to what was held.
    response: Mutex<Option<i16>>,
}

struct HeldConnection {
    frame: Vec<u8>,
    broker: TcpStream,
    responses: Receiver<Vec<u8>>,
}

impl RequestProxy {
    /// Nothing passes before it is told where the broker is.
    pub(super) fn before_a_broker(rule: impl FnMut(&Request<'_>) -> ProxyAction + Send + 'static) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let shared = Arc::new(Shared {
            rule: Mutex::new(Box::new(rule)),
            broker: Mutex::default(),
            held: Mutex::default(),
            response: Mutex::default(),
        });
        let accepting = Arc::clone(&shared);
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let shared = Arc::clone(&accepting);
                thread::spawn(move || shared.serve(&client));
            }
        });
        Self { port, shared }
    }

    pub(super) fn port(&self) -> u16 {
        self.port
    }

    pub(super) fn set_broker(&self, port: u16) {
        *locked(&self.shared.broker) = Some(port);
    }

    /// The error code of the broker's answer to what was held, once it was let go.
    pub(super) fn response(&self) -> Option<i16> {
        *locked(&self.shared.response)
    }
}

impl Shared {
    fn serve(&self, client: &TcpStream) {
        let Some(broker) = *locked(&self.broker) else { return };
        let Ok(broker) = TcpStream::connect((Ipv4Addr::LOCALHOST, broker)) else { return };
        let is_held = Arc::new(AtomicBool::new(false));
        let (sender, responses) = channel();
        let back = (broker.try_clone().expect("a handle"), client.try_clone().expect("a handle"));
        let passing = Arc::clone(&is_held);
        thread::spawn(move || forward_responses(&back.0, &back.1, &passing, &sender));
        while let Some(frame) = read_frame(client) {
            let act = locked(&self.rule)(&Request(&frame[4..]));
            match act {
                ProxyAction::Pass => {}
                ProxyAction::LetGoBefore => self.let_go(),
                ProxyAction::Hold | ProxyAction::HoldAndBreak => {
                    is_held.store(true, Ordering::Release);
                    *locked(&self.held) = Some(HeldConnection { frame, broker, responses });
                    if act == ProxyAction::Hold {
                        // Whatever else comes on it is behind what is held.
                        while read_frame(client).is_some() {}
                    }
                    let _ = client.shutdown(Shutdown::Both);
                    return;
                }
            }
            if (&broker).write_all(&frame).is_err() {
                break;
            }
        }
        let _ = (broker.shutdown(Shutdown::Both), client.shutdown(Shutdown::Both));
    }

    fn let_go(&self) {
        let Some(HeldConnection { frame, broker, responses }) = locked(&self.held).take() else { return };
        (&broker).write_all(&frame).expect("the broker keeps the connection");
        let response = responses.recv_timeout(TIMEOUT).expect("an answer");
        // Length, correlation id, throttle time, error code.
        *locked(&self.response) = response.get(12..14).map(|code| i16::from_be_bytes([code[0], code[1]]));
    }
}

fn forward_responses(broker: &TcpStream, mut client: &TcpStream, is_held: &AtomicBool, responses: &Sender<Vec<u8>>) {
    while let Some(frame) = read_frame(broker) {
        let passed = match is_held.load(Ordering::Acquire) {
            true => responses.send(frame).is_ok(),
            false => client.write_all(&frame).is_ok(),
        };
        if !passed {
            break;
        }
    }
    let _ = client.shutdown(Shutdown::Both);
}

/// With its length in front.
fn read_frame(mut from: &TcpStream) -> Option<Vec<u8>> {
    let mut length = [0; 4];
    from.read_exact(&mut length).ok()?;
    let mut frame = length.to_vec();
    frame.resize(4 + usize::try_from(i32::from_be_bytes(length)).ok()?, 0);
    from.read_exact(&mut frame[4..]).ok()?;
    Some(frame)
}

fn locked<T: ?Sized>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
