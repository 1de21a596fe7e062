//! Every page in a database with a million live messages and 100,000 dead letters, beside an idle relay.

mod database;
mod fill;
mod large;
mod pages;
mod reads;
