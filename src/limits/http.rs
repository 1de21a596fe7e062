//! Limits of the HTTP transport.

use std::time::Duration;

/// Requests in flight to one host at once. Beyond 64, a receiver on the same network takes no more per second. One that
/// takes fewer at once makes the rest wait on its side instead of here.
pub const HTTP_IN_FLIGHT_PER_HOST_MAX: usize = 64;

/// Messages that an HTTP transport asks the relay for, per request in flight: enough that no request is missing while
/// the next claim is read, few enough that each is sent long before it times out.
pub const HTTP_QUEUED_PER_REQUEST: usize = 8;

/// Number of hosts for which an HTTP transport asks the relay for messages when each message names its own host,
/// because the hosts are not known in advance.
pub const HTTP_FOREIGN_HOSTS: usize = 8;

/// Most messages in an HTTP transport; beyond, it reports that it is busy. The relay's default for what is in flight.
pub const HTTP_QUEUE_MAX: usize = 20_000;

/// The longest that a request and the relevant part of its response may take. Receivers should answer at once and work
/// later; those that do not mostly finish within ten seconds.
pub const HTTP_TIMEOUT: Duration = Duration::from_secs(10);

/// The longest that a message waits for its turn at a host. Then it goes back unsent, and nothing is written. Together
/// with the time-out this stays below the lease.
pub const HTTP_WAIT_MAX: Duration = Duration::from_secs(10);

/// How often an HTTP transport checks for messages that waited too long, and for hosts whose pause is over.
pub const HTTP_CHECK_INTERVAL: Duration = Duration::from_millis(250);

/// What an HTTP transport may take beyond its time-outs to report them: two checks.
pub const HTTP_TIMEOUT_SLACK: Duration = Duration::from_millis(500);

/// The longest that connecting to a host may take, including name resolution and TLS: enough for one lost packet and
/// its retransmission on a slow link.
pub const HTTP_CONNECT_TIMEOUT: Duration = Duration::from_secs(3);

/// Bytes of a response that are read: more than any receiver needs. Beyond, the connection is closed.
pub const HTTP_RESPONSE_BYTES_MAX: usize = 64 << 10;

/// Refusals of a message (400, 422 and the like) before it is dead-lettered, by default. With the waits of
/// [`HTTP_REFUSAL_WAIT_MIN`] and [`HTTP_REFUSAL_WAIT_MAX`] they span an hour and three quarters, and with jitter hardly
/// ever less than 80 minutes: enough to notice and roll back a bad deployment of the receiver, or for a route or schema
/// to arrive with its next one. A message that is itself bad costs 20 requests. Webhook services retry for longer (Svix
/// 28 hours, Stripe three days), but their receivers are strangers; for those, set
/// [`refusal_retries`](crate::transport::HttpTransportBuilder::refusal_retries).
pub const HTTP_REFUSALS_MAX: u32 = 20;

/// The wait after a message's first refusal, by default: half of the wrong answers of a restarting receiver are over by
/// then. Doubles up to [`HTTP_REFUSAL_WAIT_MAX`].
pub const HTTP_REFUSAL_WAIT_MIN: Duration = Duration::from_secs(1);

/// The longest wait between two refusals of a message, by default. It bounds how long after a receiver is fixed it gets
/// what it refused, and how long a key of an ordered topic waits.
pub const HTTP_REFUSAL_WAIT_MAX: Duration = Duration::from_secs(600);

/// How long the rest of a response is read once its result is known. That keeps the connection for the next message,
/// and is not worth a longer wait.
pub const HTTP_DRAIN_TIMEOUT: Duration = Duration::from_secs(1);

/// Consecutive requests without an answer before a host counts as down. Any restart loses one or two.
pub const HTTP_HOST_FAILURES_MAX: u32 = 8;

/// The first back-off from a host that is down, if its transport has other hosts. Doubles up to
/// [`HTTP_HOST_BACK_OFF_MAX`].
pub const HTTP_HOST_BACK_OFF_MIN: Duration = Duration::from_secs(1);

/// The longest back-off from a host that is down: bounds how long after its return it is used again.
pub const HTTP_HOST_BACK_OFF_MAX: Duration = Duration::from_secs(30);

/// The longest a probe waits for an answer.
pub const HTTP_PROBE_TIMEOUT: Duration = Duration::from_secs(3);

/// Hosts that are remembered, besides those with messages that wait or are in flight. Beyond, the oldest are forgotten,
/// including those that are down or asked for a pause. Bounds the memory if each message has a URL of its own.
pub const HTTP_HOSTS_MAX: usize = 10_000;

/// Among how many of the oldest hosts one is picked for eviction, so that a new host costs microseconds. If all of them
/// are in use, the next new host checks others.
pub const HTTP_EVICTION_CANDIDATES_MAX: usize = 32;
