use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt::Display;

use diesel_outbox::CodecError;
use diesel_outbox::codec::{Codec, Raw};
use diesel_outbox::{Headers, OutboxMessage};
use serde::Serialize;

fn headers(message: &impl OutboxMessage) -> Vec<(String, Vec<u8>)> {
    message.headers().iter().map(|(name, value)| (name.to_owned(), value.to_vec())).collect()
}

fn pair(name: &str, value: impl Into<Vec<u8>>) -> (String, Vec<u8>) {
    (name.to_owned(), value.into())
}

fn json(message: &impl OutboxMessage) -> String {
    let payload = message.payload().expect("encoded").expect("a payload");
    String::from_utf8(payload).expect("UTF-8")
}

#[derive(Serialize, OutboxMessage)]
#[outbox(topic = "orders", key = order_id)]
struct OrderPlaced {
    order_id: i64,
    total_cents: i64,
}

#[test]
fn defaults_are_snake_case_kind_json_and_no_headers() {
    let placed = OrderPlaced { order_id: 42, total_cents: 1999 };
    assert_eq!(OrderPlaced::TOPIC, Some("orders"));
    assert_eq!(placed.topic(), "orders");
    assert_eq!(OrderPlaced::KIND, "order_placed");
    assert_eq!(placed.kind(), "order_placed");
    assert_eq!(placed.key().as_deref(), Some("42"));
    assert_eq!(placed.headers(), Headers::new());
    assert_eq!(json(&placed), r#"{"order_id":42,"total_cents":1999}"#);
}

#[test]
fn without_key_there_is_none() {
    #[derive(Serialize, OutboxMessage)]
    #[outbox(topic = "ticks")]
    struct Ticked;

    assert_eq!(Ticked.key(), None);
    assert_eq!(json(&Ticked), "null");
}

struct Account {
    id: u32,
    region: Option<Cow<'static, str>>,
}

impl Account {
    fn region(&self) -> Option<&str> {
        self.region.as_deref()
    }
}

const SOURCE: &str = "shop";

/// Every way to write a value, over one event; `account` is neither `Copy` nor `Display`.
#[derive(OutboxMessage)]
#[outbox(topic = format!("orders-{}", self.shop), kind = kinds::SHIPPED, key = account?.id, codec = Csv)]
#[outbox(headers(
    "text" = "fixed",
    "bytes" = b"\xff\x00",
    "number" = 3,
    "constant" = SOURCE,
    "path" = kinds::SHIPPED,
    "field" = shop,
    "chain" = lines[0].len(),
    "asked" = account?.region?,
    "method" = self.account.as_ref()?.region()?,
    "macro" = format!("{}/{}", self.shop, self.account.as_ref()?.id),
    "sum" = self.shop + 1,
    "text" = "again",
))]
struct Shipped {
    account: Option<Account>,
    shop: u8,
    lines: Vec<&'static str>,
    #[outbox(header)]
    r#type: &'static str,
    #[outbox(header = "digest")]
    sha: [u8; 2],
    #[outbox(header = "trace")]
    trace_id: Option<Vec<u8>>,
}

mod kinds {
    pub(super) const SHIPPED: &str = "order.shipped";
}

struct Csv;

impl Codec<Shipped> for Csv {
    fn encode(event: &Shipped) -> Result<Vec<u8>, CodecError> {
        if event.lines.is_empty() {
            return Err(CodecError::new("no lines"));
        }
        Ok(event.lines.join(",").into_bytes())
    }
}

fn shipped(account: Option<Account>) -> Shipped {
    Shipped { account, shop: 7, lines: vec!["pen", "ink"], r#type: "air", sha: [0xca, 0xfe], trace_id: None }
}

#[test]
fn values_are_read_as_documented() {
    let account = Account { id: 9, region: Some("eu".into()) };
    let event = Shipped { trace_id: Some(vec![0x80]), ..shipped(Some(account)) };
    assert_eq!((Shipped::TOPIC, &*event.topic()), (None, "orders-7"));
    assert_eq!(Shipped::KIND, "order.shipped");
    assert_eq!(event.key().as_deref(), Some("9"));
    assert_eq!(event.payload().unwrap().unwrap(), b"pen,ink");
    let expected = [
        pair("text", "fixed"),
        pair("bytes", [0xff, 0x00]),
        pair("number", "3"),
        pair("constant", "shop"),
        pair("path", "order.shipped"),
        pair("field", "7"),
        pair("chain", "3"),
        pair("asked", "eu"),
        pair("method", "eu"),
        pair("macro", "7/9"),
        pair("sum", "8"),
        pair("text", "again"),
        pair("type", "air"),
        pair("digest", [0xca, 0xfe]),
        pair("trace", [0x80]),
    ];
    assert_eq!(headers(&event), expected);
}

#[test]
fn none_on_the_way_means_no_key_and_no_header() {
    let names = |event: &Shipped| headers(event).into_iter().map(|(name, _)| name).collect::<Vec<_>>();

    let without_account = shipped(None);
    assert_eq!(without_account.key(), None);
    let rest = ["text", "bytes", "number", "constant", "path", "field", "chain", "sum", "text", "type", "digest"];
    assert_eq!(names(&without_account), rest);

    let without_region = shipped(Some(Account { id: 9, region: None }));
    assert_eq!(without_region.key().as_deref(), Some("9"));
    assert!(names(&without_region).contains(&"macro".to_owned()));
    assert!(!names(&without_region).contains(&"asked".to_owned()));
}

#[test]
fn the_codecs_error_reaches_the_caller() {
    let event = Shipped { lines: vec![], ..shipped(None) };
    assert_eq!(event.payload().unwrap_err().to_string(), "the codec failed: no lines");
}

#[test]
fn the_type_may_choose_topic_and_key_by_its_fields() {
    #[derive(Serialize, OutboxMessage)]
    #[outbox(topic = region.topic)]
    struct Routed {
        region: Region,
        #[outbox(key, header = "tenant")]
        tenant: Option<String>,
    }
    #[derive(Serialize)]
    struct Region {
        topic: String,
    }

    let routed = |tenant| Routed { region: Region { topic: "orders-eu".to_owned() }, tenant };
    let known = routed(Some("acme".to_owned()));
    assert_eq!((Routed::TOPIC, &*known.topic()), (None, "orders-eu"));
    assert_eq!(known.key().as_deref(), Some("acme"));
    assert_eq!(headers(&known), [pair("tenant", "acme")]);
    let unknown = routed(None);
    assert_eq!((unknown.key(), unknown.headers()), (None, Headers::new()));
}

#[test]
fn a_constant_topic_is_fixed() {
    const AUDIT: &str = "audit";

    #[derive(Serialize, OutboxMessage)]
    #[outbox(topic = AUDIT)]
    struct Audited;

    assert_eq!(Audited::TOPIC, Some("audit"));
}

#[test]
fn raw_sends_the_events_own_bytes() {
    #[derive(OutboxMessage)]
    #[outbox(topic = "images", codec = Raw)]
    struct Image(Vec<u8>);

    impl AsRef<[u8]> for Image {
        fn as_ref(&self) -> &[u8] {
            &self.0
        }
    }

    assert_eq!(Image(vec![0xff, 0xd8]).payload().unwrap().unwrap(), [0xff, 0xd8]);
}

#[test]
fn a_tombstone_has_a_key_and_no_payload() {
    #[derive(OutboxMessage)]
    #[outbox(topic = "customers", tombstone, key = self.0)]
    struct Erased(i64);

    assert_eq!(Erased(7).key().as_deref(), Some("7"));
    assert_eq!(Erased(7).payload().unwrap(), None);
}

#[test]
fn variants_have_kinds_of_their_own_and_may_be_tombstones() {
    #[derive(Serialize, OutboxMessage)]
    #[serde(untagged)]
    #[outbox(topic = "customers", key = id, headers("name" = name?))]
    enum CustomerChange {
        #[outbox(kind = "customer.renamed")]
        Renamed { id: i64, name: Option<String> },
        #[outbox(tombstone)]
        Erased { id: Option<i64>, name: Option<String> },
    }

    let renamed = CustomerChange::Renamed { id: 7, name: Some("Ada".to_owned()) };
    assert_eq!(renamed.kind(), "customer.renamed");
    assert_eq!(renamed.key().as_deref(), Some("7"));
    assert_eq!(headers(&renamed), [pair("name", "Ada")]);
    assert_eq!(json(&renamed), r#"{"id":7,"name":"Ada"}"#);

    let erased = CustomerChange::Erased { id: Some(7), name: None };
    assert_eq!((CustomerChange::KIND, &*erased.kind()), ("customer_change", "erased"));
    assert_eq!(erased.key().as_deref(), Some("7"));
    assert_eq!(erased.headers(), Headers::new());
    assert_eq!(erased.payload().unwrap(), None);
    assert_eq!(CustomerChange::Erased { id: None, name: None }.key(), None);
}

#[test]
fn each_variant_marks_its_own_fields() {
    #[derive(Serialize, OutboxMessage)]
    #[outbox(topic = "audit", kind = "audited")]
    enum Audited {
        Login(#[outbox(key)] String, #[outbox(header = "tenant")] u32),
        Reset,
        #[outbox(kind = "audit.purged")]
        Purged {
            #[outbox(header)]
            tenant: u32,
            #[outbox(key, header)]
            by: &'static str,
        },
    }

    let login = Audited::Login("ada".to_owned(), 1);
    assert_eq!((login.key().as_deref(), &*login.kind()), (Some("ada"), "audited"));
    assert_eq!(headers(&login), [pair("tenant", "1")]);
    assert_eq!((Audited::Reset.key(), Audited::Reset.headers()), (None, Headers::new()));
    let purged = Audited::Purged { tenant: 2, by: "cron" };
    assert_eq!((purged.key().as_deref(), &*purged.kind()), (Some("cron"), "audit.purged"));
    assert_eq!(headers(&purged), [pair("tenant", "2"), pair("by", "cron")]);
}

#[test]
fn generics_lifetimes_and_where_clauses_work() {
    #[derive(Serialize, OutboxMessage)]
    #[outbox(topic = "changes", key = self.id.clone().into(), headers("first" = by))]
    struct Changed<'a, T, B: ?Sized, const N: usize>
    where
        T: Clone + Into<String>,
    {
        id: T,
        by: &'a B,
        #[outbox(header)]
        note: Option<T>,
        #[serde(skip)]
        #[outbox(header)]
        raw: [u8; N],
    }

    // Nothing but what the fields need: a bound too many would not compile here.
    fn sent<'a, T, B>(id: T, by: &'a B) -> impl OutboxMessage + use<'a, T, B>
    where
        T: Serialize + Display + Clone + Into<String>,
        B: Serialize + Display + ?Sized,
    {
        Changed { note: Some(id.clone()), id, by, raw: [1, 2] }
    }

    let changed = sent("order-7", "ada");
    assert_eq!(changed.key().as_deref(), Some("order-7"));
    assert_eq!(headers(&changed), [pair("first", "ada"), pair("note", "order-7"), pair("raw", [1, 2])]);
    assert_eq!(json(&changed), r#"{"id":"order-7","by":"ada","note":"order-7"}"#);
}

#[test]
fn a_parameter_that_is_no_header_needs_no_display() {
    #[derive(Serialize, OutboxMessage)]
    #[outbox(topic = "batches", key = id)]
    struct Batch<T> {
        id: u8,
        rows: T,
    }

    let batch = Batch { id: 1, rows: BTreeMap::from([("a", [1, 2])]) };
    assert_eq!(json(&batch), r#"{"id":1,"rows":{"a":[1,2]}}"#);
}

#[test]
fn a_renamed_library_is_found() {
    mod elsewhere {
        pub(super) use diesel_outbox as outbox;
    }

    #[derive(Serialize, elsewhere::outbox::OutboxMessage)]
    #[outbox(topic = "ticks", crate = elsewhere::outbox)]
    struct Ticked;

    assert_eq!(Ticked.topic(), "ticks");
}

#[test]
fn fields_and_values_may_come_from_a_macro() {
    macro_rules! event {
        ($name:ident, $topic:expr, $key:ident: $ty:ty) => {
            #[derive(Serialize, OutboxMessage)]
            #[outbox(topic = $topic, key = $key, headers("key" = self.$key?))]
            struct $name {
                $key: $ty,
            }
        };
    }
    event!(Ticked, "ticks", at: Option<u64>);

    assert_eq!(Ticked::TOPIC, Some("ticks"));
    assert_eq!(Ticked { at: Some(3) }.key().as_deref(), Some("3"));
}

#[test]
fn each_payload_has_a_fingerprint_and_a_tombstone_none() {
    #[derive(Serialize, OutboxMessage)]
    #[outbox(topic = "customers")]
    enum Change {
        Changed {
            id: i64,
        },
        #[outbox(tombstone)]
        Erased {
            id: i64,
        },
    }
    #[derive(OutboxMessage)]
    #[outbox(topic = "customers", tombstone)]
    struct Erased;

    let [placed] = OrderPlaced::FINGERPRINTS else { panic!("a struct has one shape") };
    let order = OrderPlaced { order_id: 42, total_cents: 1999 };
    assert_eq!((placed.len(), order.fingerprint()), (16, Some(*placed)));
    assert_eq!(OutboxMessage::fingerprint(&&order), Some(*placed));
    assert_eq!(order.delay(std::time::Duration::from_secs(1)).fingerprint(), Some(*placed));
    let [changed] = Change::FINGERPRINTS else { panic!("one variant has a payload") };
    assert_eq!(Change::Changed { id: 7 }.fingerprint(), Some(*changed));
    assert_eq!(Change::Erased { id: 7 }.fingerprint(), None);
    assert_eq!((Erased::FINGERPRINTS, Erased.fingerprint()), (&[][..], None));
}
