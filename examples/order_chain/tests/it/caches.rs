//! The stand-in and the real Redis behave the same.

use order_chain::cache::{Deduction, Load, MemoryCache, Reservation, StockCache};

fn reservation(id: &str, order_id: &str, quantity: i64) -> Reservation {
    Reservation { id: id.to_owned(), order_id: order_id.to_owned(), product_id: 1, quantity }
}

async fn load(cache: &dyn StockCache, generation: i64, reserved: Vec<Reservation>) -> bool {
    cache.load(&Load { product_id: 1, generation, available: 10, sold: 0, reserved }).await.expect("an answer")
}

async fn deducts_once_for_each_order(cache: &dyn StockCache) {
    let deduct = async |asked: &Reservation| cache.deduct(asked).await.expect("an answer");
    let (first, again) = (reservation("r1", "o1", 4), reservation("r2", "o1", 4));
    assert_eq!(deduct(&first).await, Deduction::UnknownProduct);
    assert!(load(cache, 7, Vec::new()).await);
    assert_eq!(deduct(&first).await, Deduction::Deducted { generation: 7 });
    let before = Deduction::DeductedBefore { generation: 7, reservation: first.clone() };
    assert_eq!(deduct(&again).await, before);
    assert_eq!(deduct(&reservation("r3", "o2", 7)).await, Deduction::NotEnough { available: 6 });
    assert_eq!(deduct(&reservation("r4", "o3", 6)).await, Deduction::Deducted { generation: 7 });
    assert!(!cache.give_back(&again).await.expect("an answer"), "it is another reservation");
    assert!(cache.give_back(&first).await.expect("an answer"));
    assert!(!cache.give_back(&first).await.expect("an answer"), "it is given back");
    assert!(cache.sell(&reservation("r4", "o3", 6)).await.expect("an answer"));
    assert!(!cache.sell(&reservation("r4", "o3", 6)).await.expect("an answer"), "it is sold");
    let shelf = cache.read(1).await.expect("an answer").expect("it is loaded");
    assert_eq!((shelf.generation, shelf.available, shelf.sold, shelf.reserved.len()), (7, 4, 6, 0));
}

async fn loads_later_generations_alone(cache: &dyn StockCache) {
    let kept = reservation("r1", "o1", 4);
    assert!(load(cache, 3, vec![kept.clone()]).await);
    assert!(!load(cache, 3, Vec::new()).await);
    assert!(!load(cache, 2, Vec::new()).await);
    let shelf = cache.read(1).await.expect("an answer").expect("it is loaded");
    assert_eq!(shelf.reserved.iter().map(|entry| &entry.reservation).collect::<Vec<_>>(), [&kept]);
    assert!(shelf.reserved[0].age_ms >= 0);
    assert!(load(cache, 4, Vec::new()).await);
    cache.unload(1).await.expect("an answer");
    assert_eq!(cache.read(1).await.expect("an answer"), None);
    assert!(load(cache, 4, Vec::new()).await, "nothing is there");
}

#[tokio::test]
async fn the_stand_in_deducts_once() {
    deducts_once_for_each_order(&MemoryCache::default()).await;
}

#[tokio::test]
async fn the_stand_in_loads_later_generations_alone() {
    loads_later_generations_alone(&MemoryCache::default()).await;
}

#[cfg(feature = "servers")]
mod redis {
    use std::time::{Duration, Instant};

    use order_chain::cache::{RedisCache, StockCache};
    use xtask::servers::Redis;
    use xtask::test_servers::own_or_skip;

    use super::{deducts_once_for_each_order, load, loads_later_generations_alone, reservation};

    fn open() -> Option<(Redis, RedisCache)> {
        let server = own_or_skip(Redis::start())?;
        let cache = RedisCache::new(&server.url()).expect("a URL of Redis");
        Some((server, cache))
    }

    #[tokio::test]
    async fn redis_deducts_once() {
        let Some((_server, cache)) = open() else { return };
        deducts_once_for_each_order(&cache).await;
    }

    #[tokio::test]
    async fn redis_loads_later_generations_alone() {
        let Some((_server, cache)) = open() else { return };
        loads_later_generations_alone(&cache).await;
    }

    /// Until there is an answer: the first call after an end finds a broken connection.
    async fn read(cache: &RedisCache) -> Option<order_chain::cache::Shelf> {
        let end = Instant::now() + Duration::from_secs(60);
        loop {
            match cache.read(1).await {
                Ok(shelf) => return shelf,
                Err(away) => assert!(Instant::now() < end, "{away}"),
            }
        }
    }

    #[tokio::test]
    async fn a_redis_that_was_restarted_has_to_be_loaded() {
        let Some((mut server, cache)) = open() else { return };
        assert!(load(&cache, 1, Vec::new()).await);
        server.kill9().expect("killed");
        assert!(cache.deduct(&reservation("r", "o", 1)).await.is_err());
        server.start_again().expect("started");
        assert_eq!(read(&cache).await, None);
        assert!(load(&cache, 2, Vec::new()).await);
        assert!(read(&cache).await.is_some());
    }

    /// It came back with an old snapshot: the product is there, and of another run.
    #[tokio::test]
    async fn a_product_of_another_run_is_not_served() {
        let Some((server, cache)) = open() else { return };
        assert!(load(&cache, 5, Vec::new()).await);
        let client = ::redis::Client::open(server.url()).expect("a URL of Redis");
        let mut commands = client.get_multiplexed_async_connection().await.expect("connected");
        let set: Result<i64, _> =
            ::redis::cmd("HSET").arg("stock:1").arg("run").arg("another").query_async(&mut commands).await;
        set.expect("set");
        assert_eq!(cache.read(1).await.expect("an answer"), None);
        let deduction = cache.deduct(&reservation("r", "o", 1)).await.expect("an answer");
        assert_eq!(deduction, order_chain::cache::Deduction::UnknownProduct);
        assert!(load(&cache, 2, Vec::new()).await, "whatever its generation was");
    }
}
