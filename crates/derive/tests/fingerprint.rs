use syn::parse_quote;

use crate::fingerprint::of;

fn json(item: syn::DeriveInput) -> Vec<String> {
    of(&item, &parse_quote!(Json))
}

fn one(item: syn::DeriveInput) -> String {
    let [fingerprint] = json(item).try_into().unwrap();
    fingerprint
}

/// The shapes by which other builds know them: neither their text nor the hash may change.
#[test]
fn fingerprints_are_the_same_in_every_version() {
    let placed = one(parse_quote!(
        struct OrderPlaced {
            order_id: i64,
            total_cents: i64,
        }
    ));
    assert_eq!(placed, "dcc6891457be53bf");
    // codec Avro
    // serde rename_all = "camelCase"
    // serde tag = "type"
    // variant Changed
    // field id: Vec < u8 >
    // field n: [ & ' a str ; 3 ]
    // serde flatten
    let item = parse_quote! {
        #[serde(tag = "type", rename_all = "camelCase", deny_unknown_fields)]
        enum Change<'a> { Changed { #[serde(rename = "id")] key: Vec<u8>, #[serde(skip)] local: u8, #[serde(flatten)] n: [&'a str; 3] } }
    };
    assert_eq!(of(&item, &parse_quote!(codecs::Avro<Warehouse>)), ["1bf1b524a06e6056"]);
}

#[test]
fn what_the_payload_does_not_show_changes_nothing() {
    let placed = one(parse_quote!(
        struct OrderPlaced {
            order_id: i64,
            note: Option<String>,
        }
    ));
    for same in [
        parse_quote!(
            struct OrderPlacedV1 {
                order_id: i64,
                note: Option<String>,
            }
        ),
        parse_quote!(
            #[outbox(topic = "orders", kind = "x")]
            pub struct OrderPlaced {
                #[outbox(key)]
                pub order_id: i64,
                note: Option<String>,
            }
        ),
        parse_quote!(
            #[doc = "An order."]
            struct OrderPlaced {
                #[doc = "Its number."]
                order_id: i64,
                note: Option<String>,
            }
        ),
        parse_quote!(
            #[serde(deny_unknown_fields)]
            struct OrderPlaced {
                order_id: i64,
                #[serde(default, alias = "text")]
                note: Option<String>,
            }
        ),
        parse_quote!(
            struct OrderPlaced {
                order_id: i64,
                #[serde(rename = "note")]
                text: Option<String>,
            }
        ),
        parse_quote!(
            struct OrderPlaced {
                order_id: i64,
                #[serde(rename(serialize = "note", deserialize = "x"))]
                text: Option<String>,
            }
        ),
        parse_quote!(
            struct OrderPlaced {
                order_id: i64,
                #[serde(skip)]
                cache: u8,
                note: Option<String>,
            }
        ),
        parse_quote!(
            struct OrderPlaced {
                r#order_id: i64,
                note: Option<String>,
            }
        ),
    ] {
        assert_eq!(one(same), placed);
    }
}

#[test]
fn what_the_payload_shows_makes_another() {
    let mut seen = Vec::new();
    for shape in [
        "struct OrderPlaced { order_id: i64, note: Option<String> }",
        "struct OrderPlaced { order_id: i32, note: Option<String> }",
        "struct OrderPlaced { id: i64, note: Option<String> }",
        "struct OrderPlaced { order_id: i64 }",
        "struct OrderPlaced { note: Option<String>, order_id: i64 }",
        "#[serde(rename_all = \"camelCase\")] struct OrderPlaced { order_id: i64, note: Option<String> }",
        "struct OrderPlaced { order_id: i64, #[serde(skip_serializing_if = \"Option::is_none\")] note: Option<String> }",
        "struct OrderPlaced { #[prost(int64, tag = \"1\")] order_id: i64, note: Option<String> }",
        "struct OrderPlaced { #[prost(int64, tag = \"2\")] order_id: i64, note: Option<String> }",
        "struct OrderPlaced { #[avro(default = \"0\")] order_id: i64, note: Option<String> }",
        "struct OrderPlaced(i64, Option<String>);",
        "enum OrderPlaced { Placed { order_id: i64, note: Option<String> } }",
    ] {
        let fingerprint = one(syn::parse_str(shape).expect("an item"));
        assert!(!seen.contains(&fingerprint), "{shape}");
        seen.push(fingerprint);
    }
    let placed = parse_quote!(
        struct OrderPlaced {
            order_id: i64,
            note: Option<String>,
        }
    );
    assert!(!seen.contains(&of(&placed, &parse_quote!(Protobuf))[0]));
    assert_eq!(of(&placed, &parse_quote!(Protobuf)), of(&placed, &parse_quote!(codecs::Protobuf)));
}

#[test]
fn a_new_variant_does_not_change_the_others() {
    let before = json(parse_quote!(
        enum Change {
            Changed {
                id: i64,
            },
            #[serde(rename = "gone")]
            Erased(i64),
        }
    ));
    let after = json(parse_quote!(
        enum Change {
            Added,
            Changed { id: i64 },
            gone(i64),
        }
    ));
    assert_eq!(before, after[1..]);
    assert_ne!(before[0], before[1]);
}
