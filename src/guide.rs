//! The guides of the repository, from its `docs/` folder. Their examples are compiled.

// In the repository the guides link to each other by file. The first definition of a link is the one that counts, so
// these turn the same links into those of the documentation. The contributors' pages are not part of it.
macro_rules! guides {
    ($($(#[$about:meta])* $name:ident = $file:literal;)+) => {
        $(
            $(#[$about])*
            ///
            /// [bench-results]: https://github.com/diesel-outbox/diesel-outbox/blob/main/docs/internals/performance.md
            /// [cdc]: crate::guide::cdc
            /// [changelog]: crate::guide::changelog
            /// [command-line]: crate::guide::command_line
            /// [consumers]: crate::guide::consumers
            /// [copies]: crate::guide::guarantees#recognise-copies
            /// [dashboard]: crate::guide::dashboard
            /// [dead-letters]: crate::guide::dead_letters
            /// [delayed]: crate::guide::delayed
            /// [design]: https://github.com/diesel-outbox/diesel-outbox/blob/main/docs/internals/design.md
            /// [events]: crate::guide::events
            /// [exactly-once]: crate::guide::exactly_once
            /// [faq]: crate::guide::faq
            /// [fenced]: crate::guide::ordering#fenced-topics
            /// [fingerprints]: crate::guide::schemas#fingerprints
            /// [getting-started]: crate::guide::getting_started
            /// [guarantees]: crate::guide::guarantees
            /// [headers-java]: https://github.com/diesel-outbox/diesel-outbox/blob/main/ops/debezium/OutboxHeaders.java
            /// [history]: crate::guide::history
            /// [http]: crate::guide::http
            /// [inbox]: crate::guide::inbox
            /// [internal-tests]: https://github.com/diesel-outbox/diesel-outbox/blob/main/docs/internals/testing.md
            /// [kafka]: crate::guide::kafka
            /// [late]: crate::guide::guarantees#when-a-message-is-late
            /// [lost-transactions]: https://github.com/diesel-outbox/diesel-outbox/blob/main/docs/internals/protocol.md#a-transaction-that-ends-inside-its-closure
            /// [migrating]: crate::guide::migrating
            /// [once-duplicates]: crate::guide::guarantees#duplicates-of-an-exactly-once-topic
            /// [operations]: crate::guide::operations
            /// [ordering]: crate::guide::ordering
            /// [pgbouncer]: crate::guide::pgbouncer
            /// [receipts]: crate::guide::receipts
            /// [rocketmq]: crate::guide::rocketmq
            /// [schemas]: crate::guide::schemas
            /// [testing-your-application]: crate::guide::testing_your_application
            /// [tracing]: crate::guide::tracing
            /// [transports]: crate::guide::transports
            /// [tuning]: crate::guide::tuning
            /// [upgrading]: crate::guide::upgrading
            /// [verify]: crate::guide::verify
            #[doc = concat!("\n", include_str!($file))]
            pub mod $name {}
        )+
    };
}

guides! {
    /// How to let Debezium send the outbox, and how to move there and back.
    cdc = "../docs/cdc.md";
    /// What changed from version to version.
    changelog = "../CHANGELOG.md";
    /// The program `outbox`: look into an outbox and operate it, from a shell or by a subcommand of the application.
    command_line = "../docs/command-line.md";
    /// How to process the records of a topic so that each message has its effect once.
    consumers = "../docs/consumers.md";
    /// The web page for operators, and how to nest it in an application.
    dashboard = "../docs/dashboard.md";
    /// Why a message was not delivered, and how to redrive, correct or delete it.
    dead_letters = "../docs/dead-letters.md";
    /// How to send a message later, and how to cancel it.
    delayed = "../docs/delayed.md";
    /// Every log event: its id, level, fields, and what to do.
    events = "../docs/events.md";
    /// From your transaction to the consumer's: each message once.
    exactly_once = "../docs/exactly-once.md";
    /// What to do about each symptom, error and log line.
    faq = "../docs/faq.md";
    /// From `cargo add` to a message in Kafka, on each database.
    getting_started = "../docs/getting-started.md";
    /// What the outbox promises, and when messages can be lost, duplicated, reordered or late.
    guarantees = "../docs/guarantees.md";
    /// How to keep sent messages, look them up, and let consumers report them as processed.
    history = "../docs/history.md";
    /// The HTTP transport: what a receiver gets, settings, what an answer does.
    http = "../docs/http.md";
    /// The consumer's inbox: each message once, retention, ids of other producers.
    inbox = "../docs/inbox.md";
    /// The Kafka transport: what a record contains, settings, guarantees, errors.
    kafka = "../docs/kafka.md";
    /// How to move from a hand-written table, from polling or from Debezium.
    migrating = "../docs/migrating.md";
    /// Metrics, alerts, pauses, databases, TLS, rights, topics, shutdown.
    operations = "../docs/operations.md";
    /// Topics that keep the order of each key, and how nodes share them.
    ordering = "../docs/ordering.md";
    /// What to set behind pgbouncer in transaction mode.
    pgbouncer = "../docs/pgbouncer.md";
    /// How to wait for the delivery of a committed message.
    receipts = "../docs/receipts.md";
    /// The RocketMQ transport: what a message contains, settings, guarantees, errors, half messages.
    rocketmq = "../docs/rocketmq.md";
    /// Protobuf, Avro with a schema registry, CloudEvents; fingerprints of shapes, and how a consumer reads old ones.
    schemas = "../docs/schemas.md";
    /// How to test your application, and your own transport.
    testing_your_application = "../docs/testing-your-application.md";
    /// OpenTelemetry traces, from the enqueue to the consumers.
    tracing = "../docs/tracing.md";
    /// How to choose a transport, and what each failure does.
    transports = "../docs/transports.md";
    /// What the outbox costs, how to size it, and which setting to change for which effect.
    tuning = "../docs/tuning.md";
    /// How to upgrade and go back, and how to change the table while relays run.
    upgrading = "../docs/upgrading.md";
    /// How to prove that the tables and a topic agree, and what to do where they do not.
    verify = "../docs/verify.md";
}

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}

// What contributors read is not part of the documentation; its examples are compiled all the same.
#[cfg(doctest)]
mod internals {
    #[doc = include_str!("../docs/internals/README.md")]
    mod readme {}
    #[doc = include_str!("../docs/internals/architecture.md")]
    mod architecture {}
    #[doc = include_str!("../docs/internals/design.md")]
    mod design {}
    #[doc = include_str!("../docs/internals/faults.md")]
    mod faults {}
    #[doc = include_str!("../docs/internals/glossary.md")]
    mod glossary {}
    #[doc = include_str!("../docs/internals/model.md")]
    mod model {}
    #[doc = include_str!("../docs/internals/performance.md")]
    mod performance {}
    #[doc = include_str!("../docs/internals/protocol.md")]
    mod protocol {}
    #[doc = include_str!("../docs/internals/testing.md")]
    mod testing {}
    #[doc = include_str!("../docs/internals/transports.md")]
    mod transports {}
}
