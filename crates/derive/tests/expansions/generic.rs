#[automatically_derived]
impl<'a, T: Clone, const N: usize> ::diesel_outbox::OutboxMessage for Changed<'a, T, N>
where
    T: 'a,
    ::diesel_outbox::codec::Json: ::diesel_outbox::codec::Codec<Self>,
    Id<T>: ::core::fmt::Display,
    T: ::core::fmt::Display,
{
    const TOPIC: ::core::option::Option<&'static str> = ::core::option::Option::Some(
        "changes",
    );
    const KIND: &'static str = "changed";
    const FINGERPRINTS: &'static [&'static str] = &["5c101dabae8eacdc"];
    fn fingerprint(&self) -> ::core::option::Option<&'static str> {
        ::core::option::Option::Some("5c101dabae8eacdc")
    }
    fn key(&self) -> ::core::option::Option<::std::borrow::Cow<'_, str>> {
        ::core::option::Option::Some(
            ::std::borrow::Cow::Owned(::std::string::ToString::to_string(&self.id)),
        )
    }
    fn headers(&self) -> ::diesel_outbox::Headers {
        let mut headers = ::diesel_outbox::Headers::new();
        let ask = || ::core::option::Option::Some(
            ::std::string::ToString::to_string(
                &::core::option::Option::as_ref(&self.by)?,
            ),
        );
        if let ::core::option::Option::Some(value) = ask() {
            headers.push("by", value);
        }
        headers
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
