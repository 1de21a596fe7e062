//! The dashboard as a program: who reaches it, what they may do, and how it ends.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use diesel_outbox::admin::AuditFilter;
use rustix::process::{Pid, Signal, kill_process};

use super::program::program;
use super::shop::{Kind, Shop, order};

const DEADLINE: Duration = Duration::from_secs(60);
const TOKEN: &str = "0123456789abcdef";
const COOKIE: &str = "outbox_{port}=0123456789abcdef";

struct Web {
    process: Child,
    /// What it prints after the first two lines.
    lines: Receiver<String>,
    address: String,
    /// Where it says that it is: the second line.
    place: String,
}

struct Response {
    status: u16,
    text: String,
}

impl Response {
    fn header(&self, name: &str) -> &str {
        let head = self.text.split("\r\n\r\n").next().unwrap_or_default();
        let mut lines = head.lines().filter_map(|line| line.split_once(": "));
        lines.find(|(known, _)| known.eq_ignore_ascii_case(name)).map_or("", |(_, value)| value)
    }
}

impl Web {
    /// Starts it on a free port.
    fn start(shop: &Shop, args: &[&str], token: Option<&str>) -> Self {
        let args = [&["web", "--listen", "127.0.0.1:0"], args].concat();
        let mut command = program(&shop.url, &args);
        match token {
            Some(token) => command.env("OUTBOX_WEB_TOKEN", token),
            None => command.env_remove("OUTBOX_WEB_TOKEN"),
        };
        let mut process = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("run the program");
        let printed = BufReader::new(process.stderr.take().expect("its errors")).lines();
        let (sender, lines) = channel();
        thread::spawn(move || printed.map_while(Result::ok).all(|line| sender.send(line).is_ok()));
        let line = || lines.recv_timeout(DEADLINE).expect("a line");
        let (first, place) = (line(), line());
        let address = first.split(' ').nth(2).expect(&first).trim_end_matches(',').to_owned();
        Self { process, lines, address, place }
    }

    fn port(&self) -> &str {
        self.address.rsplit_once(':').expect("a port").1
    }

    fn send(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Response {
        let mut stream = TcpStream::connect(&self.address).expect("connect");
        stream.set_read_timeout(Some(DEADLINE)).expect("a deadline");
        let host = headers.iter().find(|(name, _)| *name == "host").map_or(&*self.address, |(_, host)| host);
        let others = headers.iter().filter(|(name, _)| *name != "host");
        let others: String = others.map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        let length = body.len();
        let head = format!(
            "{method} {path} HTTP/1.1\r\nhost: {host}\r\n{others}connection: close\r\ncontent-length: {length}\r\n\r\n"
        );
        stream.write_all((head + body).as_bytes()).expect("send");
        let mut text = String::new();
        stream.read_to_string(&mut text).expect("a response");
        let status = text.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
        Response { status, text }
    }

    fn get(&self, path: &str, cookie: &str) -> Response {
        self.send("GET", path, &[("cookie", &cookie.replace("{port}", self.port()))], "")
    }

    /// A form of a page that a browser has from this origin.
    fn post(&self, path: &str, origin: &str, body: &str) -> Response {
        let cookie = COOKIE.replace("{port}", self.port());
        let form = ("content-type", "application/x-www-form-urlencoded");
        self.send("POST", path, &[("cookie", &cookie), ("origin", origin), form], body)
    }

    fn signal(&self, signal: Signal) {
        let id = i32::try_from(self.process.id()).ok().and_then(Pid::from_raw).expect("its id");
        kill_process(id, signal).expect("signal");
    }

    fn wait_for_line(&self, part: &str) {
        let end = Instant::now() + DEADLINE;
        loop {
            let line = self.lines.recv_timeout(end - Instant::now()).unwrap_or_else(|_| panic!("not printed: {part}"));
            if line.contains(part) {
                return;
            }
        }
    }

    fn ended(&mut self) -> ExitStatus {
        let end = Instant::now() + DEADLINE;
        loop {
            if let Some(status) = self.process.try_wait().expect("its state") {
                return status;
            }
            assert!(Instant::now() < end, "it has not ended");
            thread::yield_now();
        }
    }
}

impl Drop for Web {
    fn drop(&mut self) {
        // An error means that it has ended.
        let _ = self.process.kill().and_then(|()| self.process.wait());
    }
}

async fn needs_its_token(kind: Kind) {
    let Some(shop) = Shop::fresh(kind).await else { return };
    let id = shop.enqueue(&order("1")).await.to_string();
    let mut web = Web::start(&shop, &[], None);
    let (_, token) = web.place.split_once("/?token=").expect("a token is printed");
    let right = format!("outbox_{}={token}", web.port());
    for (path, cookie) in
        [("/overview", ""), ("/overview", "outbox_{port}=wrong"), ("/?token=wrong", &right), ("/nowhere", "")]
    {
        let refused = web.get(path, cookie);
        assert_eq!(refused.status, 403, "{path}, {cookie}: {}", refused.text);
        assert!(refused.text.contains("needs its token") && !refused.text.contains(token), "{}", refused.text);
    }
    let first = web.get(&format!("/messages?token={token}&topic=orders"), "");
    assert_eq!((first.status, first.header("location")), (303, "?topic=orders"));
    assert_eq!(first.header("set-cookie"), format!("{right}; Path=/; HttpOnly; SameSite=Lax"));
    let page = web.get("/messages?topic=orders", &right);
    assert!(page.status == 200 && page.text.contains(&id) && !page.text.contains(token), "{}", page.text);
    for path in ["/overview", "/topics", "/messages", "/calendar", "/lanes", "/dead-letters", "/history", "/jobs"] {
        assert_eq!(web.get(path, &right).status, 200, "{path}");
    }
    assert_eq!(web.get("/audit", &right).status, 403, "read-only is without the audit");
    web.signal(Signal::TERM);
    assert_eq!(web.ended().code(), Some(0));
}

#[tokio::test]
async fn the_dashboard_needs_its_token_on_postgres() {
    needs_its_token(Kind::Postgres).await;
}

#[tokio::test]
async fn the_dashboard_needs_its_token_on_mariadb() {
    needs_its_token(Kind::Mariadb).await;
}

#[tokio::test]
async fn the_dashboard_needs_its_token_on_sqlite() {
    needs_its_token(Kind::Sqlite).await;
}

async fn paused(shop: &Shop) -> usize {
    shop.admin().paused().await.expect("paused").len()
}

#[tokio::test]
async fn changes_need_rights_and_come_from_its_own_pages_on_sqlite() {
    let shop = Shop::fresh(Kind::Sqlite).await.expect("a file");
    let dead = shop.dead_letter(&order("1"), "refused: no").await.to_string();
    let reading = Web::start(&shop, &[], Some(TOKEN));
    assert!(!reading.place.contains(TOKEN), "a token that was given is not printed: {}", reading.place);
    let own = format!("http://{}", reading.address);
    assert_eq!(reading.post("/topics/pause", &own, "topic=orders&reason=x").status, 403);
    assert_eq!(paused(&shop).await, 0);

    let acting = Web::start(&shop, &["--rights", "all", "--actor", "alice"], Some(TOKEN));
    let own = format!("http://{}", acting.address);
    for other in ["http://evil.example.com", "null"] {
        assert_eq!(acting.post("/topics/pause", other, "topic=orders&reason=x").status, 403, "{other}");
    }
    assert_eq!(paused(&shop).await, 0);
    let done = acting.post("/topics/pause", &own, "topic=orders&reason=ticket+17");
    assert_eq!(done.status, 303, "{}", done.text);
    assert_eq!(paused(&shop).await, 1);
    let entries = shop.admin().audit(&AuditFilter::new().actor("alice"), None, 10).await.expect("audit").items;
    let [entry] = &entries[..] else { panic!("one entry: {entries:?}") };
    assert_eq!((&*entry.action, entry.reason.as_deref()), ("pause", Some("ticket 17")));

    let page = acting.get(&format!("/message?id={dead}"), COOKIE).text;
    assert!(page.contains(">Redrive</summary>") && !page.contains("Edit and redrive"), "{page}");
    let redriven = acting.post("/message/redrive", &own, &format!("id={dead}&reason=x"));
    assert_eq!(redriven.status, 303, "{}", redriven.text);
    assert!(shop.admin().live_message(dead.parse().expect("an id")).await.is_ok());
}

/// Another name that resolves to this address makes it a part of another site.
#[tokio::test]
async fn only_its_own_host_names_are_answered_on_sqlite() {
    let shop = Shop::fresh(Kind::Sqlite).await.expect("a file");
    let web = Web::start(&shop, &["--allow-anyone", "--rights", "all"], None);
    for (host, status) in
        [("evil.example.com", 421), ("127.0.0.1.evil.com", 421), ("localhost", 200), (&*web.address, 200)]
    {
        assert_eq!(web.send("GET", "/overview", &[("host", host)], "").status, status, "{host}");
    }
    let behind = Web::start(&shop, &["--allow-anyone", "--origin", "https://ops.example.com"], None);
    for (host, status) in [("evil.example.com", 421), ("ops.example.com", 200)] {
        assert_eq!(behind.send("GET", "/overview", &[("host", host)], "").status, status, "{host}");
    }
}

#[tokio::test]
async fn a_proxy_may_take_the_base_path_away_or_pass_it_on_on_sqlite() {
    let shop = Shop::fresh(Kind::Sqlite).await.expect("a file");
    let web = Web::start(&shop, &["--base-path", "/ops/outbox/"], Some(TOKEN));
    assert!(web.place.contains("/ops/outbox?token="), "{}", web.place);
    for path in ["/ops/outbox/topics", "/topics"] {
        let page = web.get(path, COOKIE);
        assert!(page.status == 200 && page.text.contains("href=\"/ops/outbox/overview\""), "{path}: {}", page.text);
    }
    let first = web.get(&format!("/?token={TOKEN}"), "");
    assert_eq!((first.status, first.header("location")), (303, "?"));
    assert!(first.header("set-cookie").contains("Path=/ops/outbox;"), "{}", first.text);
}

/// An open page keeps its event stream for a while.
#[tokio::test]
async fn a_second_signal_ends_it_at_once_on_sqlite() {
    let shop = Shop::fresh(Kind::Sqlite).await.expect("a file");
    let mut web = Web::start(&shop, &["--allow-anyone"], None);
    let mut stream = TcpStream::connect(&web.address).expect("connect");
    write!(stream, "GET /events HTTP/1.1\r\nhost: {}\r\n\r\n", web.address).expect("send");
    let mut status = [0; 15];
    stream.read_exact(&mut status).expect("a status");
    assert_eq!(&status, b"HTTP/1.1 200 OK");
    web.signal(Signal::TERM);
    web.wait_for_line("Ending");
    web.signal(Signal::INT);
    assert_eq!(web.ended().code(), Some(0));
}

#[tokio::test]
async fn unsafe_and_wrong_arguments_are_refused_on_sqlite() {
    let shop = Shop::fresh(Kind::Sqlite).await.expect("a file");
    let refused = shop.run(&["web", "--listen", "0.0.0.0:0"]);
    assert_eq!((refused.exit, refused.stdout.as_str()), (2, ""));
    for part in ["other machines may reach 0.0.0.0:0", "OUTBOX_WEB_TOKEN", "--allow-anyone"] {
        assert!(refused.stderr.contains(part), "{}", refused.stderr);
    }
    for (args, part) in [
        (&["--rights", "everything"][..], "view, payloads"),
        (&["--token", "short"], "at least 16"),
        (&["--origin", "ops.example.com"], "http://"),
        (&["--dry-run"], "--rights read-only"),
        (&["--token", TOKEN, "--allow-anyone"], "cannot be used with"),
    ] {
        let ran = shop.run(&[&["web"], args].concat());
        assert!(ran.exit == 2 && ran.stderr.contains(part), "{args:?}: {}", ran.stderr);
    }
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("listen");
    let address = taken.local_addr().expect("an address").to_string();
    let ran = shop.run(&["web", "--listen", &address]);
    assert!(ran.exit == 1 && ran.stderr.contains("--listen takes another"), "{}", ran.stderr);
}
