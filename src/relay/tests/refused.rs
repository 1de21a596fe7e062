//! What a start refuses permanently, and the error messages.

use std::sync::Arc;

use super::World;
use crate::naming::TableNames;
use crate::relay::{RelayBuilder, StartError};
use crate::store::{Call, Fault, StoreError};

/// The error of a start. The outbox stays free for another relay.
async fn refused(world: &World, relay: RelayBuilder) -> StartError {
    let error = relay.start().await.unwrap_err();
    assert!(world.link.now().is_none(), "no relay is connected: {error}");
    error
}

fn assert_says(error: &StartError, parts: &[&str]) {
    let text = error.to_string();
    for part in parts {
        assert!(text.contains(part), "{part} is not in {text}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_relay_without_a_transport_is_refused() {
    let world = World::new();
    let relay = RelayBuilder::new(world.topics.clone(), TableNames::default(), Arc::clone(&world.link));
    let error = refused(&world, relay.store(world.store.clone())).await;
    assert!(matches!(error, StartError::NoTransport), "{error}");
    assert_says(&error, &["no transport", ".transport(..)"]);
    drop(world.start().await);
}

/// As when the tables exist, but a GRANT is missing: for the check, and for the first poll.
#[tokio::test(start_paused = true)]
async fn a_database_that_refuses_to_be_read_refuses_the_start() {
    let world = World::new();
    for call in [Call::Check, Call::Poll] {
        let denied = StoreError::Statement("permission denied for table outbox_messages".into());
        world.store.inject(call, Fault::Refused(denied));
        let error = refused(&world, world.relay()).await;
        assert!(matches!(error, StartError::Store(StoreError::Statement(_))), "{call:?}: {error}");
        assert_says(&error, &["tables could not be checked", "permission denied for table outbox_messages"]);
    }
    drop(world.start().await);
}
