use std::path::Path;
use std::{env, fs};

/// Compares each `expansions/NAME.rs` with what `NAME`'s input expands to; `EXPANSIONS=overwrite` accepts what it is now.
#[test]
fn expansions_are_as_recorded() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/expansions");
    let mut stale = Vec::new();
    for (name, input) in INPUTS {
        let file = folder.join(name).with_extension("rs");
        let expanded = expanded(input);
        if env::var_os("EXPANSIONS").is_some_and(|mode| mode == "overwrite") {
            fs::write(&file, &expanded).unwrap();
        }
        let recorded = fs::read_to_string(&file).unwrap_or_default();
        if recorded != expanded {
            stale.push(format!("{name}: recorded\n{recorded}\nexpands to\n{expanded}"));
        }
    }
    assert!(stale.is_empty(), "{}", stale.join("\n"));
    let recorded = fs::read_dir(folder).unwrap().count();
    assert_eq!(recorded, INPUTS.len(), "a file in tests/expansions belongs to no input");
}

fn expanded(input: &str) -> String {
    let expansion = crate::expand::derive(&syn::parse_str(input).unwrap());
    prettyplease::unparse(&syn::parse2(expansion).unwrap())
}

const INPUTS: &[(&str, &str)] = &[
    (
        "plain",
        r#"#[outbox(topic = "orders", kind = "order.placed", key = order_id)]
        struct OrderPlaced { order_id: i64, total_cents: i64 }"#,
    ),
    (
        "every_value",
        r#"#[outbox(
            topic = region.topic, kind = kinds::MOVED, key = format!("{}-{}", self.shop, self.number), codec = Raw,
            headers("text" = "shop", "bytes" = b"\x00", "number" = 3, "constant" = SOURCE, "chain" = account?.id, "sum" = self.a + self.b),
            crate = renamed::outbox
        )]
        struct Moved {
            region: Region, account: Option<Account>,
            #[outbox(header)] r#type: String,
            #[outbox(header = "trace")] trace_id: Option<Vec<u8>>,
        }"#,
    ),
    (
        "generic",
        r#"#[outbox(topic = "changes", key = id)]
        struct Changed<'a, T: Clone = u8, const N: usize = 0> where T: 'a { id: Id<T>, tags: [&'a str; N], #[outbox(header)] by: Option<T> }"#,
    ),
    ("tombstone", r#"#[outbox(topic = "customers", tombstone)] struct Erased(#[outbox(key)] i64);"#),
    (
        "enum_with_own_kinds",
        r#"#[outbox(topic = "customers", key = id)]
        enum CustomerChange {
            #[outbox(kind = "customer.changed")] Changed { id: i64, name: String },
            #[outbox(tombstone)] Erased { id: i64 },
        }"#,
    ),
    (
        "enum_with_marks",
        r#"#[outbox(topic = "audit", kind = "audited")]
        enum Audited {
            Login(#[outbox(key)] String, #[outbox(header = "tenant")] Option<u32>),
            #[outbox(kind = "audit.reset")] Reset,
        }"#,
    ),
    ("with_mistakes", r#"#[outbox(kind = "", crate = renamed)] struct Wrong<T> where T: Copy { field: T }"#),
];
