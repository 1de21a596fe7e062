//! The chain, part by part and whole.

mod bad_input;
mod bed;
mod caches;
mod crash_points;
mod doubt;
mod faulty;
mod kills;
mod orders;
mod parked;
mod races;
mod rebuild;
mod set_aside;
mod whole;
