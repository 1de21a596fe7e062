//! The derive macro of diesel-outbox.
