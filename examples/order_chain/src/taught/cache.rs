//! The stock in Redis as the recipe uses it: a number for each product, and a key for each request.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::cache::CacheAway;

/// A stand-in for Redis. Each call is one command, so others run in between.
#[derive(Debug, Default)]
pub(super) struct TaughtCache(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    stock: BTreeMap<i64, i64>,
    keys: BTreeSet<String>,
    is_away: bool,
}

impl TaughtCache {
    pub(super) fn set_away(&self, is_away: bool) {
        self.state().is_away = is_away;
    }

    /// Loses everything. The recipe loads the stock from the stock service's table when it is missing.
    pub(super) fn flush(&self) {
        let mut state = self.state();
        state.stock.clear();
        state.keys.clear();
    }

    /// GET
    pub(super) async fn stock(&self, product_id: i64) -> Result<Option<i64>, CacheAway> {
        self.command(|state| state.stock.get(&product_id).copied()).await
    }

    /// SET
    pub(super) async fn set_stock(&self, product_id: i64, units: i64) -> Result<(), CacheAway> {
        self.command(|state| {
            state.stock.insert(product_id, units);
        })
        .await
    }

    /// INCRBY, or DECRBY
    pub(super) async fn add(&self, product_id: i64, units: i64) -> Result<(), CacheAway> {
        self.command(|state| *state.stock.entry(product_id).or_default() += units).await
    }

    /// SETNX
    pub(super) async fn set_key(&self, key: &str) -> Result<bool, CacheAway> {
        self.command(|state| state.keys.insert(key.to_owned())).await
    }

    /// DEL
    pub(super) async fn delete_key(&self, key: &str) -> Result<(), CacheAway> {
        self.command(|state| {
            state.keys.remove(key);
        })
        .await
    }

    async fn command<T>(&self, run: impl FnOnce(&mut State) -> T) -> Result<T, CacheAway> {
        // The way to the server and back.
        tokio::task::yield_now().await;
        let mut state = self.state();
        match state.is_away {
            true => Err(CacheAway("it was told not to".to_owned())),
            false => Ok(run(&mut state)),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
