//! Comparing a history with its topic: how long it takes beside reading both, and the memory of its process.

use std::io::Read as _;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, Result, ensure};
use diesel::sql_types::{BigInt, Binary, Text, Uuid as SqlUuid};
use diesel::{QueryableByName, sql_query};
use diesel_async::{AsyncPgConnection, RunQueryDsl, SimpleAsyncConnection};
use diesel_outbox::store::PostgresStore;
use diesel_outbox::transport::KafkaConfig;
use diesel_outbox::{Envelope, Outbox, Topic};
use diesel_outbox_verify::{KafkaSource, Verification};
use serde::{Deserialize, Serialize};
use tokio::task::block_in_place;
use uuid::Uuid;

use crate::arguments::{BenchEnv, Plan};
use crate::broker::{self, BareProducer};
use crate::cpu::CpuMeter;
use crate::database;
use crate::reader::Reader;
use crate::relay_process::kib;
use crate::report::{Figure, LegLog, Target};

const TOPIC: &str = "verified";
const ROWS: usize = 10_000_000;

/// Takes the record that each producer sends to connect.
const OTHER_TOPIC: &str = "not-verified";

/// Rows that are not sent, and rows that are sent twice: a comparison that finds nothing shows nothing.
const LOST: usize = 3;
const DOUBLED: usize = 2;

/// Rows of one FETCH.
const PAGE: usize = 1_000;

/// A row as a relay reads it.
#[derive(QueryableByName)]
struct Row {
    #[diesel(sql_type = SqlUuid)]
    message_id: Uuid,
    #[diesel(sql_type = Text)]
    key: String,
    #[diesel(sql_type = Binary)]
    payload: Vec<u8>,
    #[diesel(sql_type = BigInt)]
    created_us: i64,
}

/// What the comparing process prints.
#[derive(Serialize, Deserialize)]
struct Leg {
    seconds: f64,
    bare_seconds: f64,
    peak_mib: f64,
    sent: u64,
    records: u64,
    matched: u64,
    lost: u64,
    doubled: u64,
    wrong: u64,
}

pub(crate) async fn run(plan: &Plan, env: &BenchEnv, leg_log: &mut LegLog) -> Result<Vec<Figure>> {
    let rows = plan.messages(ROWS);
    broker::make_topics(&env.kafka, &[TOPIC, OTHER_TOPIC]).await?;
    fill(env, rows).await?;
    send(env, rows).await?;
    let (mut by_bare, mut peaks) = (Vec::new(), Vec::new());
    for _ in 0..plan.rounds(1) {
        let bare_seconds = read_both(env, rows).await?;
        let cpu = CpuMeter::start(env.root)?;
        let leg = Leg { bare_seconds, ..block_in_place(compare_in_process)? };
        leg_log.leg("compare", cpu.stop()?, &leg)?;
        let Leg { sent, records, matched, lost, doubled, wrong, .. } = leg;
        ensure!((sent, records, matched) == (rows as u64, (rows - LOST + DOUBLED) as u64, (rows - LOST) as u64));
        ensure!(
            (lost, doubled, wrong) == (LOST as u64, DOUBLED as u64, 0),
            "{lost} lost, {doubled} doubled, {wrong} others"
        );
        by_bare.push(leg.seconds / bare_seconds);
        peaks.push(leg.peak_mib);
    }
    broker::delete_topic(&env.kafka, TOPIC).await?;
    Ok(vec![
        Figure::new("verify, memory of its process", "MiB", peaks, Target::AtMost(100.0)),
        Figure::new("verify, time by that of reading both", "", by_bare, Target::None),
    ])
}

/// A history whose messages were enqueued a microsecond apart.
async fn fill(env: &BenchEnv, rows: usize) -> Result<()> {
    let mut conn = database::connect(&env.postgres).await?;
    conn.batch_execute("SET synchronous_commit = off").await?;
    let history = format!(
        "INSERT INTO outbox_history (id, message_id, topic, lane, key, kind, headers, payload, epoch, attempts, failures, errors, \
           created_at, sent_at, falls_on, awaits_processing) \
         SELECT g, gen_random_uuid(), '{TOPIC}', -1, (g % 100000)::text, 'order.placed', '[]', sha256(g::text::bytea), 0, 0, 0, '[]', \
           at, at, (now() + interval '30 days')::date, false \
         FROM generate_series(1, {rows}) g, \
           LATERAL (SELECT now() - interval '1 hour' + g * interval '1 microsecond' AS at) t"
    );
    conn.batch_execute(&history).await.context("fill the history")?;
    conn.batch_execute("ANALYZE outbox_history").await?;
    conn.batch_execute("CHECKPOINT").await.context("checkpoint")
}

/// Calls `each` with every row, in the order they were written.
async fn each_row(conn: &mut AsyncPgConnection, mut each: impl FnMut(Row) -> Result<()>) -> Result<()> {
    conn.batch_execute("SET synchronize_seqscans = off; BEGIN").await?;
    let rows = "DECLARE kept CURSOR FOR SELECT message_id, key, payload, (extract(epoch FROM created_at) * 1000000)::bigint \
                AS created_us FROM outbox_history";
    conn.batch_execute(rows).await?;
    loop {
        let page: Vec<Row> = sql_query(format!("FETCH {PAGE} FROM kept")).load(conn).await?;
        if page.is_empty() {
            return conn.batch_execute("COMMIT").await.context("commit");
        }
        block_in_place(|| page.into_iter().try_for_each(&mut each))?;
    }
}

/// Sends the history as a relay does, but for a few mistakes.
async fn send(env: &BenchEnv, rows: usize) -> Result<()> {
    let producer = BareProducer::new(&env.kafka, OTHER_TOPIC, rows + DOUBLED, &[])?;
    let (mut row_number, mut sent) = (0, 0);
    let mut conn = database::connect(&env.postgres).await?;
    each_row(&mut conn, |row| {
        row_number += 1;
        let copies = match row_number {
            row if row <= LOST => 0,
            row if row > rows - DOUBLED => 2,
            _ => 1,
        };
        let created_at = SystemTime::UNIX_EPOCH + Duration::from_micros(row.created_us.unsigned_abs());
        let mut envelope = Envelope::new(row.message_id.into(), TOPIC.into(), created_at);
        (envelope.key, envelope.payload) = (Some(row.key), Some(row.payload));
        envelope.kind = "order.placed".to_owned();
        for _ in 0..copies {
            producer.send_as_relayed(sent, &envelope)?;
            sent += 1;
        }
        Ok(())
    })
    .await?;
    block_in_place(|| producer.until_delivered(sent))
}

/// How long it takes to read the table and the topic, one after the other, and to do nothing with them.
async fn read_both(env: &BenchEnv, rows: usize) -> Result<f64> {
    let started = Instant::now();
    let mut conn = database::connect(&env.postgres).await?;
    let mut read = 0;
    each_row(&mut conn, |_| {
        read += 1;
        Ok(())
    })
    .await?;
    ensure!(read == rows, "{read} of {rows} rows");
    let records = block_in_place(|| Reader::new(&env.kafka, TOPIC)?.read_all())?;
    ensure!(records == (rows - LOST + DOUBLED) as u64, "{records} records");
    Ok(started.elapsed().as_secs_f64())
}

/// This program again, so that its memory is that of the comparison alone.
fn compare_in_process() -> Result<Leg> {
    let mut child = Command::new(std::env::current_exe()?)
        .args(["--verify", TOPIC])
        .stdout(Stdio::piped())
        .spawn()
        .context("start the comparing process")?;
    let mut printed = String::new();
    child.stdout.take().context("its output is piped")?.read_to_string(&mut printed)?;
    ensure!(child.wait()?.success(), "the comparing process failed");
    serde_json::from_str(&printed).with_context(|| format!("read what it printed: {printed}"))
}

/// The comparing process.
pub(crate) async fn compare(env: &BenchEnv, topic: &str) -> Result<String> {
    let started = Instant::now();
    let outbox = Outbox::builder().topic(Topic::new(topic).keep_sent_days(30)).build().context("build the outbox")?;
    let admin = outbox.admin(PostgresStore::connect(env.postgres.as_str())?);
    let mut source = KafkaSource::new(&KafkaConfig::new(&env.kafka));
    let report = Verification::of(&admin, topic).run(&mut source, |_| {}).await.context("verify")?;
    let status = std::fs::read_to_string("/proc/self/status").context("read /proc/self/status")?;
    let (counts, compared) = (&report.counts, &report.compared);
    ensure!(report.cannot_tell.is_empty(), "cannot tell: {:?}", report.cannot_tell);
    let wrong = counts.phantom.count + counts.reordered.count + counts.altered.count + counts.early.count;
    let leg = Leg {
        seconds: started.elapsed().as_secs_f64(),
        bare_seconds: 0.0,
        peak_mib: kib(&status, "VmHWM:")? as f64 / 1024.0,
        sent: compared.sent,
        records: compared.records,
        matched: compared.matched,
        lost: counts.lost.count,
        doubled: counts.doubled.count,
        wrong,
    };
    serde_json::to_string(&leg).context("print the result")
}
