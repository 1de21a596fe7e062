use diesel::prelude::*;
use diesel::sql_types::BigInt;
use xtask::servers::{Mariadb, mariadb::Options};
use xtask::test_servers;

use super::{is_gone, is_refused};

#[derive(QueryableByName)]
struct Count {
    #[diesel(sql_type = BigInt)]
    count: i64,
}

fn rows(url: &str) -> i64 {
    let mut conn = MysqlConnection::establish(url).expect("connect");
    diesel::sql_query("SELECT count(*) AS count FROM kept").get_result::<Count>(&mut conn).expect("count").count
}

#[test]
fn keeps_commits_through_kill_9_and_is_gone_after_drop() {
    let Some(mut server) = test_servers::own_or_skip(Mariadb::start(&Options::default())) else { return };
    let url = server.url();
    let mut conn = MysqlConnection::establish(&url).expect("connect");
    diesel::sql_query("CREATE TABLE kept (id int)").execute(&mut conn).expect("create");
    diesel::sql_query("INSERT INTO kept VALUES (1)").execute(&mut conn).expect("insert");
    let (port, first) = (server.port(), server.pid().expect("it runs"));

    server.kill9().expect("kill -9");
    assert!(is_gone(first) && is_refused(port), "a killed server answers no more");
    server.start_again().expect("start again");
    assert_eq!((rows(&url), server.port()), (1, port));

    server.stop().expect("stop");
    assert!(is_refused(port));
    server.start_again().expect("start after a stop");
    assert_eq!(rows(&url), 1);
    let last = server.pid().expect("it runs");
    drop(server);
    assert!(is_gone(last) && is_refused(port), "nothing outlives its owner");
}

#[test]
fn nobody_gets_in_without_the_password() {
    let Some(server) = test_servers::own_or_skip(Mariadb::start(&Options::default())) else { return };
    for user in ["root", "outbox", "nobody"] {
        let url = format!("mysql://{user}@127.0.0.1:{}", server.port());
        assert!(MysqlConnection::establish(&url).is_err(), "{user} got in");
    }
}
