//! What becomes of each answer of a registry.

use std::time::Duration;

use apache_avro::AvroSchema;
use axum::http::StatusCode;
use diesel_outbox::OutboxMessage;
use diesel_outbox::codec::Codec;
use diesel_outbox_codecs::avro::{Avro, SchemaError, SchemaProblem, SchemaRegistry, SubjectNames};
use serde::Serialize;

use crate::fake_registry::{Behaviour, start};

struct Faked;

#[derive(Serialize, AvroSchema, OutboxMessage)]
#[outbox(topic = "orders", codec = Avro<Faked>)]
struct Order {
    id: i64,
}

async fn asked(registry: SchemaRegistry) -> Result<(), SchemaError> {
    registry.schemas_of::<Faked>().message::<Order>().build().await.map(drop)
}

async fn problem(behaviour: Behaviour) -> SchemaProblem {
    let (url, _) = start(behaviour).await;
    let error = asked(SchemaRegistry::new(url).timeout(Duration::from_millis(200))).await.expect_err("a problem");
    error.into_problems().remove(0)
}

fn answers(status: u16, body: &str) -> Behaviour {
    Behaviour::Answers(StatusCode::from_u16(status).expect("a status"), body.to_owned())
}

#[tokio::test]
async fn a_registry_in_memory_gets_the_login_and_the_path() {
    let (url, requests) = start(answers(200, r#"{"id":77,"version":1}"#)).await;
    asked(SchemaRegistry::new(&url)).await.expect("an id");
    asked(SchemaRegistry::new(&url).basic_auth("shop", "swordfish")).await.expect("an id");
    asked(SchemaRegistry::new(&url).bearer_auth("token")).await.expect("an id");
    let requests = requests.lock().expect("unpoisoned");
    let logins: Vec<&str> = requests.iter().map(|(_, login)| login.as_str()).collect();
    assert_eq!(logins, ["", "Basic c2hvcDpzd29yZGZpc2g=", "Bearer token"]);
    assert!(requests.iter().all(|(path, _)| path == "/base/subjects/orders-value"), "{requests:?}");
}

#[tokio::test]
async fn a_registry_in_memory_that_fails_is_named_with_what_to_do() {
    for (behaviour, expected) in [
        (answers(401, ""), "refuses the login (status 401)"),
        (answers(403, ""), "refuses the login (status 403)"),
        (answers(503, "maintenance"), "does not answer (status 503: maintenance)"),
        (Behaviour::NeverAnswers, "does not answer (no answer within 200ms)"),
        (answers(404, "nothing here"), "with status 404: nothing here. Is it a registry"),
        (answers(200, "<html>"), "with status 200: expected value"),
        (answers(200, &"x".repeat(4_000_001)), "more than 4000000 bytes"),
        (answers(302, ""), "with status 302"),
        (answers(404, r#"{"error_code":40401,"message":"m"}"#), r#"no subject "orders-value" for"#),
        (answers(404, r#"{"error_code":40403,"message":"m"}"#), "has other schemas than that of"),
        (answers(422, r#"{"error_code":42201,"message":"bad name"}"#), "is not valid: bad name"),
    ] {
        let problem = problem(behaviour).await.to_string();
        assert!(problem.contains(expected), "{problem}");
    }
}

#[tokio::test]
async fn a_registry_in_memory_that_refuses_to_register_gives_its_reason() {
    let (url, _) = start(answers(409, r#"{"error_code":409,"message":"a field has no default"}"#)).await;
    let schemas = SchemaRegistry::new(url).schemas_of::<Faked>().message::<Order>().register();
    let error = schemas.build().await.expect_err("refused").to_string();
    assert!(error.contains("\"orders-value\": a field has no default"), "{error}");
}

#[tokio::test]
async fn two_registries_in_memory_of_one_name_cannot_give_other_ids() {
    struct Twice;
    let of = |url: String| SchemaRegistry::new(url).schemas_of::<Twice>().message::<Order>();
    let (url, _) = start(answers(200, r#"{"id":1}"#)).await;
    of(url).build().await.expect("the first id");
    let (url, _) = start(answers(200, r#"{"id":2}"#)).await;
    let error = of(url).build().await.expect_err("another id");
    assert!(matches!(error.problems(), [SchemaProblem::OtherId { id: 2, known: 1, .. }]), "{error}");
}

#[tokio::test]
async fn a_registry_in_memory_has_schemas_that_cannot_be_used() {
    for (body, expected) in [
        (r#"{"schema":"syntax = \"proto3\";","schemaType":"PROTOBUF"}"#, "it is of the type PROTOBUF"),
        (r#"{"schema":"{}","references":[{"name":"a"}]}"#, "it has references"),
        (r#"{"schema":"{}"}"#, "cannot be read"),
        (r#"{}"#, "missing field `schema`"),
    ] {
        struct Consumer;
        let (url, _) = start(answers(200, body)).await;
        let schemas = SchemaRegistry::new(url).schemas_of::<Consumer>().build().await.expect("nothing to ask");
        let error = schemas.fetch(&[0, 0, 0, 0, 9]).await.expect_err("no schema").to_string();
        assert!(error.contains(expected), "{error}");
    }
}

/// What cannot be read is shown as bytes, and must not keep an application from its start.
#[tokio::test]
async fn an_older_version_in_memory_that_cannot_be_read_is_left_out() {
    struct Shown;
    let (url, requests) = start(Behaviour::ByPath(&[
        ("/orders-value", r#"{"id":14}"#),
        ("/versions", "[1,2,3,4]"),
        ("/versions/4", r#"{"id":14,"schema":"\"long\""}"#),
        ("/versions/3", r#"{"id":13,"schema":"{}"}"#),
        ("/versions/2", r#"{"id":12,"schema":"\"long\"","references":[{"name":"a"}]}"#),
        ("/versions/1", r#"{"id":11,"schema":"\"long\""}"#),
    ]))
    .await;
    let schemas = SchemaRegistry::new(url).schemas_of::<Shown>().message::<Order>().older_versions(4);
    let schemas = schemas.build().await.expect("an id");
    let text = |id| <Avro<Shown> as Codec<Order>>::text(&[0, 0, 0, 0, id, 2]);
    assert_eq!(text(11).expect("the version 1"), "1");
    for id in [12, 13] {
        assert!(text(id).expect_err("left out").to_string().contains("AvroSchemas::fetch"));
    }
    let asked = requests.lock().expect("unpoisoned").len();
    assert_eq!(asked, 6);
    schemas.fetch(&[0, 0, 0, 0, 11]).await.expect("it is there");
    assert_eq!(requests.lock().expect("unpoisoned").len(), asked);
}

#[tokio::test]
async fn what_needs_no_registry_in_memory_is_refused_before_it_is_asked() {
    #[derive(Serialize, AvroSchema, OutboxMessage)]
    #[outbox(topic = region, codec = Avro<Faked>)]
    struct Anywhere {
        region: String,
    }
    let (url, requests) = start(answers(200, r#"{"id":1}"#)).await;
    let schemas = || SchemaRegistry::new(&url).schemas_of::<Faked>();
    let error = schemas().message::<Anywhere>().build().await.expect_err("no topic");
    assert!(matches!(error.problems(), [SchemaProblem::NoTopic { .. }]), "{error}");
    for wrong in ["registry", "ftp://registry", "http://"] {
        let error = asked(SchemaRegistry::new(wrong)).await.expect_err("no URL");
        assert!(matches!(error.problems(), [SchemaProblem::Configuration { .. }]), "{error}");
    }
    assert!(requests.lock().expect("unpoisoned").is_empty());
    schemas().message::<Anywhere>().subjects(SubjectNames::Record).build().await.expect("it needs no topic");
    schemas().message_as::<Anywhere>("regions/eu").build().await.expect("it has a subject");
    let paths: Vec<String> = requests.lock().expect("unpoisoned").iter().map(|(path, _)| path.clone()).collect();
    assert_eq!(paths, ["/base/subjects/Anywhere", "/base/subjects/regions%2Feu"]);
}
