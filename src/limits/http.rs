//! Of the HTTP transport.

use std::time::Duration;

/// Requests under way to one host at once. Beyond 64 a receiver on the same network takes no more a second; one that takes
/// fewer at once makes the others wait there in place of here.
pub const HTTP_IN_FLIGHT_PER_HOST_MAX: usize = 64;

/// Messages that an HTTP transport asks the relay for, for each request under way: so many wait that no request is missing
/// while the next claim is read, and so few that they have their turn long before they time out.
pub const HTTP_QUEUED_PER_REQUEST: usize = 8;

/// For how many hosts an HTTP transport asks the relay where messages name their own, which are not known beforehand.
pub const HTTP_FOREIGN_HOSTS: usize = 8;

/// Messages in an HTTP transport at most; more are busy. What a relay has in flight at most by default.
pub const HTTP_QUEUE_MAX: usize = 20_000;

/// The longest a request and the part of its answer that counts may take. Receivers are told to answer at once and to work
/// later; those that do not mostly do within ten seconds.
pub const HTTP_TIMEOUT: Duration = Duration::from_secs(10);

/// The longest a message waits for its turn at a host; then it goes back to where it came from, unsent and unwritten. With
/// the time-out it stays below the lease.
pub const HTTP_WAIT_MAX: Duration = Duration::from_secs(10);

/// How often an HTTP transport looks for messages that waited too long, and for hosts whose pause is over.
pub const HTTP_CHECK_INTERVAL: Duration = Duration::from_millis(250);

/// What an HTTP transport may take beyond its times until it says so: two looks.
pub const HTTP_TIMEOUT_SLACK: Duration = Duration::from_millis(500);

/// The longest that connecting to a host may take, its name's resolution and TLS included: a second's loss and
/// repetition on a slow way fit in.
pub const HTTP_CONNECT_TIMEOUT: Duration = Duration::from_secs(3);

/// Bytes of an answer that are read: more than any receiver has to say. Beyond, its connection is closed.
pub const HTTP_RESPONSE_BYTES_MAX: usize = 64 << 10;

/// Refusals of a message (400, 422 and the like) after which it is a dead letter, by default. With the waits of
/// [`HTTP_REFUSAL_WAIT_MIN`] and [`HTTP_REFUSAL_WAIT_MAX`] these span an hour and three quarters, and by chance hardly ever less than 80 minutes: a wrong
/// deployment at the receiver, or a route or schema that comes with its next one, is found and taken back by then. What is wrong with the
/// message costs 20 requests. Webhook services try for longer (Svix 28 hours, Stripe three days), but their receivers are strangers; whoever
/// sends to strangers says so with [`refusal_retries`](crate::transport::HttpTransportBuilder::refusal_retries).
pub const HTTP_REFUSALS_MAX: u32 = 20;

/// The wait after a message's first refusal, by default: half of a restarting receiver's wrong answers are over by then. Doubles up to
/// [`HTTP_REFUSAL_WAIT_MAX`].
pub const HTTP_REFUSAL_WAIT_MIN: Duration = Duration::from_secs(1);

/// The longest wait between two refusals of a message, by default: bounds how long a receiver is mended before it gets what it refused,
/// and what a key of an ordered topic waits behind it.
pub const HTTP_REFUSAL_WAIT_MAX: Duration = Duration::from_secs(600);

/// For how long the rest of an answer is read once it is known to be good or bad. That keeps the connection for the next
/// message, and is not worth waiting for.
pub const HTTP_DRAIN_TIMEOUT: Duration = Duration::from_secs(1);

/// Requests to one host that may go without an answer, one after the other, before it is taken to be down. One or two are
/// lost by any restart.
pub const HTTP_HOST_FAILURES_MAX: u32 = 8;

/// How long a host that is down is left alone at first, where its transport has others; doubles up to
/// [`HTTP_HOST_BACK_OFF_MAX`].
pub const HTTP_HOST_BACK_OFF_MIN: Duration = Duration::from_secs(1);

/// The longest that a host that is down is left alone: bounds how long it is back before it is used again.
pub const HTTP_HOST_BACK_OFF_MAX: Duration = Duration::from_secs(30);

/// The longest a probe waits for an answer.
pub const HTTP_PROBE_TIMEOUT: Duration = Duration::from_secs(3);

/// Hosts that are remembered, beside those that messages wait for or are under way to; beyond, the oldest are forgotten, those
/// that are down or asked for a pause included. Bounds the memory where each message has a URL of its own.
pub const HTTP_HOSTS_MAX: usize = 10_000;

/// Among how many of the oldest hosts one is sought to be forgotten, so that a new host costs microseconds. Where all of them
/// are in use, the next new host looks at others.
pub const HTTP_EVICTION_CANDIDATES_MAX: usize = 32;
