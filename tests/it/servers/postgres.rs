use diesel::prelude::*;
use diesel::sql_types::BigInt;
use xtask::servers::{Postgres, postgres::Options};
use xtask::test_servers;

use super::{is_gone, is_refused};

#[derive(QueryableByName)]
struct Count {
    #[diesel(sql_type = BigInt)]
    count: i64,
}

fn rows(url: &str) -> i64 {
    let mut conn = PgConnection::establish(url).expect("connect");
    diesel::sql_query("SELECT count(*) AS count FROM kept").get_result::<Count>(&mut conn).expect("count").count
}

#[test]
fn keeps_commits_through_kill_9_and_is_gone_after_drop() {
    let Some(mut server) = test_servers::own_or_skip(Postgres::start(&Options::default())) else { return };
    let url = server.url();
    let mut conn = PgConnection::establish(&url).expect("connect");
    diesel::sql_query("CREATE TABLE kept (id int)").execute(&mut conn).expect("create");
    diesel::sql_query("INSERT INTO kept VALUES (1)").execute(&mut conn).expect("insert");
    let (port, first) = (server.port(), server.pid().expect("it runs"));

    server.kill9().expect("kill -9");
    assert!(is_gone(first) && is_refused(port), "a killed server answers no more");
    assert!(diesel::sql_query("SELECT 1").execute(&mut conn).is_err(), "its sessions die with it");
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
fn settings_reach_the_server() {
    let settings = vec![("statement_timeout".to_owned(), "1234ms".to_owned())];
    let Some(server) =
        test_servers::own_or_skip(Postgres::start(&Options { fsync: true, settings, ..Options::default() }))
    else {
        return;
    };
    let mut conn = PgConnection::establish(&server.url()).expect("connect");
    let sql = "SELECT count(*) AS count FROM pg_settings WHERE (name, setting) IN (('fsync', 'on'), ('statement_timeout', '1234'))";
    assert_eq!(diesel::sql_query(sql).get_result::<Count>(&mut conn).expect("query").count, 2);
}

#[test]
fn a_clock_of_its_own_goes_ahead_and_back_and_stays_so_through_kill_9() {
    let Some(mut server) =
        test_servers::own_or_skip(Postgres::start(&Options { own_clock: true, ..Options::default() }))
    else {
        return;
    };
    let mut seen = Vec::new();
    for ahead in [0, 3_600, -7_200] {
        server.clock().expect("it has one").set_ahead(1_000 * ahead).expect("set it");
        server.kill9().and_then(|()| server.start_again()).expect("kill and start it");
        let mut conn = PgConnection::establish(&server.url()).expect("connect");
        let query = diesel::sql_query("SELECT extract(epoch FROM clock_timestamp())::bigint AS count");
        seen.push(query.get_result::<Count>(&mut conn).expect("query").count - ahead);
    }
    // The machine's clock goes on meanwhile.
    assert!(seen.iter().all(|at| (seen[0]..seen[0] + 120).contains(at)), "{seen:?}");
    drop(server);
    let Some(server) = test_servers::own_or_skip(Postgres::start(&Options::default())) else { return };
    assert!(server.clock().is_none(), "it has the machine's");
}
