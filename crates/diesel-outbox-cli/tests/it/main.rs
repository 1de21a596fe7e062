//! The program `outbox` against real databases.

mod cli;
