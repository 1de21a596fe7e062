#[automatically_derived]
impl ::diesel_outbox::OutboxMessage for CustomerChange {
    const TOPIC: ::core::option::Option<&'static str> = ::core::option::Option::Some(
        "customers",
    );
    const KIND: &'static str = "customer_change";
    const KINDS: &'static [&'static str] = &["customer.changed", "erased"];
    fn kind(&self) -> ::std::borrow::Cow<'_, str> {
        ::std::borrow::Cow::Borrowed(
            match self {
                Self::Changed { .. } => "customer.changed",
                Self::Erased { .. } => "erased",
            },
        )
    }
    const FINGERPRINTS: &'static [&'static str] = &["a1758a11fe95a420"];
    fn fingerprint(&self) -> ::core::option::Option<&'static str> {
        match self {
            Self::Changed { .. } => ::core::option::Option::Some("a1758a11fe95a420"),
            _ => ::core::option::Option::None,
        }
    }
    fn key(&self) -> ::core::option::Option<::std::borrow::Cow<'_, str>> {
        match self {
            Self::Changed { id: field_0, .. } => {
                ::core::option::Option::Some(
                    ::std::borrow::Cow::Owned(
                        ::std::string::ToString::to_string(&(*field_0)),
                    ),
                )
            }
            Self::Erased { id: field_0, .. } => {
                ::core::option::Option::Some(
                    ::std::borrow::Cow::Owned(
                        ::std::string::ToString::to_string(&(*field_0)),
                    ),
                )
            }
        }
    }
    fn payload(
        &self,
    ) -> ::core::result::Result<
        ::core::option::Option<::std::vec::Vec<u8>>,
        ::diesel_outbox::CodecError,
    > {
        match self {
            Self::Erased { .. } => {
                ::core::result::Result::Ok(::core::option::Option::None)
            }
            _ => {
                ::core::result::Result::map(
                    <::diesel_outbox::codec::Json as ::diesel_outbox::codec::Codec<
                        Self,
                    >>::encode(self),
                    ::core::option::Option::Some,
                )
            }
        }
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
