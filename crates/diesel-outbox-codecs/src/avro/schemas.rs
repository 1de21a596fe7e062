//! The schemas of an application's events: their ids are asked for at start.

use std::any::{TypeId, type_name};
use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::sync::Arc;

use apache_avro::writer::datum::GenericDatumWriter;
use apache_avro::{AvroSchema, Schema};
use diesel_outbox::OutboxMessage;

use super::codec::DefaultRegistry;
use super::subject::SubjectNames;
use super::table::{self, OwnSchema};
use super::wire;
use crate::registry::{Client, SchemaError, SchemaProblem, SchemaRegistry};

/// The schemas of a registry, for events of the codec [`Avro`](super::Avro). From [`SchemaRegistry::schemas`].
///
/// The ids of its messages stay known to the process, even if this is dropped. Consumers keep it to [`fetch`](Self::fetch) the
/// schemas of others.
pub struct AvroSchemas<R = DefaultRegistry> {
    client: Arc<Client>,
    registry: PhantomData<fn() -> R>,
}

/// Asks a registry for the ids of schemas. From [`SchemaRegistry::schemas`].
#[must_use = "the registry is asked by `build`"]
pub struct AvroSchemasBuilder<R = DefaultRegistry> {
    registry: SchemaRegistry,
    messages: Vec<Message>,
    names: SubjectNames,
    registers: bool,
    older_max: usize,
    of: PhantomData<fn() -> R>,
}

#[derive(Debug)]
struct Message {
    of: TypeId,
    name: &'static str,
    topic: Option<&'static str>,
    subject: Option<String>,
    schema: fn() -> &'static Schema,
}

impl SchemaRegistry {
    /// Starts to name the messages whose schemas are in this registry.
    pub fn schemas(self) -> AvroSchemasBuilder {
        self.schemas_of()
    }

    /// The same for events with the codec `Avro<R>`, if a process uses several registries.
    pub fn schemas_of<R: 'static>(self) -> AvroSchemasBuilder<R> {
        AvroSchemasBuilder {
            registry: self,
            messages: Vec::new(),
            names: SubjectNames::default(),
            registers: false,
            older_max: 0,
            of: PhantomData,
        }
    }
}

impl<R: 'static> AvroSchemasBuilder<R> {
    /// Adds a message type.
    pub fn message<M: OutboxMessage + AvroSchema + 'static>(self) -> Self {
        self.add::<M>(None)
    }

    /// Adds a message type under a subject of its own, whatever the [strategy](Self::subjects).
    pub fn message_as<M: OutboxMessage + AvroSchema + 'static>(self, subject: impl Into<String>) -> Self {
        self.add::<M>(Some(subject.into()))
    }

    fn add<M: OutboxMessage + AvroSchema + 'static>(mut self, subject: Option<String>) -> Self {
        self.messages.push(Message {
            of: TypeId::of::<M>(),
            name: type_name::<M>(),
            topic: M::TOPIC,
            subject,
            schema: table::schema_of::<M>,
        });
        self
    }

    /// How subjects are named; by [`SubjectNames::Topic`] by default.
    pub fn subjects(mut self, names: SubjectNames) -> Self {
        self.names = names;
        self
    }

    /// Registers schemas that the registry does not have. By default they are only looked up: then a deployment step registers them,
    /// and an application that is not meant to change the registry needs no right to.
    pub fn register(mut self) -> Self {
        self.registers = true;
        self
    }

    /// Also fetches the latest `max` schemas of each subject. Then the dashboard and the command line show payloads that earlier versions
    /// of the application wrote, and a consumer decodes them without [`fetch`](AvroSchemas::fetch). None by default: each is a request.
    pub fn older_versions(mut self, max: usize) -> Self {
        self.older_max = max;
        self
    }

    /// Asks the registry for the id of each schema. At start, before the outbox is built.
    ///
    /// # Errors
    /// Returns all problems at once, each with the subject and what to do. If the registry does not answer, it is asked no further.
    ///
    /// # Cancel safety
    /// Cancelling stops it; some schemas may be registered by then.
    pub async fn build(self) -> Result<AvroSchemas<R>, SchemaError> {
        let client = Client::new(&self.registry).map_err(SchemaError::from)?;
        let mut problems = Vec::new();
        for message in &self.messages {
            if let Err(problem) = self.ask(&client, message).await {
                let is_over = problem.is_of_registry();
                problems.push(problem);
                if is_over {
                    break;
                }
            }
        }
        match problems.is_empty() {
            true => Ok(AvroSchemas { client: Arc::new(client), registry: PhantomData }),
            false => Err(SchemaError::new(problems)),
        }
    }

    /// The same in an application without a runtime.
    ///
    /// # Errors
    /// As [`build`](Self::build).
    ///
    /// # Panics
    /// If it is called on a thread of a tokio runtime: use [`build`](Self::build) there.
    pub fn build_blocking(self) -> Result<AvroSchemas<R>, SchemaError> {
        block_on(self.build())
    }

    async fn ask(&self, client: &Client, message: &Message) -> Result<(), SchemaProblem> {
        let (name, schema) = (message.name, (message.schema)());
        let invalid =
            |error: apache_avro::Error| SchemaProblem::InvalidSchema { message: name, error: error.to_string() };
        let record = schema.name().map(ToString::to_string);
        let record = record.ok_or(SchemaProblem::NotARecord { message: name })?;
        let subject = message.subject.clone().or_else(|| self.names.subject(message.topic, &record));
        let subject = subject.ok_or(SchemaProblem::NoTopic { message: name })?;
        let writer = GenericDatumWriter::builder(schema).build().map_err(invalid)?;
        let text = serde_json::to_string(schema)
            .map_err(|error| SchemaProblem::InvalidSchema { message: name, error: error.to_string() })?;
        let id = match self.registers {
            true => client.register(&subject, name, &text).await?,
            false => client.look_up(&subject, name, &text).await?,
        };
        if self.older_max > 0 {
            for (id, text) in client.versions(&subject, self.older_max).await? {
                // One that cannot be read is no reason not to start: its payloads are shown as bytes, and `fetch` says what is wrong.
                if let Ok(schema) = Schema::parse_str(&text) {
                    table::insert_fetched::<R>(id, schema);
                }
            }
        }
        let own = OwnSchema { id, schema, writer };
        table::insert_own(TypeId::of::<R>(), message.of, own).map_err(|known| SchemaProblem::OtherId {
            message: name,
            subject,
            id,
            known,
        })
    }
}

impl<R: 'static> AvroSchemas<R> {
    /// Fetches the schema that a payload was written with, unless the process has it. Call it before a payload is decoded or shown,
    /// and outside a transaction. The 1,000 schemas that were fetched last are kept.
    ///
    /// # Errors
    /// Returns an error if the payload is not in the wire format, or if the registry does not answer or has no such schema.
    ///
    /// # Cancel safety
    /// Cancelling stops it; nothing is half done.
    pub async fn fetch(&self, payload: &[u8]) -> Result<(), SchemaError> {
        let (id, _) = wire::split(payload).map_err(|error| SchemaProblem::NotInWireFormat { error })?;
        if table::by_id::<R>(id).is_some() {
            return Ok(());
        }
        let text = self.client.by_id(id).await?;
        Ok(insert::<R>(id, &text)?)
    }

    /// The same on a thread without a runtime, as a consumer's loop has it.
    ///
    /// # Errors
    /// As [`fetch`](Self::fetch).
    ///
    /// # Panics
    /// If it is called on a thread of a tokio runtime: use [`fetch`](Self::fetch) there.
    pub fn fetch_blocking(&self, payload: &[u8]) -> Result<(), SchemaError> {
        block_on(self.fetch(payload))
    }
}

fn insert<R: 'static>(id: u32, text: &str) -> Result<(), SchemaProblem> {
    let schema = Schema::parse_str(text);
    let schema = schema.map_err(|error| SchemaProblem::UnreadableSchema { id, error: error.to_string() })?;
    table::insert_fetched::<R>(id, schema);
    Ok(())
}

fn block_on<T>(asks: impl Future<Output = Result<T, SchemaError>>) -> Result<T, SchemaError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| SchemaError::from(SchemaProblem::Runtime { error }))?;
    runtime.block_on(asks)
}

// By hand: the name of a registry need be neither.
impl<R> Clone for AvroSchemas<R> {
    fn clone(&self) -> Self {
        Self { client: Arc::clone(&self.client), registry: PhantomData }
    }
}

impl<R> fmt::Debug for AvroSchemas<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AvroSchemas").field("client", &self.client).finish()
    }
}

impl<R> fmt::Debug for AvroSchemasBuilder<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let messages: Vec<&str> = self.messages.iter().map(|message| message.name).collect();
        f.debug_struct("AvroSchemasBuilder")
            .field("registry", &self.registry)
            .field("messages", &messages)
            .field("names", &self.names)
            .field("registers", &self.registers)
            .finish_non_exhaustive()
    }
}
