//! The expansion takes nothing from its surroundings and warns of nothing.
#![no_implicit_prelude]
#![deny(warnings)]

#[derive(::serde::Serialize, ::diesel_outbox::OutboxMessage)]
#[outbox(topic = self.headers, key = ask?, headers("value" = value, "ask" = ask?, "sum" = self.value + 1))]
struct Shadowing {
    headers: &'static str,
    ask: ::std::option::Option<&'static str>,
    value: u8,
}

#[allow(dead_code)]
#[derive(::serde::Serialize, ::diesel_outbox::OutboxMessage)]
#[outbox(topic = "names", key = field_0, headers("sum" = field_0))]
enum Some {
    None {
        field_0: u8,
        #[outbox(header)]
        headers: u8,
    },
    Ok {
        #[outbox(header)]
        field_0: u8,
    },
}

#[test]
fn expansion_uses_no_name_of_its_surroundings() {
    use ::diesel_outbox::OutboxMessage;
    use ::std::assert_eq;
    use ::std::iter::Iterator;
    use ::std::option::Option;

    let event = Shadowing { headers: "names", ask: Option::Some("key"), value: 1 };
    assert_eq!(event.topic(), "names");
    assert_eq!(event.key().as_deref(), Option::Some("key"));
    let headers = event.headers();
    let value = |name| headers.get(name).map(<[u8]>::to_vec);
    assert_eq!(value("value").as_deref(), Option::Some(&b"1"[..]));
    assert_eq!(value("ask").as_deref(), Option::Some(&b"key"[..]));
    assert_eq!(value("sum").as_deref(), Option::Some(&b"2"[..]));

    let headers = Some::None { field_0: 1, headers: 2 }.headers();
    assert_eq!(headers.iter().map(|(_, value)| value[0]).collect::<::std::vec::Vec<_>>(), [b'1', b'2']);
}
