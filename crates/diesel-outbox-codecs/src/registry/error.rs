use std::error::Error;
use std::fmt;

use diesel_outbox::CodecError;

/// All problems that a schema registry had, or that there were with asking it.
#[derive(Debug)]
pub struct SchemaError {
    problems: Vec<SchemaProblem>,
}

impl SchemaError {
    pub(crate) fn new(problems: Vec<SchemaProblem>) -> Self {
        Self { problems }
    }

    /// The problems, at least one.
    pub fn problems(&self) -> &[SchemaProblem] {
        &self.problems
    }

    /// The same, to keep.
    pub fn into_problems(self) -> Vec<SchemaProblem> {
        self.problems
    }

    /// Whether the same call may succeed later: the registry does not answer.
    pub fn is_retriable(&self) -> bool {
        self.problems.iter().all(|problem| matches!(problem, SchemaProblem::Away { .. }))
    }
}

impl From<SchemaProblem> for SchemaError {
    fn from(problem: SchemaProblem) -> Self {
        Self::new(vec![problem])
    }
}

impl Error for SchemaError {}

impl fmt::Display for SchemaError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.problems.iter().enumerate() {
            f.write_str(if index == 0 { "" } else { "; " })?;
            problem.fmt(f)?;
        }
        Ok(())
    }
}

/// One problem with a schema or its registry, and what to do about it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SchemaProblem {
    /// The registry's address or certificate cannot be used.
    #[error("the schema registry's configuration is wrong: {reason}")]
    Configuration {
        /// What is wrong.
        reason: String,
    },
    /// The registry does not answer.
    #[error(
        "the schema registry at {registry} does not answer ({error}): start it, or correct its address. Enqueueing needs it only at \
         start"
    )]
    Away {
        /// Its host and port.
        registry: String,
        /// What happened.
        error: String,
    },
    /// The registry refuses the login.
    #[error(
        "the schema registry at {registry} refuses the login (status {status}): correct `basic_auth` or `bearer_auth`"
    )]
    LoginRefused {
        /// Its host and port.
        registry: String,
        /// Its answer's status.
        status: u16,
    },
    /// The registry does not have the subject.
    #[error(
        "the schema registry has no subject {subject:?} for `{message}`: register the schema in the deployment, let this process do it \
         with `register()`, or name the right subject with `subjects(..)` or `message_as(..)`"
    )]
    UnknownSubject {
        /// The subject.
        subject: String,
        /// The message type.
        message: &'static str,
    },
    /// The subject does not have the type's schema.
    #[error(
        "the subject {subject:?} has other schemas than that of `{message}`: register this version in the deployment, or let this process \
         do it with `register()`"
    )]
    UnknownSchema {
        /// The subject.
        subject: String,
        /// The message type.
        message: &'static str,
    },
    /// The registry refuses to register a schema that is not compatible with the subject's others.
    #[error(
        "the schema of `{message}` is incompatible with the subject {subject:?}: {reason}. Change the type so that it is compatible, for \
         instance by a default for a new field; or register it under a new subject"
    )]
    Incompatible {
        /// The subject.
        subject: String,
        /// The message type.
        message: &'static str,
        /// The registry's reason.
        reason: String,
    },
    /// The schema of a type is not valid.
    #[error("the schema of `{message}` is not valid: {error}. Correct the type's `AvroSchema`")]
    InvalidSchema {
        /// The message type.
        message: &'static str,
        /// What is wrong.
        error: String,
    },
    /// The schema of a type has no name.
    #[error("the schema of `{message}` is no record, enum or fixed, so it has no name: wrap it in a struct")]
    NotARecord {
        /// The message type.
        message: &'static str,
    },
    /// The subject depends on a topic that is chosen at run time.
    #[error(
        "the topic of `{message}` is chosen at run time, so it names no subject: use `SubjectNames::Record`, or name the subject with \
         `message_as`"
    )]
    NoTopic {
        /// The message type.
        message: &'static str,
    },
    /// The process already has another id for the type's schema.
    #[error(
        "the subject {subject:?} has the id {id} for the schema of `{message}`, but this process already uses {known}: give each registry a \
         name of its own, as in `codec = Avro<Warehouse>` and `schemas_of::<Warehouse>()`"
    )]
    OtherId {
        /// The message type.
        message: &'static str,
        /// The subject.
        subject: String,
        /// The id from the registry.
        id: u32,
        /// The id that is in use.
        known: u32,
    },
    /// The registry has no schema of that id.
    #[error(
        "the schema registry has no schema {id}: the message was written with another registry, or the schema was deleted"
    )]
    UnknownId {
        /// The id.
        id: u32,
    },
    /// A schema from the registry cannot be read.
    #[error("the schema {id} of the registry cannot be read: {error}. Decode its messages with a library that can")]
    UnreadableSchema {
        /// The id.
        id: u32,
        /// What is wrong.
        error: String,
    },
    /// A payload is not in the wire format of schema registries.
    #[error("{error}. Was the message written with another codec?")]
    NotInWireFormat {
        /// What is wrong.
        error: CodecError,
    },
    /// The registry answered something else.
    #[error(
        "the schema registry answered a request about {about} with status {status}: {reason}. Is it a registry, and is the path of its URL right?"
    )]
    Answer {
        /// What it was asked for.
        about: String,
        /// Its answer's status.
        status: u16,
        /// Its answer, cut.
        reason: String,
    },
    /// No runtime could be started to ask it.
    #[error("no runtime could be started to ask the schema registry: {error}")]
    Runtime {
        /// What happened.
        error: std::io::Error,
    },
}

impl SchemaProblem {
    /// Whether it is about the registry, so that any other question has it too.
    pub(crate) fn is_of_registry(&self) -> bool {
        matches!(self, Self::Configuration { .. } | Self::Away { .. } | Self::LoginRefused { .. })
    }
}
