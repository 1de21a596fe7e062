#[automatically_derived]
impl renamed::outbox::OutboxMessage for Moved {
    const TOPIC: ::core::option::Option<&'static str> = ::core::option::Option::None;
    fn topic(&self) -> ::std::borrow::Cow<'_, str> {
        ::std::borrow::Cow::Owned(::std::string::ToString::to_string(&self.region.topic))
    }
    const KIND: &'static str = kinds::MOVED;
    const FINGERPRINTS: &'static [&'static str] = &["d653999da17be590"];
    fn fingerprint(&self) -> ::core::option::Option<&'static str> {
        ::core::option::Option::Some("d653999da17be590")
    }
    fn key(&self) -> ::core::option::Option<::std::borrow::Cow<'_, str>> {
        ::core::option::Option::Some(
            ::std::borrow::Cow::Owned(
                ::std::string::ToString::to_string(
                    &format!("{}-{}", self.shop, self.number),
                ),
            ),
        )
    }
    fn headers(&self) -> renamed::outbox::Headers {
        let mut headers = renamed::outbox::Headers::new();
        headers.push("text", "shop");
        headers.push("bytes", b"\x00");
        headers.push("number", ::std::string::ToString::to_string(&3));
        headers.push("constant", ::std::string::ToString::to_string(&SOURCE));
        let ask = || ::core::option::Option::Some(
            ::std::string::ToString::to_string(
                &::core::option::Option::as_ref(&self.account)?.id,
            ),
        );
        if let ::core::option::Option::Some(value) = ask() {
            headers.push("chain", value);
        }
        headers.push("sum", ::std::string::ToString::to_string(&(self.a + self.b)));
        headers.push("type", ::std::string::ToString::to_string(&self.r#type));
        let ask = || ::core::option::Option::Some(
            <[u8]>::to_vec(&::core::option::Option::as_ref(&self.trace_id)?),
        );
        if let ::core::option::Option::Some(value) = ask() {
            headers.push("trace", value);
        }
        headers
    }
    fn payload(
        &self,
    ) -> ::core::result::Result<
        ::core::option::Option<::std::vec::Vec<u8>>,
        renamed::outbox::CodecError,
    > {
        ::core::result::Result::map(
            <Raw as renamed::outbox::codec::Codec<Self>>::encode(self),
            ::core::option::Option::Some,
        )
    }
    fn payload_text(
        payload: &[u8],
    ) -> ::core::result::Result<::std::string::String, renamed::outbox::CodecError> {
        <Raw as renamed::outbox::codec::Codec<Self>>::text(payload)
    }
    fn check_codec() -> ::core::result::Result<(), renamed::outbox::CodecError> {
        <Raw as renamed::outbox::codec::Codec<Self>>::check()
    }
}
