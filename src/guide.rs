//! The guides of the repository, as they stand in its `docs/` folder. They are part of the documentation only, and their
//! examples are compiled with it.

// In the repository the guides link to each other by file. The first definition of a link is the one that counts, so
// these turn the same links into those of the documentation. The contributors' pages are not part of it.
macro_rules! guides {
    ($($(#[$about:meta])* $name:ident = $file:literal;)+) => {
        $(
            $(#[$about])*
            ///
            /// [bench-results]: https://github.com/diesel-outbox/diesel-outbox/blob/main/docs/internals/performance.md
            /// [changelog]: crate::guide::changelog
            /// [dead-letters]: crate::guide::dead_letters
            /// [delayed]: crate::guide::delayed
            /// [design]: https://github.com/diesel-outbox/diesel-outbox/blob/main/docs/internals/design.md
            /// [faq]: crate::guide::faq
            /// [getting-started]: crate::guide::getting_started
            /// [guarantees]: crate::guide::guarantees
            /// [history]: crate::guide::history
            /// [http]: crate::guide::http
            /// [internal-tests]: https://github.com/diesel-outbox/diesel-outbox/blob/main/docs/internals/testing.md
            /// [kafka]: crate::guide::kafka
            /// [migrating]: crate::guide::migrating
            /// [operations]: crate::guide::operations
            /// [ordering]: crate::guide::ordering
            /// [pgbouncer]: crate::guide::pgbouncer
            /// [rocketmq]: crate::guide::rocketmq
            /// [testing-your-application]: crate::guide::testing_your_application
            /// [transports]: crate::guide::transports
            /// [tuning]: crate::guide::tuning
            /// [upgrading]: crate::guide::upgrading
            #[doc = concat!("\n", include_str!($file))]
            pub mod $name {}
        )+
    };
}

guides! {
    /// What changed from version to version.
    changelog = "../CHANGELOG.md";
    /// What to do about messages that cannot be delivered.
    dead_letters = "../docs/dead-letters.md";
    /// Messages that are sent later, and how to take one back.
    delayed = "../docs/delayed.md";
    /// Questions, and errors: I see this, what do I do?
    faq = "../docs/faq.md";
    /// From `cargo add` to a message in Kafka, on each database.
    getting_started = "../docs/getting-started.md";
    /// What may be lost, doubled, reordered and late, and when.
    guarantees = "../docs/guarantees.md";
    /// Sent messages that are kept, for how long, and their confirmation by consumers.
    history = "../docs/history.md";
    /// The HTTP transport: what a receiver gets, settings, what an answer does.
    http = "../docs/http.md";
    /// The Kafka transport: what a record carries, settings, guarantees, errors.
    kafka = "../docs/kafka.md";
    /// From a hand-written table, from polling, from Debezium.
    migrating = "../docs/migrating.md";
    /// Metrics, alerts, pauses, databases, shutdown.
    operations = "../docs/operations.md";
    /// Topics that keep the order of each key, and the nodes that share them.
    ordering = "../docs/ordering.md";
    /// What to set where pgbouncer in transaction mode is between, by version and kind of connection.
    pgbouncer = "../docs/pgbouncer.md";
    /// RocketMQ: settings, guarantees, errors.
    rocketmq = "../docs/rocketmq.md";
    /// Tests of your application, and of your own transport.
    testing_your_application = "../docs/testing-your-application.md";
    /// The transports side by side.
    transports = "../docs/transports.md";
    /// What it costs, and which knob turns what.
    tuning = "../docs/tuning.md";
    /// From one version to the next.
    upgrading = "../docs/upgrading.md";
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
