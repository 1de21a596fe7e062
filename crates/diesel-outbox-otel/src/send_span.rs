//! The `send` span: from one call of the transport to its last outcome.

use std::sync::{Arc, Mutex, PoisonError};

use diesel_outbox::transport::{Outcome, OutcomeSender};
use diesel_outbox::{Envelope, MessageId};
use opentelemetry::trace::{Link, SpanBuilder, SpanKind, Status, TraceContextExt as _};
use opentelemetry::{Context, KeyValue};

use crate::conventions::{
    ATTEMPT, DESTINATION, ERROR_TYPE, LANE, MESSAGE_COUNT, MESSAGE_FAILED, MESSAGE_ID, Operation, PATH, SYSTEM,
};
use crate::tracer::TracerSource;
use crate::{current, headers};

/// What the spans of one transport have in common.
#[derive(Debug, Clone)]
pub(crate) struct SendSpans {
    pub(crate) tracer: TracerSource,
    pub(crate) system: &'static str,
    pub(crate) attributes: Vec<KeyValue>,
}

impl SendSpans {
    /// Starts the span of a call; `None` if there is nothing to record. Its outcome senders then stay as they are.
    pub(crate) fn begin<'a>(
        &self,
        messages: impl ExactSizeIterator<Item = &'a Envelope> + Clone,
    ) -> Option<Arc<SendSpan>> {
        let count = messages.len();
        if count == 0 {
            return None;
        }
        current::guarded(|| {
            let context = self.tracer.start(self.builder(count, messages), &current::context());
            let is_recording = context.span().is_recording();
            is_recording.then(|| Arc::new(SendSpan { context, count, progress: Mutex::new(Progress::new(count)) }))
        })?
    }

    fn builder<'a>(&self, count: usize, messages: impl Iterator<Item = &'a Envelope> + Clone) -> SpanBuilder {
        let topic = common(messages.clone().map(|message| &message.topic));
        let mut attributes = self.attributes.clone();
        attributes.push(KeyValue::new(SYSTEM, self.system));
        attributes.extend(Operation::Send.attributes());
        attributes.extend(topic.map(|topic| KeyValue::new(DESTINATION, Arc::clone(topic))));
        attributes.extend(common(messages.clone().map(|message| message.attempt)).map(attempt));
        attributes.extend(common(messages.clone().map(|message| message.path)).flatten().map(path));
        attributes.extend(common(messages.clone().map(|message| message.lane)).flatten().map(lane));
        if count == 1 {
            attributes.extend(messages.clone().map(|message| id(message.message_id)));
        } else {
            attributes.push(KeyValue::new(MESSAGE_COUNT, integer(count)));
        }
        SpanBuilder::from_name(Operation::Send.span_name(topic.map(|topic| &**topic)))
            .with_kind(SpanKind::Client)
            .with_attributes(attributes)
            .with_links(messages.filter_map(|message| link(message, count)).collect())
    }
}

/// The link to a message's creation context. In a batch it also says which message that is.
fn link(message: &Envelope, count: usize) -> Option<Link> {
    let creation = headers::span_context(message.headers.iter())?;
    let mut attributes = Vec::new();
    if count > 1 {
        attributes.extend([id(message.message_id), attempt(message.attempt)]);
        attributes.extend(message.path.map(path).into_iter().chain(message.lane.map(lane)));
    }
    Some(Link::new(creation, attributes, 0))
}

/// The value that all have; `None` if they differ.
fn common<T: PartialEq>(mut values: impl Iterator<Item = T>) -> Option<T> {
    let first = values.next()?;
    values.all(|value| value == first).then_some(first)
}

fn id(message_id: MessageId) -> KeyValue {
    KeyValue::new(MESSAGE_ID, message_id.to_string())
}

fn attempt(attempt: u32) -> KeyValue {
    KeyValue::new(ATTEMPT, i64::from(attempt))
}

fn path(path: &'static str) -> KeyValue {
    KeyValue::new(PATH, path)
}

fn lane(lane: u16) -> KeyValue {
    KeyValue::new(LANE, i64::from(lane))
}

fn integer(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

/// A span that waits for the outcomes of its messages.
#[derive(Debug)]
pub(crate) struct SendSpan {
    context: Context,
    count: usize,
    progress: Mutex<Progress>,
}

#[derive(Debug)]
struct Progress {
    /// How many messages have no outcome.
    left: usize,
    failed: usize,
    first: Option<Failure>,
}

impl Progress {
    fn new(left: usize) -> Self {
        Self { left, failed: 0, first: None }
    }
}

#[derive(Debug, Clone)]
struct Failure {
    class: &'static str,
    text: String,
}

impl Failure {
    fn of(outcome: &Outcome) -> Option<Self> {
        match outcome {
            Outcome::Delivered => None,
            Outcome::Busy => Some(Self { class: "busy", text: "the client's queue is full".to_owned() }),
            Outcome::Failed(error) => Some(Self { class: error.class().as_str(), text: error.to_string() }),
        }
    }
}

impl SendSpan {
    /// The context with the span, for what the transport does within the call.
    pub(crate) fn context(&self) -> Context {
        self.context.clone()
    }

    /// An outcome sender whose outcome the span notes.
    pub(crate) fn sender(self: &Arc<Self>, message_id: MessageId, sender: OutcomeSender) -> OutcomeSender {
        let span = Arc::clone(self);
        // On a thread of the transport's, which a panic would end.
        sender.observed_by(move |outcome| {
            current::guarded(|| span.note(message_id, Failure::of(outcome)));
        })
    }

    fn note(&self, message_id: MessageId, failure: Option<Failure>) {
        let mut progress = self.progress.lock().unwrap_or_else(PoisonError::into_inner);
        progress.left = progress.left.saturating_sub(1);
        if let Some(failure) = failure {
            progress.failed += 1;
            if self.count > 1 {
                let attributes = vec![id(message_id), KeyValue::new(ERROR_TYPE, failure.class)];
                self.context.span().add_event(MESSAGE_FAILED, attributes);
            }
            progress.first.get_or_insert(failure);
        }
        if progress.left == 0 {
            self.end(progress.failed, progress.first.take());
        }
    }

    fn end(&self, failed: usize, first: Option<Failure>) {
        let span = self.context.span();
        if let Some(Failure { class, text }) = first {
            span.set_attribute(KeyValue::new(ERROR_TYPE, class));
            let count = self.count;
            let text =
                if count > 1 { format!("{failed} of {count} messages failed, the first with: {text}") } else { text };
            span.set_status(Status::error(text));
        }
        span.end();
    }
}
