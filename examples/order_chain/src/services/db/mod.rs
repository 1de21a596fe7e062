//! The services on the database of the parent module.

pub(in crate::services) mod coupon;
mod entries;
pub(in crate::services) mod points;
pub(in crate::services) mod stock;
mod tables;

use std::fmt;
use std::time::Duration;

use diesel::r2d2::{ConnectionManager, Pool};
use diesel_outbox::consumer::{KafkaConsumer, ParkedRecords, RunningConsumer};
use diesel_outbox::retry::Fixed;
use diesel_outbox::transport::KafkaConfig;

use super::{Db, create, pool};
use crate::Failure;
use crate::broker::{Broker, with_consumer};
use crate::domain::ORDERS;
use crate::services::ledger::{CouponReading, Ledgers, PointsReading, Service, StockReading};

/// Handlers at a time.
const WORKERS: u32 = 4;
/// Nobody looks after what is set aside, so a service rather tries for an hour. No message waits for one of another key.
const ATTEMPTS_MAX: u32 = 10_000;
const PARKED_MAX: usize = 100;

/// The services' databases.
#[derive(Clone)]
pub struct SqlLedgers {
    place: String,
    stock: Pool<ConnectionManager<Db>>,
    coupon: Pool<ConnectionManager<Db>>,
    points: Pool<ConnectionManager<Db>>,
}

impl fmt::Debug for SqlLedgers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The place may be a URL with a password.
        f.debug_struct("SqlLedgers").finish_non_exhaustive()
    }
}

impl SqlLedgers {
    /// Opens them: by the URL of a server, or in a folder.
    ///
    /// # Errors
    /// Returns an error if a pool cannot be built.
    pub fn open(place: &str) -> Result<Self, Failure> {
        for service in Service::ALL {
            create(place, service)?;
        }
        let of = |service| pool(place, service, 2);
        let (stock, coupon, points) = (of(Service::Stock)?, of(Service::Coupon)?, of(Service::Points)?);
        Ok(Self { place: place.to_owned(), stock, coupon, points })
    }

    fn of(&self, service: Service) -> &Pool<ConnectionManager<Db>> {
        match service {
            Service::Stock => &self.stock,
            Service::Coupon => &self.coupon,
            Service::Points => &self.points,
        }
    }
}

impl Ledgers for SqlLedgers {
    fn migrate(&self, units: &[i64], coupons: i64) -> Result<(), Failure> {
        for service in Service::ALL {
            // The tables are the same for each broker.
            KafkaConsumer::new(KafkaConfig::new(""), service.name()).migrate(&mut *self.of(service).get()?)?;
        }
        stock::migrate(&mut *self.stock.get()?, units)?;
        coupon::migrate(&mut *self.coupon.get()?, coupons)?;
        points::migrate(&mut *self.points.get()?)?;
        Ok(())
    }

    fn totals(&self) -> Result<Vec<(i64, i64)>, Failure> {
        Ok(stock::totals(&mut *self.stock.get()?)?)
    }

    fn stock(&self) -> Result<StockReading, Failure> {
        Ok(stock::read(&mut *self.stock.get()?)?)
    }

    fn coupons(&self) -> Result<CouponReading, Failure> {
        Ok(coupon::read(&mut *self.coupon.get()?)?)
    }

    fn points(&self) -> Result<PointsReading, Failure> {
        Ok(points::read(&mut *self.points.get()?)?)
    }

    fn parked(&self) -> Result<Vec<String>, Failure> {
        let mut found = Vec::new();
        for service in Service::ALL {
            let rows = ParkedRecords::new(service.name()).list(&mut *self.of(service).get()?, 0, PARKED_MAX)?;
            found.extend(rows.into_iter().map(|row| format!("{}: {}", service.name(), row.error)));
        }
        Ok(found)
    }

    fn start(&self, service: Service, broker: Broker) -> Result<RunningConsumer, Failure> {
        // Each worker has a connection, and the loop one more.
        let pool = pool(&self.place, service, WORKERS + 1)?;
        let waits = Fixed::from([20, 50, 100, 200, 500].map(Duration::from_millis).to_vec());
        let workers = usize::try_from(WORKERS).unwrap_or(1);
        Ok(with_consumer!(broker, service.name(), ORDERS, |consumer| {
            let consumer = consumer.workers(workers).retry(waits).attempts_max(ATTEMPTS_MAX);
            match service {
                Service::Stock => consumer.start(pool, stock::handle)?,
                Service::Coupon => consumer.start(pool, coupon::handle)?,
                Service::Points => consumer.start(pool, points::handle)?,
            }
        }))
    }
}
