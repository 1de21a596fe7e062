//! TLS, SASL and access lists, against a broker with all of them.

use std::time::Duration;

use async_trait::async_trait;
use diesel_outbox::testing::{OutcomeRecorder, RecordedOutcome, StoredMessage, TransportUnderTest, transport::cases};
use diesel_outbox::transport::{FailureClass, KafkaConfig, Transport};
use xtask::servers::Kafka;
use xtask::servers::kafka::{Access, Login, Options, Sasl};
use xtask::test_servers;

use super::acl::{self, Operation};
use super::broker::{self, TIMEOUT, config, envelope, make, transport, unique_name};

const WRONG: &str = "no-such-password";

/// A broker of the test's own.
pub(crate) struct SecuredBroker(Kafka);

impl SecuredBroker {
    /// `None` where it cannot be had.
    pub(crate) fn open() -> Option<Self> {
        let options = Options { access: Access::Acls, ..Options::default() };
        test_servers::own_or_skip(Kafka::start(&options)).map(Self)
    }

    /// The listener that has every right.
    pub(crate) fn bootstrap(&self) -> String {
        self.0.bootstrap()
    }

    pub(crate) fn port(&self) -> u16 {
        self.0.port()
    }

    pub(crate) fn sasl(&self) -> &Sasl {
        self.0.sasl().expect("a listener with a login")
    }

    /// The owner's, but for its password.
    pub(crate) fn wrong_login(&self) -> Login {
        Login { password: WRONG.to_owned(), ..self.sasl().owner.clone() }
    }

    pub(crate) fn config(&self, login: &Login) -> KafkaConfig {
        config(&self.sasl().bootstrap)
            .set("security.protocol", "SASL_SSL")
            .set("sasl.mechanism", "SCRAM-SHA-512")
            .set("ssl.ca.location", self.sasl().ca_pem.display().to_string())
            .set("sasl.username", &login.user)
            .set("sasl.password", &login.password)
    }
}

#[async_trait]
impl TransportUnderTest for SecuredBroker {
    fn transport(&self) -> Box<dyn Transport> {
        transport(self.config(&self.sasl().owner))
    }

    async fn stored(&self, topic: &str) -> Vec<StoredMessage> {
        broker::read(&self.bootstrap(), topic).into_iter().map(|(_, stored)| stored).collect()
    }

    async fn new_topic(&self) -> String {
        let name = unique_name("taken");
        make(&self.bootstrap(), &name, 3).await;
        name
    }

    fn max_wait(&self) -> Duration {
        TIMEOUT
    }

    fn unauthorized_transport(&self) -> Option<(Box<dyn Transport>, Vec<String>)> {
        Some((transport(self.config(&self.wrong_login())), vec![WRONG.to_owned()]))
    }
}

/// Logs in, with a wrong password too, by itself and in a relay; the passwords. `None` where the broker cannot be had.
pub(super) async fn logs_in() -> Option<Vec<String>> {
    let broker = SecuredBroker::open()?;
    cases::each_message_gets_one_outcome(&broker).await;
    cases::authentication_failure_hides_secrets(&broker).await;
    #[cfg(feature = "_test")]
    crate::faults::access::a_wrong_password_spends_nothing(&broker).await;
    Some(vec![WRONG.to_owned(), broker.sasl().owner.password.clone()])
}

/// One broker for all of it, because starting one is what takes the time.
#[tokio::test]
async fn authorized_clients_send_and_others_get_the_reason() {
    let Some(broker) = SecuredBroker::open() else { return };
    cases::each_message_gets_one_outcome(&broker).await;
    cases::authentication_failure_hides_secrets(&broker).await;
    a_wrong_password_is_reported(&broker).await;
    an_untrusted_certificate_is_reported(&broker).await;
    a_client_without_tls_gets_a_hint(&broker).await;
    a_user_writes_only_to_its_permitted_topics(&broker).await;
    a_missing_write_right_is_a_topic_failure(&broker).await;
}

async fn refused(kafka: &dyn Transport) -> (FailureClass, String) {
    let error = kafka.probe().await.expect_err("not let in");
    let prepared = kafka.prepare(&[]).await.expect_err("not let in");
    assert_eq!(prepared.class(), error.class());
    (error.class(), error.to_string())
}

async fn a_wrong_password_is_reported(broker: &SecuredBroker) {
    let (kafka, _) = broker.unauthorized_transport().expect("a wrong password");
    let (class, text) = refused(&*kafka).await;
    assert_eq!(class, FailureClass::Authentication);
    assert!(text.contains("invalid credentials with SASL mechanism SCRAM-SHA-512"), "{text}");
}

async fn an_untrusted_certificate_is_reported(broker: &SecuredBroker) {
    // The system's authorities do not know the node's.
    let stranger = broker.config(&broker.sasl().owner).set("ssl.ca.location", "probe");
    let (class, text) = refused(&*transport(stranger)).await;
    assert_eq!(class, FailureClass::Authentication);
    assert!(text.contains("certificate verify failed"), "{text}");
}

async fn a_client_without_tls_gets_a_hint(broker: &SecuredBroker) {
    let (class, text) = refused(&*transport(config(&broker.sasl().bootstrap))).await;
    assert_eq!(class, FailureClass::Connection);
    assert!(text.contains("Disconnected") && text.contains("APIVERSION_QUERY"), "{text}");
}

async fn a_user_writes_only_to_its_permitted_topics(broker: &SecuredBroker) {
    let (open, closed) = (broker.new_topic().await, broker.new_topic().await);
    let stranger = &broker.sasl().stranger;
    acl::allow(broker.port(), &stranger.user, Operation::Write, &open);
    let (kafka, outcomes) = (transport(broker.config(stranger)), OutcomeRecorder::new());
    for id in 0..20 {
        outcomes.send(&*kafka, id, envelope(if id % 2 == 0 { &open } else { &closed }, Some("key")));
    }
    for (id, seen) in outcomes.wait_for(20, TIMEOUT).await {
        match (id % 2, seen) {
            (0, seen) => assert_eq!(seen, RecordedOutcome::Delivered),
            (_, RecordedOutcome::Failed { class, text }) => {
                assert_eq!(class, FailureClass::Topic, "{text}");
                assert!(text.contains("TopicAuthorizationFailed"), "{text}");
            }
            (_, seen) => panic!("a message where the stranger may not write: {seen:?}"),
        }
    }
    acl::allow(broker.port(), &stranger.user, Operation::Write, &closed);
    let allowed = async {
        loop {
            let outcomes = OutcomeRecorder::new();
            outcomes.send(&*kafka, 0, envelope(&closed, Some("key")));
            if outcomes.wait_for(1, TIMEOUT).await[0].1 == RecordedOutcome::Delivered {
                return;
            }
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(TIMEOUT, allowed).await.expect("the topic is sent to soon after the permission");
}

/// Without any right the broker also refuses the idempotent producer its id; what is said is still about the topic.
async fn a_missing_write_right_is_a_topic_failure(broker: &SecuredBroker) {
    let topic = broker.new_topic().await;
    acl::forget(broker.port(), &broker.sasl().stranger.user);
    let (kafka, outcomes) = (transport(broker.config(&broker.sasl().stranger)), OutcomeRecorder::new());
    outcomes.send(&*kafka, 0, envelope(&topic, Some("key")));
    let (_, seen) = &outcomes.wait_for(1, TIMEOUT).await[0];
    assert_eq!(seen.class(), Some(FailureClass::Topic), "{seen:?}");
}
