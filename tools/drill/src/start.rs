//! The start of a drill: servers, tables, application, Prometheus, and the commands of the runbooks.

use std::net::TcpListener;
use std::sync::{Arc, Mutex};

use anyhow::{Context, Result};
use xtask::servers::{Kafka, Postgres, Prometheus, kafka, postgres};
use xtask::stop::Stop;

use crate::blocks::Environment;
use crate::receiver::Receiver;
use crate::shop_process::Shop;
use crate::world::{QUEUE_ROWS_MAX, World, psql};
use crate::{control, rules, shop, tables};

/// How often Prometheus scrapes and evaluates: a window of five minutes, shortened, still holds ten scrapes.
const PROMETHEUS: &str = "
global: { scrape_interval: 1s, scrape_timeout: 1s, evaluation_interval: 1s }
rule_files: [rules.yml]
scrape_configs:
  - job_name: shop
    static_configs: [{ targets: ['TARGET'], labels: { namespace: drill } }]
";

/// The tools of the runbooks, with their classes.
const KAFKA_TOOLS: [(&str, &str); 3] = [
    ("kafka-topics.sh", "org.apache.kafka.tools.TopicCommand"),
    ("kafka-configs.sh", "kafka.admin.ConfigCommand"),
    ("kafka-consumer-groups.sh", "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"),
];

/// Starts everything; dropping the result stops it.
pub(crate) fn start(stop: &Stop) -> Result<Arc<World>> {
    let folder = tempfile::tempdir().context("make a folder")?;
    let server =
        postgres::Options { settings: vec![("log_min_messages".to_owned(), "fatal".to_owned())], ..Default::default() };
    let postgres = Postgres::start(&server)?;
    let kafka = Kafka::start(&kafka::Options::default())?;
    let url = postgres.url();
    let login = url.rsplit_once('@').and_then(|(login, _)| login.rsplit_once(':'));
    let (_, password) = login.context("the URL of a server has a login")?;
    let url_of = |role: &str| format!("postgres://{role}:{password}@127.0.0.1:{}/outbox", postgres.port());
    psql(&url, &[tables::roles(password), tables::migrations()?, tables::RIGHTS.to_owned()].concat())?;
    let receiver = Receiver::start()?;
    let config = shop::Config {
        database_url: url_of("shop"),
        notices_url: url_of("shop_notices"),
        consumer_url: url_of("billing"),
        bootstrap: kafka.bootstrap(),
        receiver: receiver.url(),
        port: free_port()?,
        queue_rows_max: QUEUE_ROWS_MAX,
        bug: None,
    };
    let mut shop = Shop::new(config, folder.path().join("shop.log"), stop);
    shop.start()?;
    let rules = rules::read(&crate::ops().join("prometheus/rules.yml"))?;
    let settings = PROMETHEUS.replace("TARGET", &shop.address());
    let prometheus = Prometheus::start(&settings, &[("rules.yml", &rules)])?;
    let control = TcpListener::bind(("127.0.0.1", 0)).context("listen for commands")?;
    let tools = KAFKA_TOOLS.iter().map(|(name, class)| Ok((*name, kafka.tool(class)?))).collect::<Result<Vec<_>>>()?;
    control::write_commands(folder.path(), &tools)?;
    let path = format!("{}:{}", folder.path().display(), std::env::var("PATH").unwrap_or_default());
    let variables = [
        ("PATH", path),
        ("DATABASE_URL", url.clone()),
        ("KAFKA", kafka.bootstrap()),
        (control::ADDRESS, control.local_addr()?.to_string()),
    ];
    let variables = variables.map(|(name, value)| (name.to_owned(), value)).to_vec();
    let world = Arc::new(World {
        shop: Mutex::new(shop),
        kafka: Mutex::new(kafka),
        postgres: Mutex::new(postgres),
        prometheus,
        receiver,
        cleanup: Mutex::default(),
        environment: Environment { variables },
        stop: stop.clone(),
        database_url: url,
        _folder: folder,
    });
    control::serve(control, Arc::downgrade(&world));
    Ok(world)
}

/// A port that is free now.
fn free_port() -> Result<u16> {
    Ok(TcpListener::bind(("127.0.0.1", 0)).context("find a port")?.local_addr()?.port())
}
