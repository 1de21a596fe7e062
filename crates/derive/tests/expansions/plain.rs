#[automatically_derived]
impl ::diesel_outbox::OutboxMessage for OrderPlaced {
    const TOPIC: ::core::option::Option<&'static str> = ::core::option::Option::Some(
        "orders",
    );
    const KIND: &'static str = "order.placed";
    const FINGERPRINTS: &'static [&'static str] = &["dcc6891457be53bf"];
    fn fingerprint(&self) -> ::core::option::Option<&'static str> {
        ::core::option::Option::Some("dcc6891457be53bf")
    }
    fn key(&self) -> ::core::option::Option<::std::borrow::Cow<'_, str>> {
        ::core::option::Option::Some(
            ::std::borrow::Cow::Owned(::std::string::ToString::to_string(&self.order_id)),
        )
    }
    fn payload(
        &self,
    ) -> ::core::result::Result<
        ::core::option::Option<::std::vec::Vec<u8>>,
        ::diesel_outbox::CodecError,
    > {
        ::core::result::Result::map(
            <::diesel_outbox::codec::Json as ::diesel_outbox::codec::Codec<
                Self,
            >>::encode(self),
            ::core::option::Option::Some,
        )
    }
    fn payload_text(
        payload: &[u8],
    ) -> ::core::result::Result<::std::string::String, ::diesel_outbox::CodecError> {
        <::diesel_outbox::codec::Json as ::diesel_outbox::codec::Codec<
            Self,
        >>::text(payload)
    }
    fn check_codec() -> ::core::result::Result<(), ::diesel_outbox::CodecError> {
        <::diesel_outbox::codec::Json as ::diesel_outbox::codec::Codec<Self>>::check()
    }
}
