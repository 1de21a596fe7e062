//! Redis: one hash for each product, and a script for each call.
//!
//! A Redis that was restarted may have lost its last writes, or have gone back to an old snapshot. So each hash names the *run* of the server
//! that it was loaded into, each connection reads the run of its server, and a hash of another run counts as missing: it is rebuilt from
//! the databases. A connection does not outlive its server, so its run cannot be an old one.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, FromRedisValue, RedisError, Script, ScriptInvocation};
use tokio::sync::Mutex;

use super::{CacheAway, Deduction, Load, Reservation, Reserved, Shelf, StockCache};

/// How long Redis may take for an answer. Whoever waits longer does not know what it did.
const TIMEOUT: Duration = Duration::from_secs(1);

/// Redis, over one connection that all requests share.
pub struct RedisCache {
    client: Client,
    connection: Mutex<Option<Connection>>,
    deduct: Script,
    take: Script,
    read: Script,
    load: Script,
}

#[derive(Clone)]
struct Connection {
    commands: MultiplexedConnection,
    run: Arc<str>,
    /// Tells connections apart.
    token: Arc<()>,
}

impl RedisCache {
    /// Connects with the first call.
    ///
    /// # Errors
    /// Returns an error if the URL is none of Redis.
    pub fn new(url: &str) -> Result<Self, RedisError> {
        Ok(Self {
            client: Client::open(url)?,
            connection: Mutex::new(None),
            deduct: Script::new(include_str!("scripts/deduct.lua")),
            take: Script::new(include_str!("scripts/take.lua")),
            read: Script::new(include_str!("scripts/read.lua")),
            load: Script::new(include_str!("scripts/load.lua")),
        })
    }

    async fn connection(&self) -> Result<Connection, RedisError> {
        let mut held = self.connection.lock().await;
        if let Some(connection) = &*held {
            return Ok(connection.clone());
        }
        let config =
            AsyncConnectionConfig::new().set_connection_timeout(Some(TIMEOUT)).set_response_timeout(Some(TIMEOUT));
        let mut commands = self.client.get_multiplexed_async_connection_with_config(&config).await?;
        let info: String = redis::cmd("INFO").arg("server").query_async(&mut commands).await?;
        let run =
            info.lines().find_map(|line| line.strip_prefix("run_id:")).map(str::trim).filter(|run| !run.is_empty());
        // Without it nobody would notice that Redis has started again with old stock.
        let run = run.ok_or((redis::ErrorKind::UnexpectedReturnType, "INFO names no run_id"))?.into();
        let connection = Connection { commands, run, token: Arc::new(()) };
        *held = Some(connection.clone());
        Ok(connection)
    }

    /// Runs a script. After an error the next call connects again: it may be another server by then.
    async fn run<T: FromRedisValue>(
        &self,
        script: &Script,
        product_id: i64,
        arguments: impl FnOnce(&mut ScriptInvocation<'_>, &str),
    ) -> Result<T, CacheAway> {
        let away = |error: RedisError| CacheAway(error.to_string());
        let mut connection = self.connection().await.map_err(away)?;
        let mut invocation = script.prepare_invoke();
        invocation.key(format!("stock:{product_id}"));
        arguments(&mut invocation, &connection.run);
        match invocation.invoke_async(&mut connection.commands).await {
            Ok(answer) => Ok(answer),
            Err(error) => {
                self.drop_connection(&connection).await;
                Err(away(error))
            }
        }
    }

    /// Has the next call connect again, unless somebody else has done so.
    async fn drop_connection(&self, failed: &Connection) {
        let mut held = self.connection.lock().await;
        if held.as_ref().is_some_and(|held| Arc::ptr_eq(&held.token, &failed.token)) {
            *held = None;
        }
    }

    async fn take(&self, of: &Reservation, counter: &str) -> Result<bool, CacheAway> {
        self.run(&self.take, of.product_id, |script, _run| {
            script.arg(&of.order_id).arg(&of.id).arg(counter);
        })
        .await
    }
}

#[async_trait]
impl StockCache for RedisCache {
    async fn deduct(&self, asked: &Reservation) -> Result<Deduction, CacheAway> {
        let answer: Vec<String> = self
            .run(&self.deduct, asked.product_id, |script, run| {
                script.arg(run).arg(&asked.order_id).arg(&asked.id).arg(asked.quantity);
            })
            .await?;
        let words: Vec<&str> = answer.iter().map(String::as_str).collect();
        match words[..] {
            ["deducted", generation] => Ok(Deduction::Deducted { generation: number(generation)? }),
            ["before", generation, entry] => {
                let (reservation, _) = parse(asked.product_id, &asked.order_id, entry)?;
                Ok(Deduction::DeductedBefore { generation: number(generation)?, reservation })
            }
            ["not_enough", available] => Ok(Deduction::NotEnough { available: number(available)? }),
            ["unknown"] => Ok(Deduction::UnknownProduct),
            _ => Err(strange(&format!("{words:?}"))),
        }
    }

    async fn give_back(&self, reservation: &Reservation) -> Result<bool, CacheAway> {
        self.take(reservation, "available").await
    }

    async fn sell(&self, reservation: &Reservation) -> Result<bool, CacheAway> {
        self.take(reservation, "sold").await
    }

    async fn read(&self, product_id: i64) -> Result<Option<Shelf>, CacheAway> {
        let fields: HashMap<String, String> = self
            .run(&self.read, product_id, |script, run| {
                script.arg(run);
            })
            .await?;
        if fields.is_empty() {
            return Ok(None);
        }
        let count = |name: &str| number(fields.get(name).map_or("", String::as_str));
        let now_ms = count("now")?;
        let mut shelf = Shelf {
            generation: count("generation")?,
            available: count("available")?,
            sold: count("sold")?,
            ..Shelf::default()
        };
        for (name, entry) in &fields {
            if let Some(order_id) = name.strip_prefix("o:") {
                let (reservation, at_ms) = parse(product_id, order_id, entry)?;
                shelf.reserved.push(Reserved { reservation, age_ms: now_ms - at_ms });
            }
        }
        Ok(Some(shelf))
    }

    async fn load(&self, load: &Load) -> Result<bool, CacheAway> {
        self.run(&self.load, load.product_id, |script, run| {
            script.arg(run).arg(load.generation).arg(load.available).arg(load.sold);
            for reservation in &load.reserved {
                script.arg(&reservation.order_id).arg(&reservation.id).arg(reservation.quantity);
            }
        })
        .await
    }

    async fn unload(&self, product_id: i64) -> Result<(), CacheAway> {
        let away = |error: RedisError| CacheAway(error.to_string());
        let mut connection = self.connection().await.map_err(away)?;
        let key = format!("stock:{product_id}");
        let removed = redis::cmd("DEL").arg(key).query_async(&mut connection.commands).await;
        if removed.is_err() {
            self.drop_connection(&connection).await;
        }
        removed.map_err(away)
    }
}

/// `reservation|quantity|time`
fn parse(product_id: i64, order_id: &str, entry: &str) -> Result<(Reservation, i64), CacheAway> {
    let parts: Vec<&str> = entry.split('|').collect();
    let [id, quantity, at_ms] = parts[..] else { return Err(strange(entry)) };
    let (id, order_id) = (id.to_owned(), order_id.to_owned());
    Ok((Reservation { id, order_id, product_id, quantity: number(quantity)? }, number(at_ms)?))
}

fn number(text: &str) -> Result<i64, CacheAway> {
    text.parse().map_err(|_| strange(text))
}

fn strange(answer: &str) -> CacheAway {
    CacheAway(format!("its answer is none of a stock: {answer}"))
}

impl std::fmt::Debug for RedisCache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RedisCache").finish_non_exhaustive()
    }
}
