#[automatically_derived]
impl ::diesel_outbox::OutboxMessage for Erased {
    const TOPIC: ::core::option::Option<&'static str> = ::core::option::Option::Some(
        "customers",
    );
    const KIND: &'static str = "erased";
    fn key(&self) -> ::core::option::Option<::std::borrow::Cow<'_, str>> {
        ::core::option::Option::Some(
            ::std::borrow::Cow::Owned(::std::string::ToString::to_string(&self.0)),
        )
    }
    fn payload(
        &self,
    ) -> ::core::result::Result<
        ::core::option::Option<::std::vec::Vec<u8>>,
        ::diesel_outbox::CodecError,
    > {
        ::core::result::Result::Ok(::core::option::Option::None)
    }
}
