//! The whole dashboard over HTTP, on the store in memory and on SQLite.

mod acts;
mod bulk;
mod client;
mod health;
mod pages;
mod parked;
mod prefix;
mod rights;
mod site;
mod verify;
