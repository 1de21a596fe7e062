#[automatically_derived]
impl ::diesel_outbox::OutboxMessage for Audited {
    const TOPIC: ::core::option::Option<&'static str> = ::core::option::Option::Some(
        "audit",
    );
    const KIND: &'static str = "audited";
    const KINDS: &'static [&'static str] = &[Self::KIND, "audit.reset"];
    fn kind(&self) -> ::std::borrow::Cow<'_, str> {
        ::std::borrow::Cow::Borrowed(
            match self {
                Self::Reset { .. } => "audit.reset",
                _ => Self::KIND,
            },
        )
    }
    const FINGERPRINTS: &'static [&'static str] = &[
        "90d3b9a721934e5a",
        "0dd44585f157e91d",
    ];
    fn fingerprint(&self) -> ::core::option::Option<&'static str> {
        match self {
            Self::Login { .. } => ::core::option::Option::Some("90d3b9a721934e5a"),
            Self::Reset { .. } => ::core::option::Option::Some("0dd44585f157e91d"),
        }
    }
    fn key(&self) -> ::core::option::Option<::std::borrow::Cow<'_, str>> {
        match self {
            Self::Login { 0: field_0, .. } => {
                ::core::option::Option::Some(
                    ::std::borrow::Cow::Owned(
                        ::std::string::ToString::to_string(&(*field_0)),
                    ),
                )
            }
            _ => ::core::option::Option::None,
        }
    }
    fn headers(&self) -> ::diesel_outbox::Headers {
        let mut headers = ::diesel_outbox::Headers::new();
        match self {
            Self::Login { 1: field_0, .. } => {
                let ask = || ::core::option::Option::Some(
                    ::std::string::ToString::to_string(
                        &::core::option::Option::as_ref(&(*field_0))?,
                    ),
                );
                if let ::core::option::Option::Some(value) = ask() {
                    headers.push("tenant", value);
                }
            }
            _ => {}
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
